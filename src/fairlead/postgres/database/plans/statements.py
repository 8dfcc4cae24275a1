"""Statements on shared objects, composed from identifiers and literals alone.

Privilege keywords come from a closed set; no text from a user becomes SQL text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec
from psycopg import sql

from fairlead.postgres.database.plans.grants import DATABASE_PRIVILEGES
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.errors import PasswordForm


_KEYWORDS: Mapping[str, sql.SQL] = {word: sql.SQL(word) for word in sorted(DATABASE_PRIVILEGES)}
_ACTIONS = {
    ("grant", False): sql.SQL("GRANT {} ON DATABASE {} TO {}"),
    ("grant", True): sql.SQL("GRANT {} ON DATABASE {} TO {} WITH GRANT OPTION"),
    # CASCADE, because other roles may have it from this role.
    ("revoke", False): sql.SQL("REVOKE {} ON DATABASE {} FROM {} CASCADE"),
    ("revoke", True): sql.SQL("REVOKE GRANT OPTION FOR {} ON DATABASE {} FROM {} CASCADE"),
}
_COMMA = sql.SQL(", ")


class AccessStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement for the accesses of ``usernames``; ``what`` completes "could not ...".

    ``why`` is the reason for the statement. Neither contains a secret.
    """

    statement: sql.SQL | sql.Composed
    what: str = ""
    why: str
    usernames: tuple[str, ...] = ()
    database: str = ""
    """Database in which a plan shows the statement, "" for the maintenance database."""
    on: str = ""
    """Database on which, or in which, the statement changes privileges, "" for none."""
    alone: bool = False
    """Whether the statement may fail without failing its access."""
    field: str = ""
    """Field of the spec whose value a server may refuse, "" for none."""
    shown: str = ""
    """Text that is shown in place of a statement with a time or a password, "" for none."""
    sets: PasswordForm = ""
    """Form of the password that the statement sets, "" if it sets none."""
    windows: tuple[str, ...] | None = None
    """Hashes of the parts for which the text stands with their number, None for a statement."""

    def __repr__(self) -> str:
        # The default has the statement, and so a password, in a log or a traceback.
        return f"{type(self).__name__}({self.what!r})"

    @property
    def text(self) -> str:
        """The statement, with *** in place of a password."""
        return self.shown or self.statement.as_string()


class SharedChange(AccessStatement, frozen=True, kw_only=True):
    """A statement that several roles share, and that may fail for one of them alone."""

    def only(self, usernames: Iterable[str]) -> SharedChange:
        """Return the same change for some of the roles."""
        raise NotImplementedError


def create_role(
    username: str, secret: str | None, parts: Iterable[sql.Composable] = ()
) -> sql.Composed:
    """Return CREATE ROLE with LOGIN and a password, with ``parts`` for other attributes.

    The ``secret`` is the password's verifier, or the password for a server that refuses these;
    None is an empty one.
    """
    head = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
        sql.Identifier(username), sql.Literal(secret or "")
    )
    return sql.SQL(" ").join([head, *parts])


def alter_role(
    username: str,
    *,
    login: bool,
    secret: str | None,
    parts: Iterable[sql.Composable] = (),
) -> sql.Composed:
    """Return ALTER ROLE for login, password and attributes; the others stay unchanged."""
    # Only what changes is named: without superuser PostgreSQL refuses NOSUPERUSER and the like
    # even where they change nothing.
    words: list[sql.Composable] = [sql.SQL("ALTER ROLE {}").format(sql.Identifier(username))]
    if login:
        words.append(sql.SQL("LOGIN"))
    if secret is not None:
        words.append(sql.SQL("PASSWORD {}").format(sql.Literal(secret)))
    return sql.SQL(" ").join([*words, *parts])


def fence_role(username: str) -> sql.Composed:
    """Return ALTER ROLE that takes LOGIN from a role; its password stays."""
    return sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(username))


def comment_role(username: str, comment: RoleClaim | str, note: str) -> sql.Composed:
    """Return COMMENT ON ROLE with a claim or other text, "" for none, and the note of users."""
    text = comment.text() if isinstance(comment, RoleClaim) else comment
    # The claim has to be the first line, see ``parse_claim``.
    whole = "\n".join(filter(None, [text, note])) or None
    return sql.SQL("COMMENT ON ROLE {} IS {}").format(sql.Identifier(username), sql.Literal(whole))


class DatabaseAction(NamedTuple):
    """Privileges to grant or revoke on a database.

    With ``option`` they are granted with their grant option, or lose that alone.
    """

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
    """Return the GRANT or REVOKE of an action on a database."""
    return _ACTIONS[action.verb, action.option].format(
        _keywords(action.privileges),
        sql.Identifier(action.database),
        _COMMA.join(map(sql.Identifier, usernames)),
    )


def revoke_public(privileges: Iterable[str], database: str) -> sql.Composed:
    """Return the REVOKE of privileges on a database from PUBLIC."""
    return sql.SQL("REVOKE {} ON DATABASE {} FROM PUBLIC").format(
        _keywords(privileges), sql.Identifier(database)
    )


def _keywords(privileges: Iterable[str]) -> sql.Composed:
    return _COMMA.join(_KEYWORDS[privilege] for privilege in sorted(privileges))
