"""The desired state of a PostgresAccess under the settings in force, a value of each pass.

The controller brings it into the server, and the commands plan it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeVar

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.decoding import field_message
from fairlead.api.durations import parse_duration
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    END_SESSIONS_ANNOTATION,
    FINALIZER,
    POSTGRESACCESSES,
    READY,
    PostgresAccess,
    PostgresAccessSpec,
)
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.api.timestamps import format_time, parse_time
from fairlead.postgres.controllers.rules.policy import named_secrets
from fairlead.postgres.controllers.rules.rotation import (
    PasswordRules,
    grace_of,
    mark_of,
    password_rules,
    turns_of,
)
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans.attributes import (
    check_attributes,
    check_members,
    moment_of,
    valid_until,
)
from fairlead.postgres.database.plans.grants import check_grants
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.names import check_no_group, check_username, excluded
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.plans.targets import is_passed_on
from fairlead.postgres.errors import AccessError, invalid
from fairlead.postgres.options import PostgresOptions


HeldBackBy = Literal["", "Observe", "Manual"]
"""Value of the field that holds statements back: of spec.mode or spec.approval, "" for neither."""
TWO_ENDS = (
    "spec.expiresAfter and spec.attributes.validUntil both end the login; remove one of them"
)
"""Message about an access with both."""
SHARED_GROUPS = "spec.groups Shared is deprecated"
"""Begin of the messages about shared groups, of an access and of a PostgresServer."""
GROUPS_REMEDY = "give the PostgresAccesses a common group role with spec.memberOf"
"""The remedy in them."""
_NAMESPACE = "namespace "
_NO_RULES = PasswordRules()
"""Rules of the password without any policy."""
REMARK = timedelta(days=7)
"""Longest time before the end of a login in which its status remarks on the end."""
_REMARKED_SHARE = 4
"""The share of a shorter life, as its divisor, after which the rest is remarked on."""
T = TypeVar("T")


class ServerPlace(NamedTuple):
    """A server; ``owner`` is its PostgresServer, or the namespace of accesses that name it."""

    owner: str
    endpoint: Endpoint

    @property
    def is_trusted(self) -> bool:
        """Whether the platform team names the server, rather than a tenant."""
        return not self.owner.startswith(_NAMESPACE)


def owner_of_server(name: str) -> str:
    """Return a PostgresServer as the owner of connections."""
    return f"PostgresServer {name}"


def owner_of(access: PostgresAccess) -> str:
    """Return the owner of an access's connection."""
    reference = access.spec.connection.server_ref
    return owner_named(reference.name if reference else "", access.metadata.namespace)


def owner_named(server: str, namespace: str) -> str:
    """Return the owner of connections of accesses that name a PostgresServer, or "" for none."""
    return owner_of_server(server) if server else _NAMESPACE + namespace


class LoginEnd(NamedTuple):
    """The end of a login by a field of the spec; it is remarked on from ``remark`` on."""

    at: datetime
    field: str
    remark: datetime

    @property
    def is_short(self) -> bool:
        """Whether the login was asked for a short time, so that its end was meant all along."""
        return self.at - self.remark < REMARK


@dataclass(frozen=True, kw_only=True, slots=True)
class Desired:
    """A PostgresAccess, its server, the settings in force, and the rules of its password.

    ``names`` are all its roles, its username first; ``ends`` is the time of its end, "" for never.
    ``refused`` is the error that stops the pass. An object that cannot be decoded has only
    ``obj``. All is worked out once, before the first action of a pass.
    """

    obj: Object
    access: PostgresAccess
    planned_at: datetime
    """Time of the plan: whatever comes after it, even during the pass, is for another pass."""
    password: PasswordRules | AccessError = _NO_RULES
    """Rules of the password, or the error in them."""
    owner: str = ""
    names: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    """Roles without former logins that have yet to end, the username first."""
    former: str = ""
    """Another username that the status has: that of the role, if it carries the claim."""
    secrets: frozenset[Key] = frozenset()
    """Secrets of tenants that a pass reads: of the connection, and of the password."""
    unsound: AccessError | None = None
    """Error of a spec that no server would take: it stops all work except a deletion."""
    ending: str = ""
    """Value of the annotation that asks for the end of open sessions, "" once that was done."""
    end: LoginEnd | None = None
    """End of the login by whichever field comes first, None for never."""
    ends: str = ""
    expired: bool = False
    login_over: bool = False
    """Whether the password logs in no more, while the access goes on."""
    ended: bool = False
    """Whether the role was removed at the end of the access."""
    excluded: bool = False
    adopts: bool = False
    """Whether the access may take over a role without a claim."""
    held_back_by: HeldBackBy = ""
    place: ServerPlace | None = None
    """Server of the access, None before it was found."""
    refused: AccessError | None = None
    deleting: bool = False
    finalized: bool = False
    """Whether the object carries the operator's finalizer."""
    abandoned: bool = False
    """Whether the deletion gives the role up, whatever the cleanup policy is."""

    @property
    def known_place(self) -> ServerPlace:
        """Return the server, which is known: actions that need it come only after it was found."""
        if self.place is None:
            raise AccessError("ConnectionFailed", "the server has not been found yet")
        return self.place

    @property
    def rules(self) -> PasswordRules:
        """Return the rules of the password.

        Raises:
            AccessError: PasswordPolicyInvalid; the message names the field.
        """
        if isinstance(self.password, AccessError):
            raise self.password
        return self.password

    @property
    def shares_groups(self) -> bool:
        """Whether a group holds the grants of the access, by its spec or else its server.

        The default of a server is for accesses that are in a group already.
        """
        groups = self.access.spec.groups
        if groups is None:
            return self.known_place.endpoint.shares_groups and bool(self.access.status.group)
        return groups == "Shared"

    def seconds_to_end(self, now: datetime) -> float | None:
        """Return the seconds until the end is remarked on or comes, None where neither will.

        An end that came after the plan of this pass returns 0.
        """
        times = [] if self.end is None else [self.end.remark, self.end.at]
        if self.ends:
            times.append(parse_time(self.ends))
        to_come = [time for time in times if time > self.planned_at]
        return max(0.0, (min(to_come) - now).total_seconds()) if to_come else None

    def at(self, endpoint: Endpoint) -> Desired:
        """Return the desired state of an access whose server was found at ``endpoint``."""
        return replace(self, place=ServerPlace(self.owner, endpoint))

    def stored(self, obj: Object) -> Desired:
        """Return the desired state after a write of the object's metadata."""
        return replace(self, obj=obj, finalized=FINALIZER in obj.meta.finalizers)

    def wanted_state(
        self,
        claim: RoleClaim,
        scope: str | None,
        *,
        login: str,
        password: str,
        keeps_password: bool = False,
        iterations: int = ITERATIONS,
        staged: bool = False,
    ) -> WantedState:
        """Return the wanted state of the access in its server.

        Args:
            claim: the claim of the object on its role.
            scope: the scope of the access's shared groups, see :class:`WantedState`.
            login: the login of the Secret.
            password: its password; "" leaves the password of an existing role alone.
            keeps_password: whether the role must exist and keeps its password.
            iterations: the SCRAM iterations of a new password's verifier.
            staged: whether the login is the next one, whose Secret has yet to be written.

        Raises:
            AccessError: PasswordPolicyInvalid; the message names the field.
        """
        spec, status = self.access.spec, self.access.status
        return WantedState(
            username=spec.username,
            password=password,
            keeps_password=keeps_password,
            iterations=iterations,
            claim=claim,
            grants=tuple(spec.grants),
            policy=spec.grants_policy,
            # A group holds the grants in place of the login, except those with a grant option.
            ledger=frozenset(
                line for line in status.applied_grants if not status.group or is_passed_on(line)
            ),
            attributes=spec.attributes,
            valid_until=valid_until(spec.attributes, self.ends, status.expires_at),
            member_of=None if spec.member_of is None else tuple(spec.member_of),
            adopt=self.adopts,
            turns=turns_of(self.access, login, staged=staged),
            ends_sessions=bool(self.ending) and not staged,
            scope=scope,
            plain=self.place is not None and self.place.endpoint.plain_passwords,
        )


def desired_of(obj: Object, settings: PostgresOptions | AccessError, now: datetime) -> Desired:
    """Return the desired state of an object.

    Args:
        obj: the object.
        settings: the settings in force, or the error in them.
        now: the present time.
    """
    try:
        access = decode_access(obj)
    except AccessError as error:
        unread = PostgresAccessSpec(generated_secret="", username="", connection=Connection())
        access = PostgresAccess(metadata=obj.meta, spec=unread)
        return _marked(obj, access, now, refused=error)
    if isinstance(settings, AccessError):
        return _marked(obj, access, now, refused=settings, owner=owner_of(access))
    return desired_of_access(access, settings, now, obj=obj)


def _marked(
    obj: Object,
    access: PostgresAccess,
    now: datetime,
    *,
    refused: AccessError | None,
    owner: str = "",
) -> Desired:
    """Return the desired state of an object by its metadata."""
    meta = obj.meta
    return Desired(
        obj=obj,
        access=access,
        planned_at=now,
        owner=owner,
        refused=refused,
        deleting=meta.deleting,
        finalized=FINALIZER in meta.finalizers,
        abandoned=meta.annotations.get(ABANDON_ANNOTATION) == "true",
    )


def desired_of_access(
    access: PostgresAccess,
    settings: PostgresOptions,
    now: datetime,
    *,
    obj: Object | None = None,
) -> Desired:
    """Return the desired state of an access, which may be from a manifest.

    Args:
        access: the access.
        settings: the settings in force.
        now: the present time.
        obj: the object of the access, None where no cluster has it.
    """
    kind = POSTGRESACCESSES
    obj = obj or Object(kind.api_version, kind.kind, access.metadata, b"")
    spec, status = access.spec, access.status
    ends, refused = _tried(lambda: expires_at(access), "")
    rules, wrong = _tried(lambda: password_rules(spec, settings.passwords), _NO_RULES)
    _, unsound = _tried(lambda: check_spec(access), None)
    names = names_of(access)
    end = end_of_login(access, ends)
    expired = bool(ends) and parse_time(ends) <= now
    ready = get_condition(status.conditions, READY)
    is_expired = ready is not None and ready.reason == "Expired"
    users, patterns = settings.excluded_users, settings.excluded_user_patterns
    waits: HeldBackBy = "Manual" if spec.approval == "Manual" else ""
    return replace(
        _marked(obj, access, now, refused=refused, owner=owner_of(access)),
        password=wrong or rules,
        names=names,
        needed=needed_names(access),
        former=former_of(access),
        secrets=named_secrets(access, settings),
        unsound=unsound,
        ending=ending_of(access),
        end=end,
        ends=ends,
        expired=expired,
        login_over=end is not None and not expired and end.at <= now,
        # In mode Observe the condition says Expired too: there the status still has the Secret.
        ended=expired and is_expired and status.secret is None,
        excluded=any(excluded(name, users, patterns) for name in names),
        adopts=may_adopt(access, settings),
        held_back_by="Observe" if spec.mode == "Observe" else waits,
    )


def _tried(work: Callable[[], T], default: T) -> tuple[T, AccessError | None]:
    """Return the result of a check and None, or the default and the error."""
    try:
        return work(), None
    except AccessError as error:
        return default, error


def decode_access(obj: Object) -> PostgresAccess:
    """Return the decoded PostgresAccess of an object.

    Raises:
        AccessError: InvalidSpec; the message names the field.
    """
    try:
        return obj.decode(PostgresAccess)
    except msgspec.ValidationError as error:
        raise invalid("InvalidSpec", f"PostgresAccess {obj.key}: {field_message(error)}") from None


def check_spec(access: PostgresAccess) -> None:
    """Refuse a spec that no server would take.

    Raises:
        AccessError: the spec is refused; the message names the field.
    """
    spec, names = access.spec, names_of(access)
    check_username(spec.username)
    check_grants(spec.grants)
    check_members(spec.member_of or [], names)
    check_no_group(spec.orphan_to or "", "spec.orphanTo")
    grace_of(spec)
    if spec.attributes is not None:
        check_attributes(spec.attributes)
    # What former versions have made goes on, and has a warning.
    if has_two_ends(spec) and not access.status.username:
        raise invalid("InvalidSpec", TWO_ENDS)
    if spec.groups == "Shared" and not has_shared(access):
        raise invalid(
            "InvalidSpec",
            f"PostgresAccess {access.metadata.key}: {SHARED_GROUPS}, and the operator refuses it"
            f" where no group holds the grants yet; remove the field, and {GROUPS_REMEDY}",
        )


def has_shared(access: PostgresAccess) -> bool:
    """Whether the last pass left the grants of an access to a group, or found none to leave."""
    status = access.status
    on_login = any(not is_passed_on(line) for line in status.applied_grants)
    return bool(status.group or (status.username and not on_login))


def check_server(server: PostgresServer) -> None:
    """Refuse a new PostgresServer that asks for shared groups.

    Raises:
        AccessError: InvalidSpec; the message names object, field and remedy.
    """
    ready = get_condition(server.status.conditions, READY)
    is_new = ready is None or ready.reason == "InvalidSpec"
    if server.spec.groups == "Shared" and is_new:
        raise invalid(
            "InvalidSpec",
            f"PostgresServer {server.metadata.name}: {SHARED_GROUPS}, and the operator refuses it"
            f" on a new server; remove the field, and {GROUPS_REMEDY}",
        )


def former_of(access: PostgresAccess) -> str:
    """Return the username of the status where it differs from that of the spec, "" otherwise.

    It proves nothing: others can write a status. The claim of the role does.
    """
    former = access.status.username
    return former if former != access.spec.username else ""


def ending_of(access: PostgresAccess) -> str:
    """Return the request to end open sessions, "" if there is none or the status has it."""
    request = mark_of(access.metadata, END_SESSIONS_ANNOTATION)
    done = access.status.sessions
    return "" if done is not None and done.request == request else request


def needed_names(access: PostgresAccess) -> tuple[str, ...]:
    """Return the names of the roles that an access needs, its username first."""
    username, policy = access.spec.username, access.spec.password_policy
    takes_turns = policy is not None and policy.rotation == "TwoLogins"
    return family(username) if takes_turns else (username,)


def names_of(access: PostgresAccess) -> tuple[str, ...]:
    """Return the names of an access's roles, with former logins that have yet to end."""
    return family(access.spec.username) if access.status.logins else needed_names(access)


def end_of(created: str, after: str) -> datetime | None:
    """Return the end of an access by its creation, None where ``after`` is no valid duration."""
    duration = parse_duration(after)
    if duration is None or duration < timedelta() or not created:
        return None
    try:
        return parse_time(created) + duration
    except OverflowError:
        return None


def expires_at(access: PostgresAccess) -> str:
    """Return the end of the access in RFC 3339, "" for never and during its deletion.

    Raises:
        AccessError: InvalidSpec, where spec.expiresAfter is no duration.
    """
    meta, after = access.metadata, access.spec.expires_after
    # A deletion follows spec.cleanupPolicy, whether the access has ended or not.
    if not after or meta.deleting:
        return ""
    ends = end_of(meta.creation_timestamp or "", after)
    if ends is None:
        raise invalid(
            "InvalidSpec", f"spec.expiresAfter {after} is not a duration; write one like 8h"
        )
    return format_time(ends)


def end_of_login(access: PostgresAccess, expires: str) -> LoginEnd | None:
    """Return the end of an access's login, None for never and during a deletion.

    Args:
        access: the access.
        expires: its end by spec.expiresAfter in RFC 3339, "" for none.
    """
    meta, attributes = access.metadata, access.spec.attributes
    until = moment_of(attributes.valid_until or "") if attributes is not None else None
    ends = [(until, "spec.attributes.validUntil")] if until is not None else []
    if expires:
        ends.append((parse_time(expires), "spec.expiresAfter"))
    if meta.deleting or not ends:
        return None
    at, field = min(ends)
    before = REMARK
    if meta.creation_timestamp:
        life = max(at - parse_time(meta.creation_timestamp), timedelta())
        before = min(before, life / _REMARKED_SHARE)
    return LoginEnd(at, field, at - before)


def has_two_ends(spec: PostgresAccessSpec) -> bool:
    """Whether two fields end the login, which objects of former versions may have."""
    attributes = spec.attributes
    return bool(spec.expires_after and attributes is not None and attributes.valid_until)


def may_adopt(access: PostgresAccess, settings: PostgresOptions) -> bool:
    """Whether the access may take over a role without a claim."""
    return access.spec.adoption_policy == "IfUnclaimed" and settings.allow_adoption
