"""Sessions that are kept, on a real server that may end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from tests.unit.postgres.conftest import create_database
from tests.unit.postgres.helpers import fetch, run

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections import sessions as module
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.errors import AccessError


PID = sql.SQL("SELECT pg_catalog.pg_backend_pid()")


@pytest.fixture
async def sessions(endpoint: Endpoint) -> AsyncIterator[Sessions]:
    made = Sessions(endpoint)
    yield made
    await made.close()


async def pid(sessions: Sessions, database: str = "postgres") -> int:
    async with sessions.use(database) as session:
        return await pid_of(session)


async def pid_of(session: Session) -> int:
    ((number,),) = await session.rows(PID)
    return int(number)


async def gone(postgres: EmbeddedPostgres, number: int) -> None:
    query = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
    async with asyncio.timeout(30):
        while await fetch(postgres, "postgres", query, number):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_session_is_used_again(sessions: Sessions) -> None:
    assert await pid(sessions) == await pid(sessions)
    assert sessions.tally.logins == 1


async def test_two_users_at_once_have_two_sessions(sessions: Sessions) -> None:
    async with sessions.use("postgres") as first, sessions.use("postgres") as second:
        assert await pid_of(first) != await pid_of(second)
        last = await pid_of(first)
    # Of two that are idle the one that was used last is used again; the other may be let go.
    assert await pid(sessions) == last
    assert sessions.tally.logins == 2


async def test_a_session_that_the_server_has_ended_is_not_used_again(
    sessions: Sessions, postgres: EmbeddedPostgres, admin: psycopg.AsyncConnection
) -> None:
    first = await pid(sessions)
    await admin.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
    await gone(postgres, first)
    assert await pid(sessions) != first
    assert sessions.tally.logins == 2


@pytest.mark.parametrize("error", [RuntimeError, AccessError, asyncio.CancelledError])
async def test_a_session_in_which_something_failed_is_ended(
    sessions: Sessions, postgres: EmbeddedPostgres, error: type[BaseException]
) -> None:
    arguments = ("Locked", "wait") if error is AccessError else ()
    numbers: list[int] = []

    async def fail() -> None:
        async with sessions.use("postgres") as session:
            numbers.append(await pid_of(session))
            raise error(*arguments)

    with pytest.raises(error):
        await fail()
    (number,) = numbers
    await gone(postgres, number)
    assert await pid(sessions) != number


async def test_a_statement_that_fails_ends_its_session_alone(
    sessions: Sessions, database: str
) -> None:
    other = await pid(sessions, database)
    with pytest.raises(psycopg.errors.DivisionByZero):
        async with sessions.use("postgres") as session:
            await session.rows(sql.SQL("SELECT 1 / 0"))
    assert await pid(sessions, database) == other


async def test_the_oldest_go_first(
    sessions: Sessions,
    postgres: EmbeddedPostgres,
    admin: psycopg.AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    names = [await create_database(admin) for _ in range(3)]
    first = {name: await pid(sessions, name) for name in names[:2]}
    # Used again, the first is not the oldest any more.
    assert await pid(sessions, names[0]) == first[names[0]]
    await pid(sessions, names[2])
    await gone(postgres, first[names[1]])
    assert await pid(sessions, names[0]) == first[names[0]]
    assert sessions.tally.logins == 3


async def test_closing_ends_what_is_idle(sessions: Sessions, postgres: EmbeddedPostgres) -> None:
    number = await pid(sessions)
    await sessions.close()
    await gone(postgres, number)
    assert await pid(sessions) != number


async def test_the_database_named_stands_in_for_a_maintenance_database_that_is_closed(
    endpoint: Endpoint, postgres: EmbeddedPostgres, admin: psycopg.AsyncConnection
) -> None:
    closed, named = await create_database(admin), await create_database(admin)
    await admin.execute("CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest'")
    await run(postgres, "postgres", "REVOKE CONNECT ON DATABASE {d} FROM PUBLIC", d=closed)
    modest = replace(
        endpoint, username="modest", password="modest", maintenance=closed, fallback=named
    )
    sessions = Sessions(modest)
    where = sql.SQL("SELECT pg_catalog.current_database()::text")
    for _ in range(2):
        async with sessions.maintenance() as session:
            assert await session.rows(where) == [(named,)]
    # The closed one was asked once, so that it is always the same lock that keeps writers apart.
    assert sessions.tally.logins == 1
    await run(postgres, "postgres", "GRANT CONNECT ON DATABASE {d} TO modest", d=closed)
    async with sessions.maintenance() as session:
        assert await session.rows(where) == [(named,)]
    await sessions.close()


async def test_nothing_stands_in_for_a_server_that_is_away(endpoint: Endpoint) -> None:
    sessions = Sessions(replace(endpoint, port=1, fallback="named"))
    with pytest.raises(AccessError, match="ConnectionFailed"):
        async with sessions.maintenance():
            pass
