"""What statements are, by PostgreSQL's own parser."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from pglast import ast, parse_sql
from pglast.parser import ParseError

from fairlead.postgres.database.connections.session import Query, Row, Session


SENT = frozenset(
    {
        "AlterDatabaseStmt",
        "AlterDefaultPrivilegesStmt",
        "AlterOwnerStmt",
        "AlterRoleSetStmt",
        "AlterRoleStmt",
        "AlterSubscriptionStmt",
        "AlterTableStmt",
        "CommentStmt",
        "CreateRoleStmt",
        "DropOwnedStmt",
        "DropRoleStmt",
        "DropStmt",
        "DropSubscriptionStmt",
        "DropUserMappingStmt",
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
    exchange = Session.exchange

    async def watching(self: Session, *asked: Query) -> list[list[Row]]:
        for query, parameters in asked:
            why = wrong(query.as_string(), parameters=parameters is not None)
            if why:
                found.append(why)
        return await exchange(self, *asked)

    with mock.patch.object(Session, "exchange", watching):
        yield found
