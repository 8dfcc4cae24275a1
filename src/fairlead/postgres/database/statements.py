"""Statements on shared objects, composed from identifiers and literals alone.

Privilege keywords come from a closed set; nothing that a user wrote is ever SQL text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from psycopg import sql

from fairlead.postgres.database.grants import DATABASE_PRIVILEGES
from fairlead.postgres.database.snapshot import Claim


_KEYWORDS: Mapping[str, sql.SQL] = {word: sql.SQL(word) for word in sorted(DATABASE_PRIVILEGES)}
_ACTIONS = {
    ("grant", False): sql.SQL("GRANT {} ON DATABASE {} TO {}"),
    ("grant", True): sql.SQL("GRANT {} ON DATABASE {} TO {} WITH GRANT OPTION"),
    # CASCADE, for others may have got it from the role.
    ("revoke", False): sql.SQL("REVOKE {} ON DATABASE {} FROM {} CASCADE"),
    ("revoke", True): sql.SQL("REVOKE GRANT OPTION FOR {} ON DATABASE {} FROM {} CASCADE"),
}
_COMMA = sql.SQL(", ")


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


class DatabaseAction(NamedTuple):
    """What to give on a database, or to take; with ``option`` it is about the grant option."""

    verb: Literal["grant", "revoke"]
    privileges: tuple[str, ...]
    database: str
    option: bool = False

    def __str__(self) -> str:
        option = "" if not self.option else " with its grant option"
        if self.option and self.verb == "revoke":
            option = ", the grant option alone,"
        return f"{self.verb} {', '.join(self.privileges)}{option} on database {self.database}"


def database_grant(action: DatabaseAction, usernames: Iterable[str]) -> sql.Composed:
    """Give or take privileges on a database."""
    return _ACTIONS[action.verb, action.option].format(
        _keywords(action.privileges),
        sql.Identifier(action.database),
        _COMMA.join(map(sql.Identifier, usernames)),
    )


def _keywords(privileges: Iterable[str]) -> sql.Composed:
    return _COMMA.join(_KEYWORDS[privilege] for privilege in sorted(privileges))
