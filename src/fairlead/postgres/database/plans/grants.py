"""Desired privileges, sorted by the objects that each applies to.

Unless a grant sets ``on``, CONNECT and TEMPORARY are on the database, CREATE and USAGE on the
schema, EXECUTE on all routines, the others on all tables and views
(https://www.postgresql.org/docs/current/ddl-priv.html). A grant in a schema includes USAGE on it,
as in access-operator, unless schemaUsage is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead.api.postgresaccess import (
    COLUMN_PRIVILEGES,
    LEVEL_PRIVILEGES,
    Bundle,
    Grant,
    GrantLevel,
)
from fairlead.postgres import bounds
from fairlead.postgres.database.plans.names import check_identifier
from fairlead.postgres.database.plans.targets import (
    FUTURE,
    NO_GRANTS,
    DatabaseGrants,
    Target,
    TargetLevel,
    describe,
    parse_routine,
)
from fairlead.postgres.errors import AccessError, invalid, refusal


DATABASE_PRIVILEGES: Final = LEVEL_PRIVILEGES["Database"]
MAINTAIN_VERSION = 170000
"""``server_version_num`` of PostgreSQL 17, the first with MAINTAIN."""


_LEVELS: Final[Mapping[GrantLevel, TargetLevel]] = MappingProxyType(
    {
        "Schema": "schema",
        "Tables": "table",
        "Sequences": "sequence",
        "Routines": "routine",
        "Types": "type",
    }
)

_READ_ONLY: Final[Mapping[GrantLevel, frozenset[str]]] = MappingProxyType(
    {
        "Database": frozenset({"CONNECT"}),
        "Schema": frozenset({"USAGE"}),
        "Tables": frozenset({"SELECT"}),
        "Sequences": frozenset({"SELECT"}),
    }
)
BUNDLES: Final[Mapping[Bundle, Mapping[GrantLevel, frozenset[str]]]] = MappingProxyType(
    {
        "ReadOnly": _READ_ONLY,
        "ReadWrite": {
            **_READ_ONLY,
            "Tables": frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"}),
            "Sequences": frozenset({"SELECT", "UPDATE", "USAGE"}),
            "Routines": frozenset({"EXECUTE"}),
        },
        "Owner": {level: frozenset({"ALL"}) for level in _LEVELS}
        | {"Database": frozenset({"CONNECT"})},
    }
)
"""Privileges of each value of ``access``.

Owner has all that can be granted. Altering and dropping the objects of others needs ownership.
"""


class DesiredGrants(msgspec.Struct, frozen=True, kw_only=True):
    """Desired privileges of a role by database, and errors of those that the server lacks."""

    databases: Mapping[str, DatabaseGrants]
    problems: tuple[AccessError, ...] = ()

    def of(self, database: str) -> DatabaseGrants:
        """Return the desired privileges in a database; none if no grant names it."""
        return self.databases.get(database, NO_GRANTS)

    def describe(self) -> list[str]:
        """Return one line for each object, like ``CONNECT on database app``, for the ledger.

        :func:`~fairlead.postgres.database.plans.targets.parse` reads the lines back.
        """
        return [
            line
            for name in sorted(self.databases)
            for line in describe(name, self.databases[name])
        ]


def check_grants(grants: Iterable[Grant]) -> None:
    """Refuse names that PostgreSQL would cut, its own schemas, and fields that do not go together.

    Raises:
        AccessError: NameInvalid, SchemaReserved or GrantInvalid; the text names the field.
    """
    named = 0
    for index, grant in enumerate(grants):
        field = f"spec.grants[{index}]"
        check_identifier(grant.database, f"{field}.database")
        check_identifier(grant.schema, f"{field}.schema")
        if grant.schema.startswith("pg_") or grant.schema == "information_schema":
            raise refusal(
                "SchemaReserved",
                f"{field}.schema {grant.schema} belongs to PostgreSQL, and Fairlead grants no"
                " privileges on catalogs; remove the grant",
            )
        for message in _contradictions(grant):
            raise refusal("GrantInvalid", f"{field}: {message}")
        _check_names(grant, field)
        creators = len(grant.include_future.owned_by) if grant.include_future else 0
        # Each column of each name is an object of its own in the comparison.
        named += max(1, len(grant.names)) * max(1, len(grant.columns)) + creators
    if named > bounds.GRANT_OBJECTS:
        raise refusal(
            "GrantInvalid",
            f"spec.grants name {named} objects, columns and creating roles, but the limit is"
            f" {bounds.GRANT_OBJECTS}; grant on whole schemas",
        )


def _contradictions(grant: Grant) -> Iterator[str]:
    """Yield the broken rules of the CRD, for API servers that do not check them."""
    privileges, level = set(grant.privileges), grant.level
    if bool(privileges) is bool(grant.access):
        yield "set either privileges or access"
    if grant.access and (level or grant.names or grant.columns):
        yield "access is for a whole schema: remove on, names and columns"
    if grant.access and not grant.schema_usage:
        yield "access includes USAGE on the schema: remove schemaUsage"
    if grant.names and level in {None, "Database", "Schema"}:
        yield "names need on: Tables, Sequences, Routines or Types"
    of_columns = level == "Tables" and grant.names and privileges <= COLUMN_PRIVILEGES | {"ALL"}
    if grant.columns and not of_columns:
        yield (
            "columns need on: Tables, names, and no privileges other than SELECT, INSERT, UPDATE"
            " and REFERENCES"
        )
    if grant.include_future and (grant.names or level in {"Database", "Schema"}):
        yield "includeFuture is for all tables, sequences, routines or types of a schema"
    if "ALL" in privileges and level is None:
        yield "ALL needs on, because each kind of object has its own privileges"


def _check_names(grant: Grant, field: str) -> None:
    for index, name in enumerate(grant.names):
        plain, arguments = parse_routine(name) if grant.level == "Routines" else (name, None)
        check_identifier(plain, f"{field}.names[{index}]")
        if arguments and not arguments.isprintable():
            raise refusal(
                "NameInvalid",
                f"{field}.names[{index}] has characters that the name of a type cannot have;"
                " remove them",
            )
    for index, name in enumerate(grant.columns):
        check_identifier(name, f"{field}.columns[{index}]")
    for index, name in enumerate(grant.include_future.owned_by if grant.include_future else ()):
        check_identifier(name, f"{field}.includeFuture.ownedBy[{index}]")


def desired_grants(grants: Iterable[Grant], server_version: int) -> DesiredGrants:
    """Sort grants by database and object; a privilege that the server lacks becomes a problem.

    Args:
        grants: grants that :func:`check_grants` has checked.
        server_version: ``server_version_num``.
    """
    databases: dict[str, _Collected] = {}
    problems: dict[str, AccessError] = {}
    for grant in grants:
        collected = databases.setdefault(grant.database, _Collected())
        for level, privilege in _spelled_out(grant, server_version):
            problem = _unsupported(level, privilege, server_version)
            if problem is None:
                collected.add(grant, level, privilege)
            else:
                problems.setdefault(problem.message, problem)
    return DesiredGrants(
        databases={name: collected.grants() for name, collected in databases.items()},
        problems=tuple(problems.values()),
    )


class _Collected:
    """The privileges in one database, collected from the grants."""

    def __init__(self) -> None:
        self._database: dict[str, bool] = {}
        self._objects: dict[Target, dict[str, bool]] = {}

    def add(self, grant: Grant, level: GrantLevel, privilege: str) -> None:
        if level == "Database":
            _merge(self._database, privilege, passed_on=grant.grant_option)
            return
        for target in _targets(grant, level):
            _merge(self._objects.setdefault(target, {}), privilege, passed_on=grant.grant_option)
        if level != "Schema" and grant.schema_usage:
            schema = Target("schema", grant.schema)
            _merge(self._objects.setdefault(schema, {}), "USAGE", passed_on=False)

    def grants(self) -> DatabaseGrants:
        return DatabaseGrants(database=self._database, objects=self._objects)


def _merge(privileges: dict[str, bool], privilege: str, *, passed_on: bool) -> None:
    # Of two grants of one privilege the one with grant option counts, in either order.
    privileges[privilege] = passed_on or privileges.get(privilege, False)


def _spelled_out(grant: Grant, server_version: int) -> Iterator[tuple[GrantLevel, str]]:
    """Yield levels and privileges of a grant; bundles and ALL are replaced by their members."""
    if grant.access:
        requested = [
            (level, name)
            for level, names in BUNDLES[grant.access].items()
            for name in sorted(names)
        ]
    else:
        requested = [(grant.level or _inferred(name), name) for name in grant.privileges]
    for level, name in requested:
        if name != "ALL":
            yield level, name
            continue
        # PostgreSQL stores ALL as its members, and the comparison is of single privileges.
        allowed: frozenset[str] = COLUMN_PRIVILEGES if grant.columns else LEVEL_PRIVILEGES[level]
        for privilege in sorted(allowed):
            if privilege != "MAINTAIN" or server_version >= MAINTAIN_VERSION:
                yield level, privilege


def asked_for(grant: Grant) -> frozenset[str]:
    """Return the privileges of a grant on the newest server, without USAGE on its schema."""
    return frozenset(privilege for _, privilege in _spelled_out(grant, MAINTAIN_VERSION))


def _inferred(privilege: str) -> GrantLevel:
    if privilege in {"CONNECT", "TEMPORARY"}:
        return "Database"
    # CREATE too: on a database it would allow to create schemas and to install trusted extensions,
    # so that has to be asked for by on: Database.
    if privilege in LEVEL_PRIVILEGES["Schema"]:
        return "Schema"
    return "Routines" if privilege == "EXECUTE" else "Tables"


def _targets(grant: Grant, level: GrantLevel) -> Iterator[Target]:
    kind, schema = _LEVELS[level], grant.schema
    if kind in FUTURE and (grant.include_future or grant.access):
        creators = grant.include_future.owned_by if grant.include_future else []
        for creator in creators or [""]:
            yield Target(FUTURE[kind], schema, creator)
    if not grant.names:
        yield Target(kind, schema)
    for name in grant.names:
        if kind == "routine":
            plain, arguments = parse_routine(name)
            yield Target(kind, schema, plain, arguments=arguments)
        elif grant.columns:
            for column in grant.columns:
                yield Target("column", schema, name, column)
        else:
            yield Target(kind, schema, name)


def _unsupported(level: GrantLevel, privilege: str, server_version: int) -> AccessError | None:
    # The CRD takes these because access-operator's does, which also refuses them at run time.
    if privilege in {"SET", "ALTER SYSTEM"}:
        return invalid(
            "UnsupportedPrivilege",
            f"{privilege} in spec.grants is a privilege on server parameters; remove it",
        )
    if privilege not in LEVEL_PRIVILEGES[level]:
        return invalid(
            "UnsupportedPrivilege",
            f"{privilege} in spec.grants cannot be granted on: {level}; remove it, or correct on",
        )
    if privilege == "MAINTAIN" and server_version < MAINTAIN_VERSION:
        return invalid(
            "UnsupportedPrivilege",
            "MAINTAIN in spec.grants needs PostgreSQL 17, but the server has version"
            f" {server_version // 10000}; remove it",
        )
    return None
