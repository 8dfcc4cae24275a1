"""Missing statements for roles and databases, from desired accesses and a snapshot.

Pure: the same input gives the same plan (salts apart), and an empty plan if nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial

import msgspec
from msgspec.structs import force_setattr
from psycopg import sql

from fairlead.api.postgresaccess import Attributes, Grant, GrantsPolicy, LoginInfo, MemberOf
from fairlead.postgres.database.plans import statements
from fairlead.postgres.database.plans.approvals import Approval, digest_of, part_of
from fairlead.postgres.database.plans.attributes import (
    NOTHING_AROUND,
    Around,
    attribute_parts,
    membership_statements,
    refused_settings,
    setting_statements,
)
from fairlead.postgres.database.plans.differences import PrivilegeChange
from fairlead.postgres.database.plans.grants import DesiredGrants
from fairlead.postgres.database.plans.login_statements import (
    AskedLogins,
    acting_statements,
    ending_statements,
)
from fairlead.postgres.database.plans.logins import LoginTurns, create_owner, family, login_names
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.snapshot import (
    RoleClaim,
    RoleFacts,
    ServerFacts,
    ServerSnapshot,
)
from fairlead.postgres.database.plans.statements import (
    AccessStatement,
    DatabaseAction,
    SharedChange,
    database_grant,
)
from fairlead.postgres.database.plans.targets import parse
from fairlead.postgres.errors import AccessError, PasswordForm


_HIDDEN = "***"
"""Text in place of a password and of its verifier."""


class WantedState(msgspec.Struct, frozen=True, kw_only=True):
    """An access as its server shall have it, with the password of its Secret.

    ``Desired`` of the controllers is the access as its object asks for it; :meth:`Desired.wanted`
    makes this value of it, once claim, login and password are known.
    """

    username: str
    password: str
    claim: RoleClaim
    keeps_password: bool = False
    """Whether the role must exist already, made by hand, and keeps its password."""
    grants: tuple[Grant, ...] = ()
    policy: GrantsPolicy = "Authoritative"
    ledger: frozenset[str] = frozenset()
    """Privileges granted before, in lines of :meth:`DesiredGrants.describe`."""
    iterations: int = ITERATIONS
    attributes: Attributes | None = None
    valid_until: str | None = None
    """End of the password in ISO 8601, "" for no end, None to leave the server's value alone."""
    member_of: tuple[MemberOf, ...] | None = None
    adopt: bool = False
    """Whether the access adopts a role without a claim."""
    scope: str | None = ""
    """Key of accesses that share groups, "" for none.

    With None the scope is unknown, and existing grants are left alone.
    """
    turns: LoginTurns | None = None
    """Turns of logins beside the role; None if the access has and had no such logins."""
    ends_sessions: bool = False
    """Whether the open sessions of all its roles are ended, once."""
    plain: bool = False
    """Whether the server gets the password in place of its verifier."""
    login: str = ""
    """Name of the role with the password. It follows from the others, as do the next two."""
    names: tuple[str, ...] = ()
    """Names of all roles that the access has, or had."""
    needed: tuple[str, ...] = ()
    """Names of the roles that must belong to the access."""

    def __post_init__(self) -> None:
        own = (self.username,)
        names = own if self.turns is None else family(self.username)
        is_turning = self.turns is not None and self.turns.rotation == "TwoLogins"
        force_setattr(self, "login", self.username if self.turns is None else self.turns.current)
        force_setattr(self, "names", names)
        force_setattr(self, "needed", names if is_turning else own)

    def secret(self, verifier: str) -> str:
        """Return what the server gets as the password: its verifier, or the password itself."""
        return self.password if self.plain else verifier

    def own(self, snapshot: ServerSnapshot) -> dict[str, RoleFacts]:
        """Return the roles of the access; a former login counts only with the access's claim."""
        facts = {name: snapshot.roles[name] for name in self.names if name in snapshot.roles}
        return {
            name: role
            for name, role in facts.items()
            if name in self.needed or (role.claim and role.claim.same_object(self.claim))
        }

    @property
    def asked_logins(self) -> AskedLogins | None:
        """The part of the spec about logins; None without logins beside the role."""
        if self.turns is None:
            return None
        return AskedLogins(
            username=self.username,
            turns=self.turns,
            attributes=self.attributes,
            until=self.valid_until or "",
            groups=self.member_of is not None,
        )

    def __repr__(self) -> str:
        # The default has all fields, and so the password, in a log or a traceback.
        return f"Wanted({self.username!r})"


class DatabaseChange(SharedChange, frozen=True, kw_only=True):
    """A statement about privileges on a database."""

    action: DatabaseAction

    def only(self, usernames: Iterable[str]) -> DatabaseChange:
        """Return the same change for some of the roles."""
        return database_change(self.action, usernames)


def database_change(action: DatabaseAction, usernames: Iterable[str]) -> DatabaseChange:
    """Return the change of an action on a database for several roles."""
    names = tuple(usernames)
    return DatabaseChange(
        statement=database_grant(action, names),
        what=str(action),
        why=_REASONS[action.verb, action.option],
        usernames=names,
        action=action,
        on=action.database,
    )


_REASONS = {
    ("grant", False): "spec.grants ask for it, and it is not there",
    ("grant", True): "spec.grants ask for it with the grant option, which is missing",
    ("revoke", False): "it is there, and no grant in spec.grants asks for it",
    ("revoke", True): "spec.grants ask for it without the grant option",
}


class SessionsEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How many open sessions were ended, and how many of them were left."""

    ended: int = 0
    left: int = 0


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an access whose login works; ``problems`` are the grants that failed.

    ``created`` says that the role did not exist before. ``left_out`` are remarks on grants without
    which the others are complete.
    """

    server: ServerFacts
    applied: list[str]
    warnings: list[str]
    left_out: tuple[str, ...] = ()
    problems: tuple[AccessError, ...] = ()
    changed: bool = False
    created: bool = False
    group: str = ""
    """Name of the group with the privileges of the role, "" while no group has all of them."""
    logins: tuple[LoginInfo, ...] = ()
    """Status of the logins, empty for an access without logins beside the role."""
    retired: tuple[str, ...] = ()
    """Names of former logins that are to be dropped."""
    open_sessions: int = 0
    """Number of open sessions of the login that is in the Secret."""
    sessions: SessionsEnd | None = None
    """The end of open sessions, None where none was wanted."""

    @property
    def has_one_login(self) -> bool:
        """Whether no other login of the access than the current one can log in."""
        return all(one.current for one in self.logins)


# With an instance dictionary (dict=True), which cached_property needs.
class ShownPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A plan as texts, for status.plan and the commands; its digest is what an approval names.

    ``refused`` has by username the errors of accesses that would get a part of it, or nothing.
    ``remedies`` grant rights that the administrator lacks; another administrator has to run them.
    """

    statements: tuple[AccessStatement, ...]
    refused: Mapping[str, tuple[AccessError, ...]] = {}
    remedies: tuple[AccessStatement, ...] = ()
    after: str = ""
    """Digest of the plan that was approved before, so that an approval counts once."""
    place: str = ""
    """The server and the databases for which the plan was made."""
    whole: bool = True
    """Whether all could be read that the plan is about."""

    @cached_property
    def parts(self) -> frozenset[str]:
        """Hashes of its parts; the same statement for another reason needs no new approval."""
        parts: set[str] = set()
        for statement in self.statements:
            parts.update(
                [part_of(statement.database, statement.text)]
                if statement.windows is None
                else statement.windows
            )
        return frozenset(parts)

    @property
    def approval(self) -> Approval:
        """The approval of this plan."""
        return Approval(place=self.place, parts=self.parts)

    def is_within(self, approval: Approval) -> bool:
        """Whether all statements were approved, for the same databases."""
        return self.parts <= approval.parts if self.place == approval.place else not self.parts

    def digest(self) -> str:
        """Return the digest of all statements, of their place, and of the approval before."""
        return digest_of(self.parts, self.place, self.after)


def summarized(
    database: str, windows: Mapping[str, Sequence[PrivilegeChange]]
) -> Iterator[AccessStatement]:
    """Yield one text for each kind of object in the windows of a role, in place of statements.

    Args:
        database: the name of the database.
        windows: by their hashes the parts that are in windows.
    """
    kinds: dict[tuple[str, str, str, str, tuple[str, ...]], int] = {}
    for change in (part for some in windows.values() for part in some):
        words, way = change.summary
        key = (words, change.level, way, change.reason, change.usernames)
        kinds[key] = kinds.get(key, 0) + len(change.items)
    parts = tuple(windows)
    for (words, level, way, reason, usernames), count in sorted(kinds.items()):
        things = f"{count:,} {level}{'' if count == 1 else 's'}"
        names = sql.SQL(", ").join(map(sql.Identifier, usernames)).as_string()
        yield AccessStatement(
            database=database,
            statement=sql.SQL(f"{words} ON {things} {way} {names}"),
            why=reason,
            on=database,
            usernames=usernames,
            windows=parts,
        )
        # All windows are about the first text, and so about each other one.
        parts = ()


def plan_role(
    state: WantedState,
    snapshot: ServerSnapshot,
    verifier: str | None,
    around: Around = NOTHING_AROUND,
    *,
    now: datetime | None = None,
) -> tuple[list[AccessStatement], list[AccessError]]:
    """Return the missing changes of the roles of an access, and the errors of single parts.

    Args:
        state: the access.
        snapshot: the snapshot of the catalogs.
        verifier: the verifier of its password, None if the role has that password.
        around: facts about groups and parameters.
        now: this moment, which decides the ends of logins; by default the server's time.
    """
    name, logins = state.username, state.asked_logins
    role = snapshot.roles.get(name)
    # Memberships in shared groups are planned by ``plan_groups``. spec.memberOf does not name
    # them, and would revoke them.
    bare = snapshot.without_shared(role, state.claim.installation)
    if state.login == name:
        changes = list(_role_statements(state, role, verifier))
    else:
        changes = list(_owner_statements(state, role))
    memberships, problems = membership_statements(
        name,
        state.member_of,
        bare,
        around.groups,
        snapshot.server.version,
    )
    settings = [*setting_statements(name, state.attributes, role, around.reserved)]
    refused = refused_settings(state.attributes, around.reserved)
    changes += [
        msgspec.structs.replace(step, usernames=(name,), alone=True)
        for step in (*settings, *memberships)
    ]
    if logins is not None:
        moment = snapshot.server.moment if now is None else now
        changes += _login_statements(state, logins, snapshot, verifier, around, moment)
    return changes, [*refused, *problems]


def _owner_statements(state: WantedState, role: RoleFacts | None) -> Iterator[AccessStatement]:
    """Yield the missing changes of an owner whose logins are other roles."""
    name = state.username
    parts = attribute_parts(state.attributes, None, role)
    if role is None or parts:
        yield AccessStatement(
            statement=create_owner(name, parts)
            if role is None
            else statements.alter_role(name, login=False, secret=None, parts=parts),
            what=f"{'create' if role is None else 'change the attributes of'} role {name}",
            why="there is no role of this name" if role is None else _OTHER_ATTRIBUTES,
            usernames=(name,),
        )
    yield from _claim_statements(state, name, role)


def _login_statements(
    state: WantedState,
    logins: AskedLogins,
    snapshot: ServerSnapshot,
    verifier: str | None,
    around: Around,
    now: datetime,
) -> Iterator[AccessStatement]:
    """Yield the missing changes of the logins of a role, of the current one first."""
    own, version = state.own(snapshot), snapshot.server.version
    login, owner = state.login, (state.username,)
    steps: list[AccessStatement] = []
    if login != state.username:
        yield from _role_statements(state, own.get(login), verifier)
        steps += acting_statements(logins, login, own.get(login), version, around)
    steps += ending_statements(logins, own, version, now)
    for step in steps:
        yield msgspec.structs.replace(step, usernames=owner)
    for name in login_names(state.username):
        if name != login and name in own:
            yield from _claim_statements(state, name, own[name])


_OTHER_ATTRIBUTES = "spec asks for other attributes than the role has"


def _role_statements(
    state: WantedState, role: RoleFacts | None, verifier: str | None
) -> Iterator[AccessStatement]:
    """Yield the missing changes of the role with the password."""
    name = state.login
    # A login whose turn comes has an end from its last grace.
    until = state.valid_until or ("" if state.turns is not None else state.valid_until)
    wishes = state.attributes
    if name != state.username:
        # Before PostgreSQL 16 a login inherits from its owner by its own attribute INHERIT.
        wishes = msgspec.structs.replace(wishes or Attributes(), inherit=True)
    parts = attribute_parts(wishes, until, role)

    def change(compose: Callable[..., sql.Composed], what: str, *why: str) -> AccessStatement:
        sets: PasswordForm = ""
        if verifier is not None:
            sets = "plain" if state.plain else "verifier"
        return AccessStatement(
            statement=compose(secret=None if verifier is None else state.secret(verifier)),
            what=what,
            why="; ".join(why),
            usernames=(state.username,),
            shown=compose(secret=None if verifier is None else _HIDDEN).as_string(),
            sets=sets,
        )

    attributes = [_OTHER_ATTRIBUTES] if parts else []
    changed = role is None or not role.login or verifier is not None or bool(parts)
    if role is None:
        yield change(
            partial(statements.create_role, name, parts=parts),
            f"create role {name}",
            "there is no role of this name",
        )
    elif not role.login or verifier is not None:
        login = [] if role.login else ["the role may not log in"]
        password = [] if verifier is None else [_password_reason(role)]
        yield change(
            partial(statements.alter_role, name, login=not role.login, parts=parts),
            f"give role {name} its login",
            *login,
            *password,
            *attributes,
        )
    elif parts:
        yield change(
            partial(statements.alter_role, name, login=False, parts=parts),
            f"change the attributes of role {name}",
            *attributes,
        )
    yield from _claim_statements(state, name, role, changed=changed)


def _claim_statements(
    state: WantedState, name: str, role: RoleFacts | None, *, changed: bool = True
) -> Iterator[AccessStatement]:
    """Yield the missing claim; a claim by an import suffices until the role itself changes."""
    claim = role.claim if role is not None else None
    if claim is not None and claim.is_imported and not changed:
        return
    if claim is None or claim.text() != state.claim.text():
        yield AccessStatement(
            statement=statements.comment_role(name, state.claim, role.note if role else ""),
            what=f"claim role {name}",
            why=_claiming(role),
            usernames=(state.username,),
        )


def _password_reason(role: RoleFacts) -> str:
    if role.claim is None or role.claim.is_imported:
        return "a role that the object takes over gets a new password"
    return "the server has another password than the Secret"


def _claiming(role: RoleFacts | None) -> str:
    if role is None:
        return "the comment says which object created the role"
    if role.claim is None:
        return "no object claims the role, and spec.adoptionPolicy says to adopt it"
    if role.claim.is_imported:
        return "an import claimed the role for this object, which now begins to change it"
    return "the claim is older, or belongs to an object that was created again"


def plan_databases(
    states: Iterable[WantedState], desired: Mapping[str, DesiredGrants], snapshot: ServerSnapshot
) -> list[DatabaseChange]:
    """Return the missing changes of privileges on databases.

    Roles with the same difference on a database share a statement, because each statement writes
    the whole ACL of the database anew.

    Args:
        states: the accesses; a role that does not exist yet has no privileges.
        desired: their grants by username.
        snapshot: the snapshot of the catalogs.
    """
    usernames: dict[DatabaseAction, list[str]] = {}
    for state in states:
        for what in database_differences(state, desired[state.username], snapshot):
            usernames.setdefault(what, []).append(state.username)
    return [database_change(what, usernames) for what, usernames in usernames.items()]


REVOKE_PUBLIC = "the PostgresServer's revokePublic asks for it"


def plan_public(
    revoked: frozenset[str], desired: Mapping[str, DesiredGrants], snapshot: ServerSnapshot
) -> list[AccessStatement]:
    """Return the revocations from PUBLIC on the databases that grants name.

    Args:
        revoked: the privileges that PUBLIC must not have.
        desired: the grants by username.
        snapshot: the snapshot of the catalogs.
    """
    users: dict[str, list[str]] = {}
    for username, grants in desired.items():
        for name in grants.databases:
            users.setdefault(name, []).append(username)
    # CREATE is the privilege on schema public here, which is treated elsewhere.
    return [
        AccessStatement(
            statement=statements.revoke_public(extra, name),
            what=f"revoke {', '.join(sorted(extra))} on database {name} from PUBLIC",
            why=REVOKE_PUBLIC,
            usernames=tuple(usernames),
            alone=True,
            on=name,
        )
        for name, usernames in users.items()
        if name in snapshot.databases
        and (extra := (snapshot.databases[name].public & revoked) - {"CREATE"})
    ]


def database_differences(
    state: WantedState, desired: DesiredGrants, snapshot: ServerSnapshot
) -> Iterator[DatabaseAction]:
    """Yield the grants that a role lacks on databases, and the revocations of the others."""
    role = snapshot.roles.get(state.username)
    held_privileges = snapshot.privileges.get(role.oid, {}) if role else {}
    for name in sorted(desired.databases.keys() | held_privileges.keys()):
        facts = snapshot.databases.get(name)
        # An owner has all privileges anyway, and revoking them would change the database.
        if facts is None or (role is not None and facts.owner == role.oid):
            continue
        requested, has = desired.of(name).database, held_privileges.get(name, {})
        revocable = set(has)
        if state.policy == "Additive":
            revocable &= parse(name, state.ledger).database.keys()
        # A GRANT with grant option gives the privilege itself too, so ``missing`` is without
        # these.
        missing = {one for one in requested.keys() - has.keys() if not requested[one]}
        optional = {one for one in requested if requested[one] and not has.get(one, False)}
        no_option = {
            name for name in revocable & requested.keys() if has[name] and not requested[name]
        }
        differences = (
            DatabaseAction("grant", tuple(sorted(missing)), name),
            DatabaseAction("grant", tuple(sorted(optional)), name, option=True),
            DatabaseAction("revoke", tuple(sorted(revocable - requested.keys())), name),
            DatabaseAction("revoke", tuple(sorted(no_option)), name, option=True),
        )
        yield from (action for action in differences if action.privileges)
