"""What statements are, by PostgreSQL's own parser."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import psycopg
from pglast import ast, parse_sql
from pglast.parser import ParseError

from fairlead.postgres.database.connections.session import Row, Session, Statement


SENT = frozenset(
    {
        "AlterDatabaseStmt",
        "AlterDefaultPrivilegesStmt",
        "AlterOwnerStmt",
        "AlterRoleSetStmt",
        "AlterRoleStmt",
        "AlterSubscriptionStmt",
        "CommentStmt",
        "CreateRoleStmt",
        "DropOwnedStmt",
        "DropRoleStmt",
        "DropSubscriptionStmt",
        "GrantRoleStmt",
        "GrantStmt",
        "ReassignOwnedStmt",
        "SelectStmt",
        "TransactionStmt",
        "VariableSetStmt",
    }
)
"""The kinds of all statements that Fairlead has any need of."""
_PARAMETER = re.compile(r"%\(\w+\)s")


def parsed(text: str) -> ast.Node | None:
    """The only statement in a text."""
    (found,) = parse_sql(text)
    return found.stmt


def tree(node: Any, names: Mapping[str, str] | None = None) -> Any:
    """A statement without its places in a text, and with other words in place of some."""
    if isinstance(node, ast.Node):
        return tree(node(skip_none=True), names)
    if isinstance(node, dict):
        return {key: tree(value, names) for key, value in node.items() if "location" not in key}
    if isinstance(node, (list, tuple)):
        return [tree(one, names) for one in node]
    if isinstance(node, str):
        for old, new in (names or {}).items():
            if old in node:
                return node.replace(old, new)
    return node


@functools.lru_cache(100_000)
def wrong(text: str, *, parameters: bool) -> str:
    """Why a statement is none that may be sent; "" for one that may."""
    if parameters:
        text = _PARAMETER.sub("$1", text).replace("%%", "%")
    try:
        statements = [type(one.stmt).__name__ for one in parse_sql(text)]
    except ParseError as error:
        return f"{error}: {text}"
    return "" if len(statements) == 1 and statements[0] in SENT else f"{statements}: {text}"


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Whatever sessions send meanwhile that is not one statement of those kinds."""
    found: list[str] = []
    send, rows = Session.send, Session.rows

    def look(query: Statement, *, parameters: bool = False) -> None:
        why = wrong(query.as_string(), parameters=parameters)
        if why:
            found.append(why)

    async def watched_send(self: Session, statement: Statement) -> psycopg.AsyncCursor[Row]:
        look(statement)
        return await send(self, statement)

    async def watched_rows(
        self: Session, query: Statement, parameters: Mapping[str, object] | None = None
    ) -> list[Row]:
        look(query, parameters=parameters is not None)
        return await rows(self, query, parameters)

    with (
        mock.patch.object(Session, "send", watched_send),
        mock.patch.object(Session, "rows", watched_rows),
    ):
        yield found
