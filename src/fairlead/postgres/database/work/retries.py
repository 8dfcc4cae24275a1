"""Retries of transactions that other sessions interfered with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.failures import TRANSIENT_STATES, explain_statement
from fairlead.postgres.errors import PasswordForm


_PAUSE_SECONDS = (0.02, 0.2)
"""Shortest and longest pause between two tries in seconds, chosen at random."""

T = TypeVar("T")


async def give_way(error: psycopg.Error, attempt: int, what: str, sets: PasswordForm = "") -> None:
    """Wait a moment after a failed attempt, counted from 0, if another session interfered.

    Raises:
        AccessError: the error is another one, or the attempt was the last.
    """
    if attempt + 1 == bounds.TRANSACTION_TRIES or error.sqlstate not in TRANSIENT_STATES:
        raise explain_statement(error, what, "the administrator", sets=sets) from None
    await pause()


async def pause() -> None:
    """Wait a moment before another try."""
    await asyncio.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - spreads, hides nothing


async def retried(work: Callable[[], Awaitable[T]], what: str, sets: PasswordForm = "") -> T:
    """Do the work, and again after a moment if another session interfered.

    Raises:
        AccessError: the work failed for another reason, or at each attempt.
    """
    for attempt in range(bounds.TRANSACTION_TRIES):
        try:
            return await work()
        except psycopg.Error as error:
            await give_way(error, attempt, what, sets)
    raise AssertionError
