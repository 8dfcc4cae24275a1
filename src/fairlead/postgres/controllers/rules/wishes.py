"""What a PostgresAccess asks of its server: its spec checked, its end, and all of it as a value.

The controller works on it, and the commands tell what would be worked on. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fairlead.api.durations import parse_duration
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.timestamps import format_time, parse_time
from fairlead.postgres.controllers.rules.rotation import grace_of, rotation_of
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans.attributes import (
    check_attributes,
    check_members,
    valid_until,
)
from fairlead.postgres.database.plans.grants import check_grants
from fairlead.postgres.database.plans.logins import LoginTurns, family
from fairlead.postgres.database.plans.names import check_no_group, check_username
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.plan import Wanted
from fairlead.postgres.database.plans.snapshot import Claim
from fairlead.postgres.database.plans.targets import is_passed_on
from fairlead.postgres.errors import invalid, refusal
from fairlead.postgres.options import PostgresOptions


def check_spec(access: PostgresAccess) -> None:
    """Refuse what no server would take, and a username that has changed.

    Raises:
        AccessError: naming the field.
    """
    spec = access.spec
    check_username(spec.username)
    check_grants(spec.grants)
    check_members(spec.member_of or [], names_of(access))
    check_no_group(spec.orphan_to or "", "spec.orphanTo")
    grace_of(spec)
    if spec.attributes is not None:
        check_attributes(spec.attributes)
    known = access.status.username
    if known and known != spec.username:
        raise refusal(
            "UsernameChanged",
            f"spec.username was {known} and cannot be changed; set it back, or create another"
            " PostgresAccess",
        )


def needed_names(access: PostgresAccess) -> tuple[str, ...]:
    """The roles that an access asks for, its username first."""
    spec = access.spec
    return family(spec.username) if rotation_of(spec) == "TwoLogins" else (spec.username,)


def names_of(access: PostgresAccess) -> tuple[str, ...]:
    """The same, with those that it had before, and has still to end."""
    return family(access.spec.username) if access.status.logins else needed_names(access)


def end_of(created: str, after: str) -> datetime | None:
    """When an access ends that was created then; None where ``after`` is no duration of use."""
    duration = parse_duration(after)
    if duration is None or duration < timedelta() or not created:
        return None
    try:
        return parse_time(created) + duration
    except OverflowError:
        return None


def expires_at(access: PostgresAccess) -> str:
    """When the access ends, in RFC 3339; "" for never, and while it is being deleted.

    Raises:
        AccessError: InvalidSpec, when spec.expiresAfter is no duration.
    """
    meta, after = access.metadata, access.spec.expires_after
    if not after or meta.deleting:
        return ""
    ends = end_of(meta.creation_timestamp or "", after)
    if ends is None:
        raise invalid(
            "InvalidSpec", f"spec.expiresAfter {after} is not a duration; write one like 8h"
        )
    return format_time(ends)


def may_adopt(access: PostgresAccess, settings: PostgresOptions) -> bool:
    """Whether the access may take over a role that nobody has claimed."""
    return access.spec.adoption_policy == "IfUnclaimed" and settings.allow_adoption


def wanted_of(
    access: PostgresAccess,
    claim: Claim,
    *,
    password: str,
    ends: str,
    keeps: bool = False,
    turns: LoginTurns | None = None,
    iterations: int = ITERATIONS,
    adopt: bool = False,
    scope: str | None = "",
) -> Wanted:
    """All that an access asks for.

    Args:
        access: the object.
        claim: that it makes on its role.
        password: of the login; "" leaves that of a role which exists alone.
        ends: when it ends, "" for never.
        keeps: whether the role has to be there, with a password that stays as it is.
        turns: whose turn it is to log in.
        iterations: of the verifier of a new password.
        adopt: whether it may take over a role that nobody has claimed.
        scope: of the groups that it shares, see :class:`Wanted`.
    """
    spec, status = access.spec, access.status
    return Wanted(
        username=spec.username,
        password=password,
        keeps=keeps,
        iterations=iterations,
        claim=claim,
        grants=tuple(spec.grants),
        policy=spec.grants_policy,
        # What a group has was not granted to the login itself, but for what it may pass on.
        ledger=frozenset(
            line for line in status.applied_grants if not status.group or is_passed_on(line)
        ),
        attributes=spec.attributes,
        valid_until=valid_until(spec.attributes, ends, status.expires_at),
        member_of=None if spec.member_of is None else tuple(spec.member_of),
        adopt=adopt,
        turns=turns,
        scope=scope,
    )


def shares_groups(access: PostgresAccess, endpoint: Endpoint) -> bool:
    """Whether what the access asks for is put on a group."""
    if access.spec.groups is not None:
        return access.spec.groups == "Shared"
    return endpoint.shares_groups
