"""From what is wanted and what the catalogs said to the statements that are missing.

Pure: the same input gives the same plan (salts apart), and an empty plan when nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from psycopg import sql

from fairlead.api.postgresaccess import Grant
from fairlead.postgres.database import password, statements
from fairlead.postgres.database.grants import Desired
from fairlead.postgres.database.snapshot import (
    Claim,
    DatabaseFacts,
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

    def __repr__(self) -> str:
        return f"Wanted({self.username!r})"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A statement; ``what`` completes "could not ..." and holds no secret.

    An ``isolated`` one may fail alone; the others fail the plan.
    """

    statement: sql.Composed
    what: str
    isolated: bool = False


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the login works, and ``problems`` say which grants do not.

    ``claimed`` are all roles that carry a claim of this installation.
    """

    server: ServerFacts
    applied: list[str]
    warnings: list[str]
    problems: tuple[AccessError, ...] = ()
    changed: bool = False
    claimed: Mapping[str, Claim] = {}


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


def plan_role(
    wanted: Wanted, desired: Desired, snapshot: Snapshot, *, password_matches: bool
) -> list[Change]:
    """What is missing in the shared catalogs: role, login, password, claim, database grants.

    Raises:
        AccessError: the role is not ours, see :func:`check_role`.
    """
    check_role(snapshot.role, wanted.claim, snapshot.server.admin)
    steps = list(_role_steps(wanted, snapshot.role, password_matches=password_matches))
    for facts in snapshot.databases.values():
        steps += _database_steps(wanted.username, desired, facts)
    return steps


def _role_steps(
    wanted: Wanted, role: RoleFacts | None, *, password_matches: bool
) -> Iterator[Change]:
    name = wanted.username
    if role is None:
        verifier = password.verifier(wanted.password)
        yield Change(statement=statements.create_role(name, verifier), what=f"create role {name}")
    elif not (role.login and password_matches):
        verifier_ = None if password_matches else password.verifier(wanted.password)
        yield Change(
            statement=statements.alter_role(name, login=not role.login, verifier=verifier_),
            what=f"give role {name} its login",
        )
    if role is None or role.claim != wanted.claim:
        yield Change(
            statement=statements.comment_role(name, wanted.claim), what=f"claim role {name}"
        )


def _database_steps(username: str, desired: Desired, facts: DatabaseFacts) -> Iterator[Change]:
    # An owner has all privileges anyway, and revoking them from it would change the database.
    if facts.owned:
        return
    wanted = desired.of(facts.name).database.keys()
    if missing := wanted - facts.held:
        yield Change(
            statement=statements.database_grant("grant", missing, facts.name, username),
            what=f"grant {', '.join(sorted(missing))} on database {facts.name}",
            isolated=True,
        )
    if leftover := facts.held - wanted:
        yield Change(
            statement=statements.database_grant("revoke", leftover, facts.name, username),
            what=f"revoke {', '.join(sorted(leftover))} on database {facts.name}",
            isolated=True,
        )


def databases_to_visit(desired: Desired, snapshot: Snapshot) -> list[str]:
    """Where the role shall have something, and where it has something already."""
    dependent = {
        facts.name
        for facts in snapshot.databases.values()
        if facts.dependent and facts.connectable
    }
    return sorted(dependent | desired.databases.keys())


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
        and (extra := snapshot.databases[name].public - wanted.database.keys())
    ]
