"""What a PostgresAccess asks of its server: its spec checked, its end, and all of it as a value.

The controller works on it, and the commands tell what would be worked on. Pure.
"""

from __future__ import annotations

from datetime import timedelta

from fairlead.api.durations import parse_duration
from fairlead.api.meta import ObjectMeta
from fairlead.api.postgresaccess import PostgresAccess, PostgresAccessSpec
from fairlead.api.timestamps import format_time, parse_time
from fairlead.postgres.database.attributes import check_attributes, check_members, valid_until
from fairlead.postgres.database.grants import check_grants
from fairlead.postgres.database.names import check_username
from fairlead.postgres.database.password import ITERATIONS
from fairlead.postgres.database.plan import Wanted
from fairlead.postgres.database.snapshot import Claim
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
    check_members(spec.member_of or [])
    if spec.attributes is not None:
        check_attributes(spec.attributes)
    known = access.status.username
    if known and known != spec.username:
        raise refusal(
            "UsernameChanged",
            f"spec.username was {known} and cannot be changed; set it back, or create another"
            " PostgresAccess",
        )


def end_of(meta: ObjectMeta, spec: PostgresAccessSpec) -> str:
    """When the access ends, in RFC 3339; "" for never.

    Raises:
        AccessError: InvalidSpec, when spec.expiresAfter is no duration.
    """
    after = spec.expires_after
    if not after:
        return ""
    duration, created = parse_duration(after), meta.creation_timestamp
    if duration is None or duration < timedelta() or not created:
        raise invalid(
            "InvalidSpec", f"spec.expiresAfter {after} is no duration; write one like 8h"
        )
    return format_time(parse_time(created) + duration)


def wanted_of(
    access: PostgresAccess,
    claim: Claim,
    settings: PostgresOptions,
    *,
    password: str,
    expires_at: str,
    iterations: int = ITERATIONS,
) -> Wanted:
    """All that an access asks for.

    Args:
        access: the object.
        claim: that it makes on its role.
        settings: in force.
        password: of the login; "" leaves that of a role which exists alone.
        expires_at: when it ends, "" for never.
        iterations: of the verifier of a new password.
    """
    spec, status = access.spec, access.status
    return Wanted(
        username=spec.username,
        password=password,
        iterations=iterations,
        claim=claim,
        grants=tuple(spec.grants),
        policy=spec.grants_policy,
        ledger=frozenset(status.applied_grants),
        attributes=spec.attributes,
        valid_until=valid_until(spec.attributes, expires_at, status.expires_at),
        member_of=None if spec.member_of is None else tuple(spec.member_of),
        adopt=spec.adoption_policy == "IfUnclaimed" and settings.allow_adoption,
    )
