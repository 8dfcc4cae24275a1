"""Reads the rights that the administrator lacks for a plan, and makes the remedies.

A plan has the statements; this module asks PostgreSQL whether the administrator may run them, so
that a missing right shows before a try (https://www.postgresql.org/docs/current/ddl-priv.html).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from psycopg import sql

from fairlead.postgres.database.connections.session import Row, Session, Statement
from fairlead.postgres.database.plans.attributes import GRANT_OPTIONS_VERSION
from fairlead.postgres.database.plans.differences import Difference, plan_privileges
from fairlead.postgres.database.plans.plan import DatabaseChange
from fairlead.postgres.database.plans.snapshot import RoleFacts, ServerFacts
from fairlead.postgres.database.plans.statements import (
    AccessStatement,
    DatabaseAction,
    database_grant,
)
from fairlead.postgres.errors import AccessError


_RIGHTS = sql.SQL("""
SELECT 'create' AS kind, r.rolname::text, ''::text, r.rolcreaterole, ''::text, false
  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
UNION ALL
SELECT 'role', r.rolname::text, '', pg_catalog.pg_has_role(r.oid, 'MEMBER WITH ADMIN OPTION'),
       '', false
  FROM pg_catalog.pg_roles r
 WHERE r.rolname = ANY (%(roles)s::text[]::pg_catalog.name[])
UNION ALL
SELECT 'database', d.datname::text, p.privilege,
       pg_catalog.pg_has_role(d.datdba, 'USAGE')
       OR pg_catalog.has_database_privilege(d.oid, p.privilege || ' WITH GRANT OPTION'),
       o.rolname::text, o.rolsuper
  FROM pg_catalog.pg_database d
  JOIN pg_catalog.pg_roles o ON o.oid = d.datdba
 CROSS JOIN (VALUES ('CONNECT'), ('TEMPORARY'), ('CREATE')) AS p(privilege)
 WHERE d.datname = ANY (%(databases)s::text[]::pg_catalog.name[])
""")
_SUPERUSERS = sql.SQL("""
SELECT r.rolname::text FROM pg_catalog.pg_roles r
 WHERE r.rolsuper AND r.rolname = ANY (%(names)s::text[]::pg_catalog.name[])
""")


class Lack(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a missing right, and the statement by which another role grants it."""

    problem: AccessError
    remedy: AccessStatement


async def read_lacks(
    session: Session,
    maintenance: str,
    server: ServerFacts,
    changed: Mapping[str, RoleFacts | None],
    groups: Mapping[str, Sequence[str]],
    databases: Iterable[DatabaseChange],
) -> list[Lack]:
    """Read the rights that the administrator lacks in the shared catalogs.

    Args:
        session: a session in any database.
        maintenance: the database in which the remedies have to run.
        server: the facts of the server.
        changed: roles to create (None) or to alter, by name.
        groups: usernames of new members, by the names of groups.
        databases: changes of privileges on databases.
    """
    if server.superuser:
        return []
    changes = list(databases)
    requested = {
        "roles": [*(name for name, role in changed.items() if role is not None), *groups],
        "databases": sorted({change.action.database for change in changes}),
    }
    lacking = _Lacking(maintenance, server, await session.rows(_RIGHTS, requested))
    return [*lacking.roles(changed), *lacking.groups(groups), *lacking.databases(changes)]


class _Lacking:
    """The missing rights, from the rows of ``_RIGHTS``."""

    def __init__(self, maintenance: str, server: ServerFacts, rows: Iterable[Row]) -> None:
        self._maintenance = maintenance
        self._server = server
        self._admin = sql.Identifier(server.admin)
        self._rights: dict[tuple[str, str, str], bool] = {}
        self._owners: dict[str, tuple[str, bool]] = {}
        for kind, name, privilege, has, owner, superuser in rows:
            self._rights[kind, name, privilege] = has
            if kind == "database":
                self._owners[name] = owner, superuser
        self._creates = self._may("create", server.admin)

    def roles(self, changed: Mapping[str, RoleFacts | None]) -> Iterator[Lack]:
        """Yield the missing rights to create roles, and since PostgreSQL 16 to alter them."""
        if changed and not self._creates:
            # Without CREATEROLE no role can be altered either, and ADMIN on them would not help.
            statement = sql.SQL("ALTER ROLE {} CREATEROLE").format(self._admin)
            yield self._lack("may not create roles", statement, list(changed))
            return
        if self._server.version < GRANT_OPTIONS_VERSION:
            return
        for name, role in changed.items():
            if role is not None and not self._may("role", name):
                message = f"may not change role {name} without its ADMIN option"
                yield self._lack(message, self._with_admin(name), [name])

    def groups(self, groups: Mapping[str, Sequence[str]]) -> Iterator[Lack]:
        """Yield the missing rights to add members to groups."""
        # Before PostgreSQL 16 CREATEROLE is the right to add members to any role but a superuser
        # (https://www.postgresql.org/docs/15/sql-createrole.html).
        by_attribute = self._creates and self._server.version < GRANT_OPTIONS_VERSION
        for name, usernames in groups.items():
            if not (by_attribute or self._may("role", name)):
                message = f"may not add members to {name}"
                yield self._lack(message, self._with_admin(name), usernames)

    def databases(self, changes: Iterable[DatabaseChange]) -> Iterator[Lack]:
        """Yield the missing rights to change privileges on databases."""
        for change in changes:
            action = change.action
            if not all(self._may("database", action.database, one) for one in action.privileges):
                yield self._lack(f"may not {action}", self._on_database(change), change.usernames)

    def _may(self, kind: str, name: str, privilege: str = "") -> bool:
        return self._rights.get((kind, name, privilege), False)

    def _with_admin(self, role: str) -> sql.Composed:
        return sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(
            sql.Identifier(role), self._admin
        )

    def _on_database(self, change: DatabaseChange) -> Statement:
        action = change.action
        owner, superuser = self._owners[action.database]
        # A member of a superuser can act as it, so the remedy is never a membership there.
        if not superuser:
            return join(owner, self._server)
        if action.verb == "grant":
            given = action._replace(option=True)
            return database_grant(given, [self._server.admin])
        return change.statement

    def _lack(self, message: str, statement: Statement, usernames: Sequence[str]) -> Lack:
        message = f"{self._server.admin} {message}"
        return Lack(
            problem=AccessError("InsufficientPrivilege", message),
            remedy=AccessStatement(
                database=self._maintenance,
                statement=statement,
                why=message,
                usernames=tuple(usernames),
            ),
        )


def join(owner: str, server: ServerFacts) -> sql.Composed:
    """Return the statement that makes the administrator an inheriting member of a role."""
    options = " WITH INHERIT TRUE" if server.version >= GRANT_OPTIONS_VERSION else ""
    return sql.SQL("GRANT {} TO {}" + options).format(
        sql.Identifier(owner), sql.Identifier(server.admin)
    )


def let_in(
    database: str, maintenance: str, admin: str, usernames: Iterable[str]
) -> AccessStatement:
    """Return the statement that grants the administrator CONNECT on a database."""
    action = DatabaseAction("grant", ("CONNECT",), database)
    return AccessStatement(
        database=maintenance,
        statement=database_grant(action, [admin]),
        why=f"{admin} may not connect to database {database}",
        usernames=tuple(usernames),
    )


async def read_remedies(
    session: Session,
    server: ServerFacts,
    database: str,
    differences: Mapping[str, Sequence[Difference]],
) -> list[AccessStatement]:
    """Return the statements that grant the rights that the administrator lacks in one database.

    A membership in an owner covers all of its objects. For objects of superusers the privileges
    themselves are granted, with grant option, because a member of a superuser can act as it.

    Args:
        session: a session in any database.
        server: the facts of the server.
        database: the database of the differences.
        differences: differences by username; those that are possible or left out need no remedy.
    """
    lacking = {
        name: [one for one in some if not one.possible and not one.is_left_out]
        for name, some in sorted(differences.items())
    }
    owners = {_holder(one) for some in lacking.values() for one in some}
    if not owners:
        return []
    rows = await session.rows(_SUPERUSERS, {"names": sorted(owners)})
    superusers = {name for (name,) in rows}
    usernames: dict[str, list[str]] = {}
    inherited: dict[str, list[Difference]] = {}
    for name, some in lacking.items():
        for difference in some:
            holder = _holder(difference)
            if holder in superusers:
                inherited.setdefault(name, []).append(difference)
            elif name not in usernames.setdefault(holder, []):
                usernames[holder].append(name)
    statements = [
        AccessStatement(
            database=database,
            statement=join(holder, server),
            why=f"only {holder} may change these privileges",
            usernames=tuple(names),
        )
        for holder, names in sorted(usernames.items())
    ]
    return [*statements, *_own(inherited, server.admin, database)]


def _holder(difference: Difference) -> str:
    """Return the role that may settle a difference: the owner, or a revocation's grantor."""
    return (
        difference.objects.owner
        if difference.action == "grant"
        else difference.grantor or difference.objects.owner
    )


def _own(
    differences: Mapping[str, Sequence[Difference]], admin: str, database: str
) -> Iterator[AccessStatement]:
    """Yield the statements of superusers: grants to the administrator, or changes in its place."""
    for_admin: list[Difference] = []
    instead: dict[str, list[Difference]] = {}
    for name, some in differences.items():
        for difference in some:
            # Default privileges have no grant option: only their creator and superusers change
            # them.
            if difference.action == "grant" and not difference.objects.level.startswith("future"):
                for_admin.append(msgspec.structs.replace(difference, option=True, possible=True))
            else:
                instead.setdefault(name, []).append(
                    msgspec.structs.replace(difference, possible=True)
                )
    changes = [*plan_privileges({admin: for_admin}), *plan_privileges(instead)]
    for change in changes:
        yield AccessStatement(
            database=database,
            statement=change.statement,
            why="only a superuser may change these privileges, and has to run this",
            usernames=tuple(change.usernames),
        )
