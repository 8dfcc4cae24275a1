"""From what is wanted and what the catalogs said to the statements that are missing.

Pure: the same input gives the same plan (salts apart), and an empty plan when nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import Grant
from fairlead.postgres.database import statements
from fairlead.postgres.database.grants import Desired
from fairlead.postgres.database.password import ITERATIONS
from fairlead.postgres.database.snapshot import (
    Action,
    Claim,
    RoleFacts,
    ServerFacts,
    Snapshot,
)
from fairlead.postgres.errors import AccessError, refusal


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One access as the database shall know it."""

    username: str
    password: str
    claim: Claim
    grants: tuple[Grant, ...] = ()
    iterations: int = ITERATIONS

    def __repr__(self) -> str:
        return f"Wanted({self.username!r})"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A statement, for the sake of ``usernames``; ``what`` completes "could not ...".

    No secret is in ``what``.
    """

    statement: sql.Composed
    what: str
    usernames: tuple[str, ...]


class DatabaseChange(Change, frozen=True, kw_only=True):
    """A statement about privileges on a database, which several roles may share.

    It may fail for one of them alone; any other change fails all of its access.
    """

    action: Action
    privileges: tuple[str, ...]
    database: str

    def only(self, usernames: Iterable[str]) -> DatabaseChange:
        """The same for some of the roles."""
        return database_change(self.action, self.privileges, self.database, usernames)


def database_change(
    action: Action, privileges: tuple[str, ...], database: str, usernames: Iterable[str]
) -> DatabaseChange:
    """Give or take privileges on a database."""
    names = tuple(usernames)
    return DatabaseChange(
        statement=statements.database_grant(action, privileges, database, names),
        what=f"{action} {', '.join(privileges)} on database {database}",
        usernames=names,
        action=action,
        privileges=privileges,
        database=database,
    )


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the login works, and ``problems`` say which grants do not."""

    server: ServerFacts
    applied: list[str]
    warnings: list[str]
    problems: tuple[AccessError, ...] = ()
    changed: bool = False


def check_role(role: RoleFacts | None, claim: Claim, admin: str) -> None:
    """Refuse roles that are not this access's to change.

    The first claim wins, so that neither namespaces nor clusters take a role from one another.

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
    if role.claim is None:
        raise refusal(
            "AdoptionRefused",
            f"role {role.name} exists and was not made by Fairlead;"
            " choose another spec.username, or drop the role",
        )
    if not role.claim.same_object(claim):
        raise refusal("UsernameConflict", _conflict(role.name, role.claim, claim))
    if role.powers:
        raise refusal(
            "UserReserved",
            f"role {role.name} has been given {', '.join(sorted(role.powers))};"
            " take that away, or choose another spec.username",
        )


def _conflict(username: str, holder: Claim, claim: Claim) -> str:
    """Say who holds the role; another cluster's or namespace's names are not told."""
    if holder.installation != claim.installation:
        return (
            f"role {username} belongs to another installation of Fairlead;"
            " choose another spec.username, or drop the role if that installation is gone"
        )
    if holder.namespace != claim.namespace:
        return f"role {username} is taken in another namespace; choose another spec.username"
    return f"role {username} belongs to PostgresAccess {holder.name}; choose another spec.username"


def plan_role(wanted: Wanted, snapshot: Snapshot, verifier: str | None) -> list[Change]:
    """What is missing of the role itself: role, login, password, claim.

    Args:
        wanted: the access.
        snapshot: of the catalogs.
        verifier: of its password, None when the role has that.

    Raises:
        AccessError: the role is not ours, see :func:`check_role`.
    """
    role = snapshot.roles.get(wanted.username)
    check_role(role, wanted.claim, snapshot.server.admin)
    return list(_role_steps(wanted, role, verifier))


def _role_steps(wanted: Wanted, role: RoleFacts | None, verifier: str | None) -> Iterator[Change]:
    name = wanted.username

    def change(statement: sql.Composed, what: str) -> Change:
        return Change(statement=statement, what=what, usernames=(name,))

    if role is None:
        yield change(statements.create_role(name, verifier or ""), f"create role {name}")
    elif not role.login or verifier is not None:
        statement = statements.alter_role(name, login=not role.login, verifier=verifier)
        yield change(statement, f"give role {name} its login")
    if role is None or role.claim != wanted.claim:
        yield change(statements.comment_role(name, wanted.claim), f"claim role {name}")


def plan_databases(wanted: Mapping[str, Desired], snapshot: Snapshot) -> list[DatabaseChange]:
    """What is missing of the privileges on databases.

    Roles that lack the same on one database share a statement, for each of them writes the
    database's whole list of privileges anew.

    Args:
        wanted: by username; a role that does not exist yet has nothing.
        snapshot: of the catalogs.
    """
    found: dict[tuple[Action, tuple[str, ...], str], list[str]] = {}
    for username, desired in wanted.items():
        for what in database_differences(username, desired, snapshot):
            found.setdefault(what, []).append(username)
    return [database_change(*what, usernames) for what, usernames in found.items()]


def database_differences(
    username: str, desired: Desired, snapshot: Snapshot
) -> Iterator[tuple[Action, tuple[str, ...], str]]:
    """What one role lacks on databases, or has and shall not have."""
    role = snapshot.roles.get(username)
    held = snapshot.held.get(role.oid, {}) if role else {}
    for name in sorted(desired.databases.keys() | held.keys()):
        facts = snapshot.databases.get(name)
        # An owner has all privileges anyway, and revoking them would change the database.
        if facts is None or (role is not None and facts.owner == role.oid):
            continue
        wanted, has = desired.of(name).database, held.get(name, {}).keys()
        if missing := wanted - has:
            yield "grant", tuple(sorted(missing)), name
        if leftover := has - wanted:
            yield "revoke", tuple(sorted(leftover)), name


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


def public_warnings(desired: Desired, snapshot: Snapshot) -> list[str]:
    """What everybody may do in the databases named, although this access does not ask for it."""
    return [
        f"PUBLIC has {', '.join(sorted(extra))} on database {name}, so this role has it too"
        for name, wanted in sorted(desired.databases.items())
        if name in snapshot.databases
        and (extra := snapshot.databases[name].public - wanted.database)
    ]
