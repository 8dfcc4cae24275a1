"""The wishes of a PostgresAccess under the settings in force: a value that is made once a pass.

The controller works on it, and the commands tell what would be worked on. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.durations import parse_duration
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    FINALIZER,
    READY,
    PostgresAccess,
    PostgresAccessSpec,
)
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.timestamps import format_time, parse_time
from fairlead.postgres.controllers.rules.rotation import (
    PasswordRules,
    grace_of,
    password_defaults,
    password_rules,
)
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans.attributes import (
    check_attributes,
    check_members,
    valid_until,
)
from fairlead.postgres.database.plans.grants import check_grants
from fairlead.postgres.database.plans.logins import LoginTurns, family
from fairlead.postgres.database.plans.names import check_no_group, check_username, excluded
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.plan import Wanted
from fairlead.postgres.database.plans.snapshot import Claim
from fairlead.postgres.database.plans.targets import is_passed_on
from fairlead.postgres.errors import AccessError, invalid, refusal
from fairlead.postgres.options import PostgresOptions


Planning = Literal["", "Observe", "Manual"]
"""The reason why nothing is done at once, "" where there is none."""
_NAMESPACE = "namespace "
_NO_RULES = PasswordRules()
"""The rules where nothing asks for others."""


class Place(NamedTuple):
    """A server: ``owner`` is the PostgresServer, or the namespace of the accesses that name it."""

    owner: str
    endpoint: Endpoint

    @classmethod
    def of(cls, access: PostgresAccess, endpoint: Endpoint) -> Place:
        """Return the place of an access."""
        return cls(owner_of(access), endpoint)

    @property
    def is_trusted(self) -> bool:
        """Whether the platform's team names the server, rather than a tenant."""
        return not self.owner.startswith(_NAMESPACE)


def owner_of_server(name: str) -> str:
    """Return a PostgresServer as the owner of connections."""
    return f"PostgresServer {name}"


def owner_of(access: PostgresAccess) -> str:
    """Return the owner of the connection that an access is worked on through."""
    reference = access.spec.connection.server_ref
    return owner_named(reference.name if reference else "", access.metadata.namespace)


def owner_named(server: str, namespace: str) -> str:
    """Return the owner of connections of accesses that name a PostgresServer, or "" for none."""
    return owner_of_server(server) if server else _NAMESPACE + namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class Desired:
    """A PostgresAccess, its server, the settings in force, and the rules of its password.

    ``names`` are all roles that it has, its username first; ``ends`` is the time of its end, or ""
    for never. ``refused`` says why none of it can be worked on. Of an object that cannot be
    decoded only ``found`` is known.
    """

    found: Object
    access: PostgresAccess
    rules: PasswordRules | AccessError = _NO_RULES
    """The rules of the password, or what is wrong with them."""
    owner: str = ""
    names: tuple[str, ...] = ()
    ends: str = ""
    expired: bool = False
    ended: bool = False
    """Whether the role has gone because the access has expired."""
    excluded: bool = False
    adopts: bool = False
    """Whether the access may take over a role without a claim."""
    planning: Planning = ""
    place: Place | None = None
    """The server, once it was found."""
    refused: AccessError | None = None
    deleting: bool = False
    finalized: bool = False
    """Whether the object carries the operator's finalizer."""
    abandoned: bool = False
    """Whether the role of a deleted object is to be given up, whatever the policy says."""

    @property
    def reached(self) -> Place:
        """Return the server; actions that need it come only after it was found."""
        if self.place is None:
            raise AccessError("ConnectionFailed", "the server has not been found yet")
        return self.place

    def at(self, endpoint: Endpoint) -> Desired:
        """Return the same with its server."""
        return replace(self, place=Place(self.owner, endpoint))

    def stored(self, found: Object) -> Desired:
        """Return the same after a write of the object's metadata."""
        return replace(self, found=found, finalized=FINALIZER in found.meta.finalizers)


def desired_of(found: Object, settings: PostgresOptions | AccessError, now: datetime) -> Desired:
    """Return what an object asks for.

    Args:
        found: the object.
        settings: that are in force, or why there are none.
        now: this moment.
    """
    meta, refused = found.meta, None
    try:
        access = decode_access(found)
    except AccessError as error:
        unread = PostgresAccessSpec(generated_secret="", username="", connection=Connection())
        access, refused = PostgresAccess(metadata=meta, spec=unread), error
    desired = Desired(
        found=found,
        access=access,
        owner="" if refused else owner_of(access),
        refused=refused or (settings if isinstance(settings, AccessError) else None),
        deleting=meta.deleting,
        finalized=FINALIZER in meta.finalizers,
        abandoned=meta.annotations.get(ABANDON_ANNOTATION) == "true",
    )
    if refused is not None or isinstance(settings, AccessError):
        return desired
    spec, status, ends = access.spec, access.status, ""
    try:
        ends = expires_at(access)
    except AccessError as error:
        refused = error
    rules: PasswordRules | AccessError
    try:
        rules = password_rules(spec, password_defaults(settings.passwords))
    except AccessError as error:
        rules = error
    names = names_of(access)
    expired = bool(ends) and parse_time(ends) <= now
    ready = get_condition(status.conditions, READY)
    told = ready is not None and ready.reason == "Expired"
    users, patterns = settings.excluded_users, settings.excluded_user_patterns
    waits: Planning = "Manual" if spec.approval == "Manual" else ""
    return replace(
        desired,
        rules=rules,
        names=names,
        ends=ends,
        expired=expired,
        ended=expired and told and status.secret is None,
        excluded=any(excluded(name, users, patterns) for name in names),
        adopts=may_adopt(access, settings),
        planning="Observe" if spec.mode == "Observe" else waits,
        refused=refused,
    )


def decode_access(found: Object) -> PostgresAccess:
    """Return a PostgresAccess from what the API server holds.

    Raises:
        AccessError: InvalidSpec, naming the field.
    """
    try:
        return found.decode(PostgresAccess)
    except msgspec.ValidationError as error:
        raise invalid("InvalidSpec", f"PostgresAccess {found.key}: {error}") from None


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
    username, policy = access.spec.username, access.spec.password_policy
    takes_turns = policy is not None and policy.rotation == "TwoLogins"
    return family(username) if takes_turns else (username,)


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
    """Whether the access may take over a role without a claim."""
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
        adopt: whether it may take over a role without a claim.
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
