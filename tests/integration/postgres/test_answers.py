"""Answers of tenants' servers, which have a bound together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from psycopg import sql
from tests.support import hostile
from tests.support.hostile import Babbling
from tests.support.waiting import eventually

from fairlead.postgres.database.connections import login
from fairlead.postgres.database.connections.answers import AnswerBudget
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import AnswerTooLargeError
from fairlead.postgres.database.connections.login import connect
from fairlead.postgres.database.connections.session import Row


MIB = 1 << 20
ONE = sql.SQL("SELECT 1")


@pytest.fixture
def endpoint(endpoint: Endpoint) -> Endpoint:
    """A server that a tenant names."""
    return replace(endpoint, of_tenant=True)


@pytest.fixture(autouse=True)
def budget(monkeypatch: pytest.MonkeyPatch) -> AnswerBudget:
    made = AnswerBudget(MIB)
    monkeypatch.setattr(login, "OF_TENANTS", made)
    return made


def part(size: int) -> Callable[[], Iterator[bytes]]:
    """An answer whose end does not come after so many bytes."""

    def flood() -> Iterator[bytes]:
        yield from itertools.islice(hostile.rows(), 1 + size // 50_000)

    return flood


async def ask(endpoint: Endpoint, server: Babbling) -> list[Row]:
    async with connect(replace(endpoint, port=server.port), "postgres") as session:
        return await session.rows(ONE)


class Silent(Babbling):
    """Sends what it has, and then nothing more."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await super().serve(reader, writer)
        await asyncio.Event().wait()


async def test_of_answers_that_exceed_it_together_the_largest_is_broken_off(
    endpoint: Endpoint, budget: AnswerBudget
) -> None:
    async with Silent(part(700_000)) as large, Silent(part(500_000)) as small:
        first = asyncio.create_task(ask(endpoint, large))

        async def arrived() -> bool:
            return sum(budget._taken.values()) > 600_000

        await eventually(arrived)
        second = asyncio.create_task(ask(endpoint, small))
        with pytest.raises(AnswerTooLargeError):
            await first
        # Its own size is none that a server may not send.
        async with connect(endpoint, "postgres") as session:
            assert await session.rows(ONE) == [(1,)]
        assert not second.done()
        second.cancel()
        await asyncio.wait([second])
    assert not budget._taken


async def test_what_a_session_has_received_counts_until_it_rests(
    endpoint: Endpoint, budget: AnswerBudget
) -> None:
    rows = sql.SQL("SELECT g FROM pg_catalog.generate_series(1, 3000) g")
    async with connect(endpoint, "postgres") as session:

        async def ask_often(*, rest: bool) -> None:
            for _ in range(10):
                await session.rows(rows)
                if rest:
                    session.rest()

        await ask_often(rest=True)
        with pytest.raises(AnswerTooLargeError):
            await ask_often(rest=False)
    assert not budget._taken


async def test_answers_of_the_platform_teams_servers_do_not_count(
    endpoint: Endpoint, budget: AnswerBudget
) -> None:
    async with connect(replace(endpoint, of_tenant=False), "postgres") as session:
        await session.rows(sql.SQL("SELECT g FROM pg_catalog.generate_series(1, 20000) g"))
        assert not budget._taken
