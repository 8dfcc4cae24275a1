"""From what is wanted and what the catalogs said to the statements that are missing.

Pure: the same input gives the same plan (salts apart), and an empty plan when nothing is missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import Attributes, Grant, GrantsPolicy, MemberOf
from fairlead.postgres.database.plans import statements
from fairlead.postgres.database.plans.attributes import (
    NOTHING_AROUND,
    Around,
    GroupFacts,
    attribute_parts,
    foreign_memberships,
    membership_statements,
    refused_settings,
    setting_statements,
)
from fairlead.postgres.database.plans.grants import Desired
from fairlead.postgres.database.plans.password import ITERATIONS
from fairlead.postgres.database.plans.snapshot import (
    Claim,
    RoleFacts,
    ServerFacts,
    Snapshot,
)
from fairlead.postgres.database.plans.statements import DatabaseAction, database_grant
from fairlead.postgres.database.plans.targets import parse
from fairlead.postgres.errors import AccessError, refusal


_VERIFIER = re.compile(r"'SCRAM-SHA-256\$[^']*'")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One access as the database shall know it."""

    username: str
    password: str
    claim: Claim
    grants: tuple[Grant, ...] = ()
    policy: GrantsPolicy = "Authoritative"
    ledger: frozenset[str] = frozenset()
    """What was granted before, as :meth:`Desired.describe` says it."""
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

    def shown(self) -> str:
        """The statement, with *** for the verifier of a password."""
        return _VERIFIER.sub("'***'", self.statement.as_string())


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


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that would be run in a database for the sake of ``usernames``, and why.

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


def check_role(role: RoleFacts | None, claim: Claim, admin: str, *, adopt: bool = False) -> None:
    """Refuse roles that are not this access's to change.

    The first claim wins, so that neither namespaces nor clusters take a role from one another. A
    role that nobody claims may be taken over with ``adopt``.

    Raises:
        AccessError: UserReserved, AdoptionRefused or UsernameConflict.
    """
    if role is None:
        return
    if role.name == admin:
        raise refusal(
            "UserReserved",
            f"role {role.name} is the administrator's own; choose another spec.username",
        )
    if role.claim is None and not adopt:
        raise refusal(
            "AdoptionRefused",
            f"role {role.name} exists and was not made by Fairlead;"
            " choose another spec.username, or drop the role",
        )
    if role.claim is not None and not role.claim.same_object(claim):
        raise refusal("UsernameConflict", _conflict(role.name, role.claim, claim))
    if role.powers:
        raise refusal(
            "UserReserved",
            f"role {role.name} has been given {', '.join(sorted(role.powers))};"
            " take that away, or choose another spec.username",
        )


def check_adoption(
    role: RoleFacts | None, groups: Mapping[str, GroupFacts], *, adopt: bool
) -> None:
    """Refuse to take over a role that others have given powers to, be it by a group.

    Raises:
        AccessError: AdoptionRefused.
    """
    if not adopt or role is None or role.claim is not None:
        return
    if groups.get(role.name, GroupFacts()).powerful:
        raise refusal(
            "AdoptionRefused",
            f"role {role.name} has powers over roles or over the server, or is a member of a role"
            " that has; choose another spec.username",
        )


def _conflict(username: str, holder: Claim, claim: Claim) -> str:
    """Say who holds the role, but no names of another cluster or namespace."""
    if holder.installation != claim.installation:
        return (
            f"role {username} belongs to another installation of Fairlead;"
            " choose another spec.username, or drop the role if that installation is gone"
        )
    return f"role {username} is taken by another PostgresAccess; choose another spec.username"


def plan_role(
    wanted: Wanted,
    snapshot: Snapshot,
    verifier: str | None,
    around: Around = NOTHING_AROUND,
) -> tuple[list[Change], list[AccessError]]:
    """What is missing of the role itself, and what stands in the way of single parts.

    Args:
        wanted: the access.
        snapshot: of the catalogs.
        verifier: of its password, None when the role has that.
        around: what is known of groups and parameters.

    Raises:
        AccessError: the role is not ours, see :func:`check_role`.
    """
    name = wanted.username
    role = snapshot.roles.get(name)
    check_role(role, wanted.claim, snapshot.server.admin, adopt=wanted.adopt)
    changes = list(_role_steps(wanted, role, verifier))
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
    return changes, [*refused_settings(wanted.attributes, around.reserved), *problems]


def _role_steps(wanted: Wanted, role: RoleFacts | None, verifier: str | None) -> Iterator[Change]:
    name = wanted.username
    parts = attribute_parts(wanted.attributes, wanted.valid_until, role)

    def change(statement: sql.Composed, what: str, *why: str) -> Change:
        return Change(statement=statement, what=what, why="; ".join(why), usernames=(name,))

    attributes = ["spec asks for other attributes than the role has"] if parts else []
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
    if role is None or role.claim is None or role.claim.text() != wanted.claim.text():
        yield change(
            statements.comment_role(name, wanted.claim), f"claim role {name}", _claiming(role)
        )


def _password_reason(role: RoleFacts) -> str:
    if role.claim is None:
        return "a role that is taken over gets a password of its own"
    return "the server has another password than the Secret"


def _claiming(role: RoleFacts | None) -> str:
    if role is None:
        return "the comment says which object has made the role"
    if role.claim is None:
        return "nobody has claimed the role, and spec.adoptionPolicy takes it over"
    return "the claim is older, or of an object that was made anew"


def plan_databases(
    wanted: Iterable[Wanted], desired: Mapping[str, Desired], snapshot: Snapshot
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
    revoked: frozenset[str], desired: Mapping[str, Desired], snapshot: Snapshot
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
    wanted: Wanted, desired: Desired, snapshot: Snapshot
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


def databases_to_visit(username: str, desired: Desired, snapshot: Snapshot) -> list[str]:
    """Where the role shall have something, and where it has something already."""
    role = snapshot.roles.get(username)
    dependent = snapshot.dependents.get(role.oid, frozenset()) if role else frozenset[str]()
    known = snapshot.databases
    reachable = {name for name in dependent if name in known and known[name].connectable}
    return sorted(reachable | desired.databases.keys())


def missing_database(name: str, snapshot: Snapshot) -> AccessError | None:
    """Why nothing can be granted in this database, if so."""
    facts = snapshot.databases.get(name)
    if facts is None:
        return AccessError(
            "DatabaseNotFound",
            f"database {name} of spec.grants does not exist; create it, or correct the name",
        )
    if not facts.connectable:
        return AccessError(
            "DatabaseNotFound", f"database {name} of spec.grants takes no connections"
        )
    return None


def warnings_of(wanted: Wanted, desired: Desired, snapshot: Snapshot) -> list[str]:
    """What the role can do that this access does not ask for, through PUBLIC or other grantors."""
    role = snapshot.roles.get(wanted.username)
    return [
        f"PUBLIC has {', '.join(sorted(extra))} on database {name}, so this role has it too"
        for name, grants in sorted(desired.databases.items())
        if name in snapshot.databases
        and (extra := snapshot.databases[name].public - grants.database.keys())
    ] + foreign_memberships(
        wanted.member_of, snapshot.without_shared(role, wanted.claim.installation)
    )
