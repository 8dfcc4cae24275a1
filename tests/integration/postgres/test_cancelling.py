"""Work at a server that is cancelled at any of its awaits: no connection stays open."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.integration.postgres.conftest import create_database
from tests.support.cancelling import all_ended, cancelled_at
from tests.support.pgserver import grant, sync, wanted
from tests.support.waiting import SECONDS

from fairlead.postgres import bounds
from fairlead.postgres.database.connections import session as session_module
from fairlead.postgres.database.connections import sessions as module
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import ServerFullError
from fairlead.postgres.database.connections.login import connect, logs_in, open_session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.work import blockers
from fairlead.postgres.database.work.blockers import watching
from fairlead.postgres.errors import AccessError


ONE = sql.SQL("SELECT 1")
SLOW = sql.SQL("SELECT 'nothing' FROM pg_catalog.pg_sleep(0.02) p WHERE p::text IS NULL")
"""A query without rows that takes a while."""

Connections = list[psycopg.AsyncConnection[Any]]
Work = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """All connections that have logged in."""
    found: Connections = []
    original = session_module.LimitedConnection.__init__

    def note(self: session_module.LimitedConnection, pgconn: Any) -> None:
        found.append(self)
        original(self, pgconn)

    monkeypatch.setattr(session_module.LimitedConnection, "__init__", note)
    return found


@pytest.fixture(params=[1, 2], ids=["once", "twice"])
def times(request: pytest.FixtureRequest) -> int:
    """How often the work is cancelled: a group of tasks may do it as its owner does it."""
    number: int = request.param
    return number


async def _no_preparation() -> None:
    return


async def cancelled(
    work: Work, made: Connections, times: int, *, prepare: Work = _no_preparation
) -> None:
    """Cancel the work at each of its awaits in turn, and look for connections after each."""
    before = _sockets()
    for step in itertools.count():
        async with asyncio.timeout(SECONDS):
            await prepare()
            reached = await cancelled_at(step, work(), times=times)
            # What stays for good is left then.
            await all_ended()
        assert all(one.closed for one in made), step
        # Sockets of other threads, such as a sandbox's, may close meanwhile.
        assert _sockets() <= before, step
        made.clear()
        if not reached:
            return


def _sockets() -> set[str]:
    """The open sockets of this process, as the kernel names them."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(path.readlink()))
    return {name for name in found if name.startswith("socket:")}


async def test_a_connection_that_cannot_be_limited(
    endpoint: Endpoint, made: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = 9999
    monkeypatch.setattr(socket, "SO_RCVBUF", unknown)
    with pytest.raises(AccessError, match="ConnectionFailed"):
        await open_session(endpoint, "postgres")
    assert [one.closed for one in made] == [True]


async def test_a_session_that_is_opened_and_used(
    endpoint: Endpoint, made: Connections, times: int
) -> None:
    async def work() -> None:
        sessions = Sessions(endpoint)
        try:
            async with sessions.use("postgres") as session:
                await session.rows(ONE)
        finally:
            await sessions.close()

    await cancelled(work, made, times)


async def test_a_login_that_is_tried(endpoint: Endpoint, made: Connections, times: int) -> None:
    async def work() -> None:
        assert await logs_in(endpoint, "postgres", endpoint.username, endpoint.password)

    await cancelled(work, made, times)


async def test_a_session_without_a_pool(
    endpoint: Endpoint, made: Connections, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    # psycopg lets other tasks run only where the loop was busy for this long.
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", 0)

    async def work() -> None:
        async with connect(endpoint, "postgres") as session:
            await session.rows(ONE)

    await cancelled(work, made, times)


async def test_the_end_of_a_pool_whose_sessions_are_asked(
    endpoint: Endpoint, made: Connections, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 0)
    monkeypatch.setattr(module, "_OURS", "")
    monkeypatch.setattr(module, "_WAITED_FOR", SLOW)
    pools: list[Sessions] = []

    async def prepare() -> None:
        sessions = Sessions(endpoint)
        async with sessions.use("postgres"), sessions.use("postgres"):
            pass
        while sessions._in_question is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        pools.append(sessions)

    await cancelled(lambda: pools.pop().close(), made, times, prepare=prepare)


async def test_a_pool_that_ends_before_the_user_of_a_session(
    endpoint: Endpoint, made: Connections
) -> None:
    sessions = Sessions(endpoint)
    async with sessions.use("postgres"):
        await sessions.close()
    assert [one.closed for one in made] == [True]
    async with sessions.use("postgres"), sessions._any_idle() as idle:
        assert idle is None
    assert [one.closed for one in made] == [True, True]


async def test_a_pool_that_ends_while_an_idle_session_is_used_for_a_look(
    endpoint: Endpoint, made: Connections
) -> None:
    sessions = Sessions(endpoint)
    async with sessions.use("postgres"):
        pass
    async with sessions._any_idle():
        await sessions.close()
    assert [one.closed for one in made] == [True]


async def test_a_pool_that_asks_who_fills_the_server(
    endpoint: Endpoint, made: Connections, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    async def refused(*args: Any) -> session_module.Session:
        if args[1] != "postgres":
            raise ServerFullError("TooManyConnections", "the server is full")
        return await open_session(*args)

    monkeypatch.setattr(module, "open_session", refused)

    async def work() -> None:
        sessions = Sessions(endpoint)
        try:
            async with sessions.use("postgres"):
                pass
            with suppress(AccessError):
                async with sessions.use("other"):
                    pass
        finally:
            await sessions.close()

    await cancelled(work, made, times)


@pytest.mark.parametrize("seconds", [5.0, 0.0], ids=["ends", "outlasts"])
async def test_blockers_that_are_watched(
    endpoint: Endpoint,
    made: Connections,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    seconds: float,
) -> None:
    """A look ends in the time that it gets, or outlasts it, as on a busy machine."""
    monkeypatch.setattr(bounds, "BLOCKED_END_SECONDS", seconds)
    monkeypatch.setattr(blockers, "_WAITED_FOR", SLOW)
    original = blockers.read_blockers

    async def work() -> None:
        sessions, looks = Sessions(endpoint), asyncio.Event()

        async def look(*args: Any) -> list[blockers.Blocker]:
            looks.set()
            return await original(*args)

        monkeypatch.setattr(blockers, "read_blockers", look)
        try:
            async with watching(sessions):
                await looks.wait()
        finally:
            # Cancelled twice, the block does not wait for its look.
            assert times > 1 or not sessions._used
            await sessions.close()

    await cancelled(work, made, times)


async def test_an_access_in_two_databases(
    endpoint: Endpoint, admin: psycopg.AsyncConnection, made: Connections, times: int
) -> None:
    names = [await create_database(admin) for _ in range(2)]
    access = wanted("app", *(grant(name, "USAGE") for name in names))

    async def work() -> None:
        await sync(endpoint, access)

    await cancelled(work, made, times)
