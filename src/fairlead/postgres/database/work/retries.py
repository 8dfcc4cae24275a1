"""Work that other sessions may be in the way of, and its failures in our words."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import psycopg

from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.errors import AccessError


_ATTEMPTS = 6
"""Tries of one transaction while other sessions are in its way."""
_PAUSE_SECONDS = (0.02, 0.2)
"""The shortest and the longest pause between them, chosen at random."""

T = TypeVar("T")


@asynccontextmanager
async def working(sessions: Sessions, what: str) -> AsyncIterator[Session]:
    """A session in the maintenance database; ``what`` completes "could not ...".

    Raises:
        AccessError: there is no connection, or a statement failed.
    """
    try:
        async with sessions.maintenance() as session:
            yield session
    except psycopg.Error as error:
        raise explain_statement(error, what, sessions.endpoint.username) from None


def explain(error: AccessError | psycopg.Error, what: str, admin: str) -> AccessError:
    """The error in our words; ``what`` completes "could not ..."."""
    return error if isinstance(error, AccessError) else explain_statement(error, what, admin)


def not_applied(what: str, admin: str) -> AccessError:
    """What PostgreSQL answered OK to, and did not do."""
    return AccessError(
        "InsufficientPrivilege",
        f"PostgreSQL did not {what}, without saying so; {admin} lacks the grant option, or another"
        " role granted it",
    )


async def retried(work: Callable[[], Awaitable[T]], what: str) -> T:
    """Do the work, and again after a moment when another session was in its way.

    Raises:
        AccessError: the connection broke, or the others would not give way.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return await work()
        except psycopg.Error as error:
            last = attempt + 1 == _ATTEMPTS
            if last or error.sqlstate not in TRANSIENT_STATES:
                raise explain_statement(error, what, "the administrator") from None
        await asyncio.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - spreads, hides nothing
    raise AssertionError
