"""From what is wanted and what the catalogs said to the statements that are missing.

Pure: the same input gives the same plan (salts apart), and an empty plan when nothing is missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import Attributes, Grant, GrantsPolicy, LoginInfo, MemberOf
from fairlead.postgres.database.plans import statements
from fairlead.postgres.database.plans.attributes import (
    NOTHING_AROUND,
    Around,
    attribute_parts,
    membership_statements,
    refused_settings,
    setting_statements,
)
from fairlead.postgres.database.plans.family import (
    Asked,
    LoginStep,
    acting_steps,
    ending_steps,
)
from fairlead.postgres.database.plans.grants import DesiredGrants
from fairlead.postgres.database.plans.logins import LoginTurns, create_owner, family, login_names
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.snapshot import (
    Claim,
    RoleFacts,
    ServerFacts,
    Snapshot,
)
from fairlead.postgres.database.plans.statements import DatabaseAction, database_grant
from fairlead.postgres.database.plans.targets import parse
from fairlead.postgres.errors import AccessError


_VERIFIER = re.compile(r"'SCRAM-SHA-256\$[^']*'")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One access as the database shall know it."""

    username: str
    password: str
    claim: Claim
    keeps: bool = False
    """Whether a role that was made by hand has to be there, and keeps its password."""
    grants: tuple[Grant, ...] = ()
    policy: GrantsPolicy = "Authoritative"
    ledger: frozenset[str] = frozenset()
    """What was granted before, as :meth:`DesiredGrants.describe` says it."""
    iterations: int = ITERATIONS
    attributes: Attributes | None = None
    valid_until: str | None = None
    """Until when the password logs in, "" for ever; None is nobody's concern."""
    member_of: tuple[MemberOf, ...] | None = None
    adopt: bool = False
    """Whether a role may be taken over that nobody has claimed."""
    scope: str | None = ""
    """Those of one scope share groups, those of "" none; with None the groups are not known, and
    what there is of grants is left alone."""
    turns: LoginTurns | None = None
    """Whose turn it is, where there are logins beside the role, or may be."""

    @property
    def login(self) -> str:
        """The role that has the password."""
        return self.username if self.turns is None else self.turns.current

    @property
    def names(self) -> tuple[str, ...]:
        """Of all roles that it has, or had."""
        return (self.username,) if self.turns is None else family(self.username)

    @property
    def needed(self) -> tuple[str, ...]:
        """The names that nobody else may have."""
        turning = self.turns is not None and self.turns.rotation == "TwoLogins"
        return self.names if turning else (self.username,)

    def own(self, snapshot: Snapshot) -> dict[str, RoleFacts]:
        """Its roles as they are; a former login may be somebody else's by now."""
        found = {name: snapshot.roles[name] for name in self.names if name in snapshot.roles}
        return {
            name: role
            for name, role in found.items()
            if name in self.needed or (role.claim and role.claim.same_object(self.claim))
        }

    @property
    def asked(self) -> Asked | None:
        """What it asks of its logins."""
        if self.turns is None:
            return None
        return Asked(
            username=self.username,
            turns=self.turns,
            attributes=self.attributes,
            until=self.valid_until or "",
            groups=self.member_of is not None,
        )

    def __repr__(self) -> str:
        return f"Wanted({self.username!r})"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A statement, for the sake of ``usernames``; ``what`` completes "could not ...".

    ``why`` is the reason for it. No secret is in either.
    """

    statement: sql.Composed
    what: str
    why: str
    usernames: tuple[str, ...]
    alone: bool = False
    """Whether it may fail without failing all of its access."""
    field: str = ""
    """Of the spec, whose value a server may refuse."""
    text: str = ""
    """What is told in place of the statement, where that has a time in it."""

    def shown(self) -> str:
        """The statement, with *** for the verifier of a password."""
        return self.text or _VERIFIER.sub("'***'", self.statement.as_string())


class SharedChange(Change, frozen=True, kw_only=True):
    """A statement that several roles share, and that may fail for one of them alone."""

    def only(self, usernames: Iterable[str]) -> SharedChange:
        """The same for some of the roles."""
        raise NotImplementedError


class DatabaseChange(SharedChange, frozen=True, kw_only=True):
    """A statement about privileges on a database."""

    action: DatabaseAction

    def only(self, usernames: Iterable[str]) -> DatabaseChange:
        """The same for some of the roles."""
        return database_change(self.action, usernames)


def database_change(action: DatabaseAction, usernames: Iterable[str]) -> DatabaseChange:
    """Give or take privileges on a database."""
    names = tuple(usernames)
    return DatabaseChange(
        statement=database_grant(action, names),
        what=str(action),
        why=_REASONS[action.verb, action.option],
        usernames=names,
        action=action,
    )


_REASONS = {
    ("grant", False): "spec.grants ask for it, and it is not there",
    ("grant", True): "spec.grants ask for it with its grant option, and that is not there",
    ("revoke", False): "it is there, and no grant in spec.grants asks for it",
    ("revoke", True): "spec.grants ask for it without the grant option",
}


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the login works, and ``problems`` say which grants do not.

    ``created`` says that there was no role of this name.
    """

    server: ServerFacts
    applied: list[str]
    warnings: list[str]
    problems: tuple[AccessError, ...] = ()
    changed: bool = False
    created: bool = False
    group: str = ""
    """Which has the privileges in place of the role, "" while none has all of them."""
    logins: tuple[LoginInfo, ...] = ()
    """Where there are some beside the role itself."""
    retired: tuple[str, ...] = ()
    """Logins that are to be dropped."""

    @property
    def is_settled(self) -> bool:
        """Whether nobody else could ever log in than the current login."""
        return all(one.current for one in self.logins)


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that would run in a database for the sake of ``usernames``, and why.

    Those ``of_role`` are about the roles themselves, the others about their privileges.
    """

    database: str
    text: str
    reason: str
    usernames: tuple[str, ...]
    of_role: bool = False


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done; ``refused`` says by username why nothing would be, or not all.

    ``remedies`` give the administrator rights that it lacks; somebody else has to run them.
    """

    statements: tuple[Statement, ...]
    refused: Mapping[str, tuple[AccessError, ...]] = {}
    remedies: tuple[Statement, ...] = ()
    after: str = ""
    """The digest of the plan that was approved before, so that none is approved twice."""

    def digest(self) -> str:
        """Names all the statements, at this time."""
        lines = [f"{one.database}: {one.text}" for one in self.statements]
        text = "\n".join([*lines, self.after] if self.after else lines)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def plan_role(
    wanted: Wanted,
    snapshot: Snapshot,
    verifier: str | None,
    around: Around = NOTHING_AROUND,
    *,
    now: datetime | None = None,
) -> tuple[list[Change], list[AccessError]]:
    """Return what is missing of a role that is the access's own, and what hinders single parts.

    Args:
        wanted: the access.
        snapshot: of the catalogs.
        verifier: of its password, None when the role has that.
        around: what is known of groups and parameters.
        now: this moment, which decides about logins that end; the server's without it.
    """
    name = wanted.username
    role = snapshot.roles.get(name)
    if wanted.login == name:
        changes = list(_role_steps(wanted, role, verifier))
    else:
        changes = list(_owner_steps(wanted, role))
    memberships, problems = membership_statements(
        name,
        wanted.member_of,
        snapshot.without_shared(role, wanted.claim.installation),
        around.groups,
        snapshot.server.version,
    )
    settings = setting_statements(name, wanted.attributes, role, around.reserved)
    changes += [
        Change(usernames=(name,), alone=True, **step._asdict())
        for step in (*settings, *memberships)
    ]
    if wanted.asked is not None:
        moment = snapshot.server.moment if now is None else now
        changes += _login_steps(wanted, wanted.asked, snapshot, verifier, around, moment)
    return changes, [*refused_settings(wanted.attributes, around.reserved), *problems]


def _owner_steps(wanted: Wanted, role: RoleFacts | None) -> Iterator[Change]:
    """What is missing of a role that others log in for."""
    name = wanted.username
    parts = attribute_parts(wanted.attributes, None, role)
    if role is None or parts:
        yield Change(
            statement=create_owner(name, parts)
            if role is None
            else statements.alter_role(name, login=False, verifier=None, parts=parts),
            what=f"{'create' if role is None else 'change the attributes of'} role {name}",
            why="there is no role of this name" if role is None else _OTHER_ATTRIBUTES,
            usernames=(name,),
        )
    yield from _claim_steps(wanted, name, role)


def _login_steps(
    wanted: Wanted,
    asked: Asked,
    snapshot: Snapshot,
    verifier: str | None,
    around: Around,
    now: datetime,
) -> Iterator[Change]:
    """What is missing of the logins of a role, of the current one first."""
    known, version = wanted.own(snapshot), snapshot.server.version
    login, owner = wanted.login, (wanted.username,)
    steps: list[LoginStep] = []
    if login != wanted.username:
        yield from _role_steps(wanted, known.get(login), verifier)
        steps += acting_steps(asked, login, known.get(login), version, around)
    steps += ending_steps(asked, known, version, now)
    for step in steps:
        yield Change(usernames=owner, **step._asdict())
    for name in login_names(wanted.username):
        if name != login and name in known:
            yield from _claim_steps(wanted, name, known[name])


_OTHER_ATTRIBUTES = "spec asks for other attributes than the role has"


def _role_steps(wanted: Wanted, role: RoleFacts | None, verifier: str | None) -> Iterator[Change]:
    """What is missing of the role that logs in."""
    name = wanted.login
    # A login whose turn comes has had an end before.
    until = wanted.valid_until or ("" if wanted.turns is not None else wanted.valid_until)
    asked = wanted.attributes
    if name != wanted.username:
        # Before PostgreSQL 16 it depends on the login whether it has what its owner has.
        asked = msgspec.structs.replace(asked or Attributes(), inherit=True)
    parts = attribute_parts(asked, until, role)

    def change(statement: sql.Composed, what: str, *why: str) -> Change:
        users = (wanted.username,)
        return Change(statement=statement, what=what, why="; ".join(why), usernames=users)

    attributes = [_OTHER_ATTRIBUTES] if parts else []
    changed = role is None or not role.login or verifier is not None or bool(parts)
    if role is None:
        statement = statements.create_role(name, verifier or "", parts)
        yield change(statement, f"create role {name}", "there is no role of this name")
    elif not role.login or verifier is not None:
        statement = statements.alter_role(
            name, login=not role.login, verifier=verifier, parts=parts
        )
        login = [] if role.login else ["the role may not log in"]
        password = [] if verifier is None else [_password_reason(role)]
        yield change(statement, f"give role {name} its login", *login, *password, *attributes)
    elif parts:
        statement = statements.alter_role(name, login=False, verifier=None, parts=parts)
        yield change(statement, f"change the attributes of role {name}", *attributes)
    yield from _claim_steps(wanted, name, role, changed=changed)


def _claim_steps(
    wanted: Wanted, name: str, role: RoleFacts | None, *, changed: bool = True
) -> Iterator[Change]:
    """The claim that is missing; that of an import does as long as nothing of the role changes."""
    held = role.claim if role is not None else None
    if held is not None and held.is_imported and not changed:
        return
    if held is None or held.text() != wanted.claim.text():
        yield Change(
            statement=statements.comment_role(name, wanted.claim, role.note if role else ""),
            what=f"claim role {name}",
            why=_claiming(role),
            usernames=(wanted.username,),
        )


def _password_reason(role: RoleFacts) -> str:
    if role.claim is None or role.claim.is_imported:
        return "a role that is taken over gets a password of its own"
    return "the server has another password than the Secret"


def _claiming(role: RoleFacts | None) -> str:
    if role is None:
        return "the comment says which object has made the role"
    if role.claim is None:
        return "no object has claimed the role, and spec.adoptionPolicy takes it over"
    if role.claim.is_imported:
        return "the object begins to change the role, which an import has claimed for it"
    return "the claim is older, or of an object that was made anew"


def plan_databases(
    wanted: Iterable[Wanted], desired: Mapping[str, DesiredGrants], snapshot: Snapshot
) -> list[DatabaseChange]:
    """What is missing of the privileges on databases.

    Roles that lack the same on one database share a statement, for each of them writes the
    database's whole list of privileges anew.

    Args:
        wanted: the accesses; a role that does not exist yet has nothing.
        desired: their grants by username.
        snapshot: of the catalogs.
    """
    found: dict[DatabaseAction, list[str]] = {}
    for one in wanted:
        for what in database_differences(one, desired[one.username], snapshot):
            found.setdefault(what, []).append(one.username)
    return [database_change(what, usernames) for what, usernames in found.items()]


REVOKE_PUBLIC = "the PostgresServer's revokePublic asks for it"


def plan_public(
    revoked: frozenset[str], desired: Mapping[str, DesiredGrants], snapshot: Snapshot
) -> list[Change]:
    """What PUBLIC has to lose on the databases that grants name.

    Args:
        revoked: the privileges that it shall not have.
        desired: the grants by username.
        snapshot: of the catalogs.
    """
    users: dict[str, list[str]] = {}
    for username, grants in desired.items():
        for name in grants.databases:
            users.setdefault(name, []).append(username)
    # On databases CREATE is never PUBLIC's; on schema public it is asked for elsewhere.
    return [
        Change(
            statement=statements.revoke_public(extra, name),
            what=f"revoke {', '.join(sorted(extra))} on database {name} from PUBLIC",
            why=REVOKE_PUBLIC,
            usernames=tuple(usernames),
            alone=True,
        )
        for name, usernames in users.items()
        if name in snapshot.databases
        and (extra := (snapshot.databases[name].public & revoked) - {"CREATE"})
    ]


def database_differences(
    wanted: Wanted, desired: DesiredGrants, snapshot: Snapshot
) -> Iterator[DatabaseAction]:
    """What one role lacks on databases, or has and shall not have."""
    role = snapshot.roles.get(wanted.username)
    held = snapshot.held.get(role.oid, {}) if role else {}
    for name in sorted(desired.databases.keys() | held.keys()):
        facts = snapshot.databases.get(name)
        # An owner has all privileges anyway, and revoking them would change the database.
        if facts is None or (role is not None and facts.owner == role.oid):
            continue
        asked, has = desired.of(name).database, held.get(name, {})
        revocable = set(has)
        if wanted.policy == "Additive":
            revocable &= parse(name, wanted.ledger).database.keys()
        missing = {one for one in asked.keys() - has.keys() if not asked[one]}
        optional = {one for one in asked if asked[one] and not has.get(one, False)}
        no_option = {one for one in revocable & asked.keys() if has[one] and not asked[one]}
        found = (
            DatabaseAction("grant", tuple(sorted(missing)), name),
            DatabaseAction("grant", tuple(sorted(optional)), name, option=True),
            DatabaseAction("revoke", tuple(sorted(revocable - asked.keys())), name),
            DatabaseAction("revoke", tuple(sorted(no_option)), name, option=True),
        )
        yield from (action for action in found if action.privileges)
