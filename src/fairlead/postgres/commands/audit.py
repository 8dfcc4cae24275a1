"""``fairlead postgres audit``: the roles of a server, compared with its accesses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import msgspec
import psycopg

from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.postgres import bounds
from fairlead.postgres.commands.accesses import Given, in_cluster
from fairlead.postgres.commands.plan import PlannedStatement, plan
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.controllers.rules.desired import names_of
from fairlead.postgres.database.connections.failures import explain
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.names import excluded, reserved
from fairlead.postgres.database.plans.snapshot import RoleClaim, RoleFacts
from fairlead.postgres.database.reading.audit import (
    Database,
    Everybody,
    read_databases,
    read_everybody,
)
from fairlead.postgres.database.reading.holdings import PUBLIC, HeldObjects, read_holdings
from fairlead.postgres.errors import AccessError


EVERYBODY = "PUBLIC"

Kind = Literal[
    "asked",
    "conflict",
    "group",
    "leftover",
    "imported",
    "foreign",
    "administrator",
    "superuser",
    "provider",
    "excluded",
    "stranger",
]
"""Kinds of roles.

A PostgresAccess asks for the role (``asked``), which may carry the claim of another one
(``conflict``); or is deleted already (``leftover``), or is not applied yet (``imported``). A
``group`` holds the grants of accesses that share them; one without
members is a ``leftover`` too. A ``foreign`` role is claimed by another installation, a
``stranger`` carries no claim.
"""


class Privilege(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Privileges on ``total`` objects of one kind, out of ``of`` objects.

    ``on`` is a level: database, schema, table, column, sequence, routine, type, or future ones;
    ``names`` are the first objects. ``of`` is 0 where objects without grants are not read, as
    columns and PostgreSQL's own objects.
    """

    database: str
    on: str
    privileges: tuple[str, ...]
    schema: str = ""
    table: str = ""
    names: tuple[str, ...] = ()
    total: int = 1
    of: int = 1
    grant_option: bool = False


class OwnedObjects(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Objects of one kind that a role owns."""

    database: str
    on: str
    schema: str = ""
    names: tuple[str, ...] = ()
    total: int = 1


class HeldGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A group whose privileges a role inherits, or takes by SET ROLE where not ``inherited``."""

    name: str
    inherited: bool
    privileges: tuple[Privilege, ...] = ()


class RoleAudit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One role: its own privileges, those of its groups, its objects, and its drift."""

    role: str
    kind: Kind
    login: bool
    asked_by: str = ""
    powers: tuple[str, ...] = ()
    direct: tuple[Privilege, ...] = ()
    members: tuple[str, ...] = ()
    groups: tuple[HeldGroup, ...] = ()
    owns: tuple[OwnedObjects, ...] = ()
    drift: tuple[PlannedStatement, ...] = ()
    problems: tuple[str, ...] = ()


class AuditReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The audit of a server; ``everybody`` is PUBLIC, and ``absent`` accesses have no role yet."""

    server: str
    address: str
    version: str
    roles: tuple[RoleAudit, ...] = ()
    everybody: tuple[Privilege, ...] = ()
    absent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def audit(around: Surroundings, server_name: str, names: Iterable[str] = ()) -> AuditReport:
    """Return the audit of a server.

    Args:
        around: the cluster, read with the user's rights.
        server_name: the name of the PostgresServer.
        names: the names of the roles to report, none for all.

    Raises:
        AccessError: the server cannot be queried.
        ClientError: the cluster cannot be reached, or refuses.
    """
    server = await around.server(server_name)
    endpoint = await around.sources.server_endpoint(server)
    accesses = [one for one in await in_cluster(around, "") if _is_at(one, server)]
    sessions = Sessions(endpoint)
    try:
        async with sessions.working("read the catalogs") as session:
            everybody = await read_everybody(session, around.installation)
            databases = await read_databases(session)
        auditing = _Auditing(around, server, everybody)
        for database in databases:
            await auditing.read(sessions, database)
    finally:
        await sessions.close()
    await auditing.compare(accesses)
    return auditing.report(str(endpoint), frozenset(names))


def _is_at(given: Given, server: PostgresServer) -> bool:
    """Whether the access is on this server, by its serverRef or by the system identifier."""
    access = given.access
    if access is None:
        return False
    reference = access.spec.connection.server_ref
    if reference is not None and reference.name == server.metadata.name:
        return True
    place = access.status.server
    # An access with a connection of its own may name the server by another host.
    same = place is not None and place.system_identifier == server.status.system_identifier
    return same and bool(server.status.system_identifier)


class _Auditing:
    def __init__(self, around: Surroundings, server: PostgresServer, everybody: Everybody) -> None:
        self._around = around
        self._server = server
        self._everybody = everybody
        self._privileges: dict[str, list[Privilege]] = {}
        self._owned: dict[int, list[OwnedObjects]] = {}
        self._requesters: dict[str, list[str]] = {}
        """Names of accesses by their usernames, the oldest first."""
        self._logins: dict[str, list[str]] = {}
        """The same by their logins that act as another role."""
        self._claims: dict[str, RoleClaim] = {}
        self._drift: dict[str, list[PlannedStatement]] = {}
        self._problems: dict[str, list[str]] = {}
        if everybody.cut:
            around.notes.append(f"the command checks only the first {len(everybody.roles)} roles")

    async def read(self, sessions: Sessions, database: Database) -> None:
        """Read the ACL of a database, and its objects where it takes connections."""
        self._shared(database)
        if not database.connectable:
            self._around.notes.append(
                f"database {database.name} takes no connections, so the command does not check it"
            )
            return
        try:
            async with sessions.use(database.name) as session:
                holdings = await read_holdings(session, names=bounds.AUDIT_NAMED)
        except (AccessError, psycopg.Error) as error:
            what = f"read the catalogs of database {database.name}"
            problem = explain(error, what, self._everybody.server.admin)
            self._around.notes.append(
                f"the command cannot check database {database.name}: {problem.message}"
            )
            return
        if holdings.cut:
            self._around.notes.append(
                f"database {database.name} has more different ACLs than the command checks"
            )
        self._inside(database.name, holdings.rows)

    def _name(self, role: int) -> str:
        # A role that was created after the names were read, or is beyond their limit, has only an
        # oid here.
        return EVERYBODY if role == PUBLIC else self._everybody.names.get(role, str(role))

    def _shared(self, database: Database) -> None:
        self._owned.setdefault(database.owner, []).append(
            OwnedObjects(database=database.name, on="database")
        )
        for grantee in database.grantees:
            self._privileges.setdefault(self._name(grantee.role), []).append(
                Privilege(
                    database=database.name,
                    on="database",
                    privileges=tuple(sorted(grantee.privileges)),
                    grant_option=grantee.option,
                )
            )

    def _inside(self, database: str, rows: Iterable[HeldObjects]) -> None:
        totals: dict[tuple[str, str, str], int] = {}
        entries = list(rows)
        for row in entries:
            key = (row.level, row.schema, row.table)
            totals[key] = totals.get(key, 0) + row.total
        for row in entries:
            if not (row.system or row.level.startswith("future")):
                self._own(database, row)
            partly = row.system or row.level == "column"
            for grantee in row.grantees:
                privilege = Privilege(
                    database=database,
                    on=row.level,
                    schema=row.schema,
                    table=row.table,
                    privileges=tuple(sorted(grantee.privileges)),
                    names=row.names,
                    total=row.total,
                    of=0 if partly else totals[row.level, row.schema, row.table],
                    grant_option=grantee.option,
                )
                self._privileges.setdefault(self._name(grantee.role), []).append(privilege)

    def _own(self, database: str, row: HeldObjects) -> None:
        # A column has no owner but its table's, which is a row of its own.
        if row.level == "column":
            return
        owned = OwnedObjects(
            database=database,
            on=row.level,
            schema=row.schema,
            names=row.names,
            total=row.total,
        )
        self._owned.setdefault(row.owner, []).append(owned)

    async def compare(self, accesses: list[Given]) -> None:
        """Collect drift and problems of this server's accesses."""
        report = await plan(self._around, accesses)
        of_access: dict[str, str] = {}
        for access in accesses:
            if access.access is not None:
                username = access.access.status.username or access.access.spec.username
                self._requesters.setdefault(username, []).append(access.name)
                self._claims[access.name] = self._around.claim(access.access.metadata)
                of_access.setdefault(access.name, username)
        for access in accesses:
            if access.access is not None:
                for login in names_of(access.access)[1:]:
                    self._logins.setdefault(login, []).append(access.name)
        for server in report.servers:
            for database in server.databases:
                for statement in database.statements:
                    for name in statement.accesses:
                        username = of_access.get(name, "")
                        self._drift.setdefault(username, []).append(statement)
        for problem in report.problems:
            username = of_access.get(problem.access, "")
            text = f"{problem.reason}: {problem.message}"
            self._problems.setdefault(username, []).append(text)

    def report(self, address: str, names: frozenset[str]) -> AuditReport:
        """Return the audit of the wanted roles, or of all where none is named."""
        everybody = self._everybody
        for name in sorted(names - everybody.roles.keys()):
            self._around.notes.append(f"no role {name} may log in or has a claim")
        others = sum(
            bool(self._asker(role)) and not self._holds(role)
            for role in everybody.roles.values()
            if role.claim is not None
        )
        if others:
            count = "1 role carries" if others == 1 else f"{others} roles carry"
            self._around.notes.append(
                f"{count} the claim of another object than the one that asks. If this server is a"
                " restored copy, or that object is gone with its cluster: fairlead postgres"
                f" take-over --server {self._server.metadata.name}"
            )
        return AuditReport(
            server=self._server.metadata.name,
            address=address,
            version=everybody.server.version_text,
            roles=tuple(
                self._role(role)
                for name, role in sorted(everybody.roles.items())
                if not names or name in names
            ),
            everybody=self._of(EVERYBODY),
            absent=tuple(
                sorted(
                    names[0]
                    for role, names in self._requesters.items()
                    if role not in everybody.roles
                )
            ),
            notes=tuple(dict.fromkeys(self._around.notes)),
        )

    def _of(self, name: str) -> tuple[Privilege, ...]:
        """Return the privileges of a role or a group, merged over their objects."""
        # One privilege may be in several ACLs of a schema. Its objects are added up first; then
        # privileges on the same objects are told together.
        single = (
            msgspec.structs.replace(owned, privileges=(privilege,))
            for owned in self._privileges.get(name, ())
            for privilege in owned.privileges
        )
        by_privilege: dict[Privilege, list[str]] = {}
        for privilege in _together(single):
            without = msgspec.structs.replace(privilege, privileges=())
            by_privilege.setdefault(without, []).extend(privilege.privileges)
        return tuple(
            msgspec.structs.replace(privilege, privileges=tuple(sorted(privileges)))
            for privilege, privileges in by_privilege.items()
        )

    def _role(self, role: RoleFacts) -> RoleAudit:
        groups: Mapping[str, bool] = self._everybody.groups.get(role.name, {})
        return RoleAudit(
            role=role.name,
            kind=self._kind(role),
            login=role.login,
            asked_by=self._asker(role),
            powers=tuple(sorted(role.powers)),
            direct=self._of(role.name),
            members=tuple(self._members(role.name)) if role.group is not None else (),
            groups=tuple(
                HeldGroup(name=name, inherited=inherited, privileges=self._of(name))
                for name, inherited in sorted(groups.items())
            ),
            owns=_together(self._owned.get(role.oid, ())),
            drift=tuple(self._drift.get(role.name, ())),
            problems=tuple(self._problems.get(role.name, ())),
        )

    def _members(self, group: str) -> Iterator[str]:
        """Yield the names of a group's direct and indirect members."""
        for name, groups in sorted(self._everybody.groups.items()):
            # Since PostgreSQL 16 the administrator is a member of each role that it creates.
            if group in groups and name != self._everybody.server.admin:
                yield name

    def _kind(self, role: RoleFacts) -> Kind:
        settings = self._around.settings
        if role.name == self._everybody.server.admin:
            return "administrator"
        if "SUPERUSER" in role.powers:
            return "superuser"
        if excluded(role.name, settings.excluded_users, settings.excluded_user_patterns):
            return "excluded"
        if role.group is not None:
            if self._around.installation not in {"", role.group.installation}:
                return "foreign"
            return "group" if any(self._members(role.name)) else "leftover"
        if role.claim is None:
            return "provider" if reserved(role.name) else "stranger"
        # A user without the right to read the installation's id sees each claim as its own.
        if self._around.installation not in {"", role.claim.installation}:
            return "foreign"
        unasked: Kind = "imported" if role.claim.is_imported else "leftover"
        if not self._asker(role):
            return unasked
        return "asked" if self._holds(role) else "conflict"

    def _askers(self, role: RoleFacts) -> list[str]:
        # Without a claim it only has the name of a login.
        logins = self._logins.get(role.name, []) if role.claim is not None else []
        return self._requesters.get(role.name, []) or logins

    def _asker(self, role: RoleFacts) -> str:
        """Return the name of the access that asks for the role, or for a login with a claim.

        Of several it is the one whose claim the role carries, or else the oldest.
        """
        askers = self._askers(role)
        claimed = (name for name in askers if self._is_claimed_by(role, name))
        return next(claimed, askers[0] if askers else "")

    def _holds(self, role: RoleFacts) -> bool:
        """Whether the role carries the claim of its asker, as far as claims can be read."""
        return not self._around.knows_claims or self._is_claimed_by(role, self._asker(role))

    def _is_claimed_by(self, role: RoleFacts, name: str) -> bool:
        return role.claim is not None and role.claim.same_object(self._claims[name])


T = TypeVar("T", Privilege, OwnedObjects)


def _together(things: Iterable[T]) -> tuple[T, ...]:
    """Return the items with the objects of several ACLs merged where all other fields agree."""
    together: dict[T, list[T]] = {}
    for thing in things:
        together.setdefault(msgspec.structs.replace(thing, names=(), total=0), []).append(thing)
    return tuple(
        msgspec.structs.replace(
            key,
            names=tuple(sorted(name for one in some for name in one.names)[: bounds.AUDIT_NAMED]),
            total=sum(one.total for one in some),
        )
        for key, some in together.items()
    )
