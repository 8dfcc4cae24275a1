"""Statements, composed from identifiers and literals alone.

Privilege keywords come from a closed set; nothing that a user wrote is ever SQL text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from psycopg import sql

from fairlead.postgres.database.grants import (
    DATABASE_PRIVILEGES,
    SCHEMA_PRIVILEGES,
    TABLE_PRIVILEGES,
)
from fairlead.postgres.database.snapshot import Action, Claim, Difference, Level


_KEYWORDS = {
    word: sql.SQL(word)
    for word in sorted(DATABASE_PRIVILEGES | SCHEMA_PRIVILEGES | TABLE_PRIVILEGES | {"EXECUTE"})
}
_ACTIONS = {
    "grant": sql.SQL("GRANT {} ON {} {} TO {}"),
    "revoke": sql.SQL("REVOKE {} ON {} {} FROM {}"),
}
_LEVELS = {
    "schema": sql.SQL("SCHEMA"),
    "table": sql.SQL("TABLE"),
    "sequence": sql.SQL("SEQUENCE"),
    "routine": sql.SQL("ROUTINE"),
}
_COMMA = sql.SQL(", ")
_OBJECTS_PER_STATEMENT = 200
"""Objects that one GRANT or REVOKE names."""


def create_role(username: str, verifier: str) -> sql.Composed:
    """A role that may log in and do nothing else."""
    return sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
        sql.Identifier(username), sql.Literal(verifier)
    )


def alter_role(username: str, *, login: bool, verifier: str | None) -> sql.Composed:
    """Give a role its login or its password back; only what is named is changed."""
    parts: list[sql.Composable] = [sql.SQL("ALTER ROLE {}").format(sql.Identifier(username))]
    if login:
        parts.append(sql.SQL("LOGIN"))
    if verifier is not None:
        parts.append(sql.SQL("PASSWORD {}").format(sql.Literal(verifier)))
    return sql.SQL(" ").join(parts)


def fence_role(username: str) -> sql.Composed:
    """Take a role's login away; its password stays."""
    return sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(username))


def comment_role(username: str, claim: Claim | None) -> sql.Composed:
    """Write the claim, or remove it."""
    text = sql.Literal(claim.text() if claim else None)
    return sql.SQL("COMMENT ON ROLE {} IS {}").format(sql.Identifier(username), text)


def database_grant(
    action: Action, privileges: Iterable[str], database: str, usernames: Iterable[str]
) -> sql.Composed:
    """Give or take privileges on a database."""
    return _ACTIONS[action].format(
        _keywords(privileges),
        sql.SQL("DATABASE"),
        sql.Identifier(database),
        _COMMA.join(map(sql.Identifier, usernames)),
    )


def object_grants(differences: Iterable[Difference], username: str) -> Iterator[sql.Composed]:
    """The fewest statements that settle the differences.

    Objects that lack the same privileges share a statement, so each catalog row is written once.
    """
    objects: dict[tuple[Action, Level, str], dict[_Object, set[str]]] = {}
    for found in differences:
        if found.action != "absent":
            group = objects.setdefault((found.action, found.level, found.schema), {})
            key = (found.name, found.arguments)
            group.setdefault(key, set()).add(found.privilege)
    for (action, level, schema), group in objects.items():
        for privileges, names in _by_privileges(group):
            yield _ACTIONS[action].format(
                _keywords(privileges),
                _LEVELS[level],
                _COMMA.join(_object(level, schema, *name) for name in names),
                sql.Identifier(username),
            )


_Object = tuple[str, tuple[tuple[str, str], ...]]


def _by_privileges(
    objects: dict[_Object, set[str]],
) -> Iterator[tuple[frozenset[str], list[_Object]]]:
    groups: dict[frozenset[str], list[_Object]] = {}
    for name, privileges in objects.items():
        groups.setdefault(frozenset(privileges), []).append(name)
    for privileges_, names in groups.items():
        rest = iter(sorted(names))
        while chunk := list(islice(rest, _OBJECTS_PER_STATEMENT)):
            yield privileges_, chunk


def _object(
    level: Level, schema: str, name: str, arguments: tuple[tuple[str, str], ...]
) -> sql.Composable:
    if level == "schema":
        return sql.Identifier(schema)
    if level != "routine":
        return sql.Identifier(schema, name)
    types = _COMMA.join(sql.Identifier(*argument) for argument in arguments)
    return sql.SQL("{}({})").format(sql.Identifier(schema, name), types)


def _keywords(privileges: Iterable[str]) -> sql.Composed:
    return _COMMA.join(_KEYWORDS[privilege] for privilege in sorted(privileges))
