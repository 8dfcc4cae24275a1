"""Desired privileges, sorted by the level of object that each applies to.

CONNECT and TEMPORARY are the database's, CREATE and USAGE the schema's, EXECUTE that of all
routines, the rest that of all tables and views
(https://www.postgresql.org/docs/current/ddl-priv.html). Whoever may do something in a schema gets
USAGE on it too, as access-operator has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead.api.postgresaccess import Grant
from fairlead.postgres.database.names import check_identifier
from fairlead.postgres.errors import AccessError, invalid, refusal


DATABASE_PRIVILEGES: Final = frozenset({"CONNECT", "TEMPORARY", "CREATE"})
SCHEMA_PRIVILEGES: Final = frozenset({"CREATE", "USAGE"})
TABLE_PRIVILEGES: Final = frozenset(
    {
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
        "MAINTAIN",
    }
)
MAINTAIN_VERSION = 170000
"""MAINTAIN came with PostgreSQL 17."""

Schemas = Mapping[str, frozenset[str]]


class DatabaseGrants(msgspec.Struct, frozen=True, kw_only=True):
    """What the role shall have in one database; the maps are from schemas to privileges."""

    database: frozenset[str] = frozenset()
    schemas: Schemas = MappingProxyType({})
    tables: Schemas = MappingProxyType({})
    routines: Schemas = MappingProxyType({})


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """What the role shall have in each database, and what no server of this version can give."""

    databases: Mapping[str, DatabaseGrants]
    problems: tuple[AccessError, ...] = ()

    def of(self, database: str) -> DatabaseGrants:
        """What the role shall have in this database; nothing when it is not named."""
        return self.databases.get(database, DatabaseGrants())

    def describe(self) -> list[str]:
        """One line for each object: ``CONNECT on database app``."""
        lines = []
        for name, wanted in sorted(self.databases.items()):
            if wanted.database:
                lines.append(f"{_join(wanted.database)} on database {name}")
            lines += _lines(wanted.schemas, "schema", name)
            lines += _lines(wanted.tables, "all tables in", name)
            lines += _lines(wanted.routines, "all routines in", name)
        return lines


def _lines(schemas: Schemas, what: str, database: str) -> list[str]:
    return [
        f"{_join(privileges)} on {what} {database}.{schema}"
        for schema, privileges in sorted(schemas.items())
        if privileges
    ]


def _join(privileges: Iterable[str]) -> str:
    return ", ".join(sorted(privileges))


def check_grants(grants: Iterable[Grant]) -> None:
    """Refuse names that PostgreSQL would cut, and schemas that hold its own catalogs.

    Raises:
        AccessError: NameInvalid or SchemaReserved, naming the field.
    """
    for index, grant in enumerate(grants):
        check_identifier(grant.database, f"spec.grants[{index}].database")
        check_identifier(grant.schema, f"spec.grants[{index}].schema")
        if grant.schema.startswith("pg_") or grant.schema == "information_schema":
            raise refusal(
                "SchemaReserved",
                f"spec.grants[{index}].schema {grant.schema} is PostgreSQL's own;"
                " privileges on catalogs are not granted",
            )


def desired_grants(grants: Iterable[Grant], server_version: int) -> Desired:
    """Sort grants by database and level; what the server's version lacks becomes a problem."""
    sorted_: dict[str, dict[str, dict[str, set[str]]]] = {}
    problems = []
    for grant in grants:
        levels = sorted_.setdefault(
            grant.database, {"database": {}, "schemas": {}, "tables": {}, "routines": {}}
        )
        for privilege in grant.privileges:
            problem = _unsupported(privilege, server_version)
            if problem is not None:
                problems.append(problem)
                continue
            level = _level(privilege)
            key = "" if level == "database" else grant.schema
            levels[level].setdefault(key, set()).add(privilege)
            if level in {"tables", "routines"}:
                levels["schemas"].setdefault(grant.schema, set()).add("USAGE")
    return Desired(
        databases={name: _freeze(levels) for name, levels in sorted_.items()},
        problems=tuple(problems),
    )


def _level(privilege: str) -> str:
    if privilege in {"CONNECT", "TEMPORARY"}:
        return "database"
    if privilege in SCHEMA_PRIVILEGES:
        return "schemas"
    return "routines" if privilege == "EXECUTE" else "tables"


def _freeze(levels: Mapping[str, Mapping[str, set[str]]]) -> DatabaseGrants:
    return DatabaseGrants(
        database=frozenset(levels["database"].get("", ())),
        schemas={name: frozenset(found) for name, found in levels["schemas"].items()},
        tables={name: frozenset(found) for name, found in levels["tables"].items()},
        routines={name: frozenset(found) for name, found in levels["routines"].items()},
    )


def _unsupported(privilege: str, server_version: int) -> AccessError | None:
    if privilege in {"SET", "ALTER SYSTEM"}:
        return invalid(
            "UnsupportedPrivilege",
            f"{privilege} in spec.grants is a privilege on server parameters; remove it",
        )
    if privilege == "MAINTAIN" and server_version < MAINTAIN_VERSION:
        return invalid(
            "UnsupportedPrivilege",
            f"MAINTAIN in spec.grants needs PostgreSQL 17, the server has"
            f" {server_version // 10000}; remove it",
        )
    return None
