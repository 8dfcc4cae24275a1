"""Statements on shared objects, composed from identifiers and literals alone.

Privilege keywords come from a closed set; nothing that a user wrote is ever SQL text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from psycopg import sql

from fairlead.postgres.database.plans.grants import DATABASE_PRIVILEGES
from fairlead.postgres.database.plans.snapshot import Claim


_KEYWORDS: Mapping[str, sql.SQL] = {word: sql.SQL(word) for word in sorted(DATABASE_PRIVILEGES)}
_ACTIONS = {
    ("grant", False): sql.SQL("GRANT {} ON DATABASE {} TO {}"),
    ("grant", True): sql.SQL("GRANT {} ON DATABASE {} TO {} WITH GRANT OPTION"),
    # CASCADE, for others may have got it from the role.
    ("revoke", False): sql.SQL("REVOKE {} ON DATABASE {} FROM {} CASCADE"),
    ("revoke", True): sql.SQL("REVOKE GRANT OPTION FOR {} ON DATABASE {} FROM {} CASCADE"),
}
_COMMA = sql.SQL(", ")


def create_role(
    username: str, verifier: str, parts: Iterable[sql.Composable] = ()
) -> sql.Composed:
    """A role that may log in, with ``parts`` for its other attributes."""
    head = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
        sql.Identifier(username), sql.Literal(verifier)
    )
    return sql.SQL(" ").join([head, *parts])


def alter_role(
    username: str,
    *,
    login: bool,
    verifier: str | None,
    parts: Iterable[sql.Composable] = (),
) -> sql.Composed:
    """Give a role its login or its password back, or attributes; only what is named is changed."""
    words: list[sql.Composable] = [sql.SQL("ALTER ROLE {}").format(sql.Identifier(username))]
    if login:
        words.append(sql.SQL("LOGIN"))
    if verifier is not None:
        words.append(sql.SQL("PASSWORD {}").format(sql.Literal(verifier)))
    return sql.SQL(" ").join([*words, *parts])


def fence_role(username: str) -> sql.Composed:
    """Take a role's login away; its password stays."""
    return sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(username))


def comment_role(username: str, comment: Claim | str, note: str) -> sql.Composed:
    """Write the claim or another comment, "" for none, and below it what people have written."""
    text = comment.text() if isinstance(comment, Claim) else comment
    whole = "\n".join(filter(None, [text, note])) or None
    return sql.SQL("COMMENT ON ROLE {} IS {}").format(sql.Identifier(username), sql.Literal(whole))


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


def revoke_public(privileges: Iterable[str], database: str) -> sql.Composed:
    """Take privileges on a database from PUBLIC."""
    return sql.SQL("REVOKE {} ON DATABASE {} FROM PUBLIC").format(
        _keywords(privileges), sql.Identifier(database)
    )


def _keywords(privileges: Iterable[str]) -> sql.Composed:
    return _COMMA.join(_KEYWORDS[privilege] for privilege in sorted(privileges))
