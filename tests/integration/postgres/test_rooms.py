"""The room for sessions at one address, which several pools share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.integration.postgres.test_sessions import pid
from tests.support.pgserver import fetch
from tests.support.waiting import eventually

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.rooms import SessionRooms
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.errors import AccessError


ALL = ("postgres", "template1")
"""Databases that every server has."""


@pytest.fixture
async def pools(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Sessions]]:
    """Pools of three PostgresServers that lead to one PostgreSQL, with room for two sessions."""
    monkeypatch.setattr(bounds, "SESSIONS_BESIDE", 1)
    monkeypatch.setattr(bounds, "ROOM_SECONDS", 0.05)
    rooms = SessionRooms(lambda: 1)
    made = [Sessions(endpoint, room=rooms.of(endpoint)) for _ in range(3)]
    yield made
    for pool in made:
        await pool.close()


async def count(postgres: EmbeddedPostgres) -> int:
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'fairlead-postgres'"
    return len(await fetch(postgres, "postgres", query))


async def test_idle_sessions_of_all_pools_make_room(
    pools: list[Sessions], postgres: EmbeddedPostgres
) -> None:
    for pool in pools:
        for database in ALL:
            await pid(pool, database)

    # The last session in the maintenance database stays, for a server that lets no one in.
    assert [[*pool._idle.values()] for pool in pools] == [
        ["postgres"],
        ["postgres", "template1"],
        ["postgres", "template1"],
    ]

    async def closed() -> bool:
        return await count(postgres) == 5

    await eventually(closed)


async def test_what_pools_cannot_do_without_keeps_no_session_waiting(
    pools: list[Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ROOM_SECONDS", 3600)
    for pool in pools:
        await pid(pool)
    async with asyncio.timeout(60), pools[0].use("template1"), pools[1].use("template1"):
        pass


async def test_a_full_room_keeps_no_session_out(pools: list[Sessions]) -> None:
    """Each user of a session may need another one before it is done."""
    async with asyncio.timeout(60), AsyncExitStack() as stack:
        for pool in pools:
            for database in ALL:
                await stack.enter_async_context(pool.use(database))
        assert [len(pool.pids) for pool in pools] == [2, 2, 2]


async def test_a_session_that_becomes_idle_makes_room(
    pools: list[Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ROOM_SECONDS", 3600)
    async with pools[0].use("template1"), pools[1].use("template1"):
        waiting = asyncio.create_task(pid(pools[2]))
        await asyncio.sleep(0)
        assert not waiting.done()
    async with asyncio.timeout(60):
        await waiting


async def test_a_login_that_fails_takes_no_room(endpoint: Endpoint) -> None:
    rooms = SessionRooms(lambda: 0)
    away = replace(endpoint, port=1)
    pool = Sessions(away, room=rooms.of(away))
    for _ in range(2):
        with pytest.raises(AccessError):
            await pid(pool)
    assert rooms.of(away)._open == 0


def test_a_tenant_takes_no_room_of_others(endpoint: Endpoint) -> None:
    rooms = SessionRooms(lambda: 3)
    named = replace(endpoint, host="db.example", username="other")
    assert rooms.of(named) is (room := rooms.of(replace(named, host="DB.example")))
    assert rooms.of(named, "namespace team") is not room
    assert rooms.of(named, "namespace team") is not rooms.of(named, "namespace other")
