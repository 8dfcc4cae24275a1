"""Work that other sessions may be in the way of."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement


ATTEMPTS = 6
"""Tries of one transaction while other sessions are in its way."""
_PAUSE_SECONDS = (0.02, 0.2)
"""The shortest and the longest pause between them, chosen at random."""

T = TypeVar("T")


async def give_way(error: psycopg.Error, attempt: int, what: str) -> None:
    """Wait a moment after a failed attempt, the first being 0, if another session was in its way.

    Raises:
        AccessError: the connection broke, or the others would not give way.
    """
    if attempt + 1 == ATTEMPTS or error.sqlstate not in TRANSIENT_STATES:
        raise explain_statement(error, what, "the administrator") from None
    await asyncio.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - spreads, hides nothing


async def retried(work: Callable[[], Awaitable[T]], what: str) -> T:
    """Do the work, and again after a moment when another session was in its way.

    Raises:
        AccessError: the connection broke, or the others would not give way.
    """
    for attempt in range(ATTEMPTS):
        try:
            return await work()
        except psycopg.Error as error:
            await give_way(error, attempt, what)
    raise AssertionError
