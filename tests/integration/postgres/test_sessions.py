"""Sessions that are kept, on a real server that may end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from tests.integration.postgres.conftest import create_database
from tests.support.hostile import Stalling
from tests.support.pgserver import fetch, run

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections import session as session_module
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
    monkeypatch.setattr(bounds, "IDLE_SESSIONS", 2)
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


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(module, "_OURS", "")


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize(
    "statement",
    [
        "DROP DATABASE {name}",
        "ALTER DATABASE {name} RENAME TO {other}",
        "CREATE DATABASE {other} TEMPLATE {name}",
    ],
)
async def test_a_database_that_somebody_wants_to_himself_is_left(
    sessions: Sessions, admin: psycopg.AsyncConnection, statement: str
) -> None:
    """PostgreSQL refuses these after 5 s in which others have stayed."""
    name, beside = await create_database(admin), await create_database(admin)
    first, neighbour = await pid(sessions, name), await pid(sessions, beside)
    names = {"name": sql.Identifier(name), "other": sql.Identifier(f"{name}_other")}
    await admin.execute(sql.SQL(statement).format(**names))
    assert await pid(sessions, beside) == neighbour
    if "TEMPLATE" in statement:
        assert await pid(sessions, name) != first
    else:
        with pytest.raises(AccessError, match="does not exist"):
            await pid(sessions, name)


async def test_a_session_in_use_leaves_a_wanted_database_when_its_user_is_done(
    sessions: Sessions, admin: psycopg.AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next look may be too late: PostgreSQL refuses after 5 s."""
    name = await create_database(admin)
    drop = admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
    monkeypatch.setattr(bounds, "WATCH_SECONDS", 0.05)
    await pid(sessions)
    async with sessions.use(name):
        dropping = asyncio.ensure_future(drop)
        async with asyncio.timeout(30):
            while not sessions._unwelcome:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        monkeypatch.setattr(bounds, "WATCH_SECONDS", 3600)
    await dropping


@pytest.mark.usefixtures("_soon")
async def test_sessions_that_are_all_in_use_are_looked_after(
    sessions: Sessions, database: str, admin: psycopg.AsyncConnection
) -> None:
    name = await create_database(admin)
    drop = admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
    async with sessions.use(database):
        await pid(sessions, name)
        async with sessions.use(name):
            dropping = asyncio.ensure_future(drop)
            # As long as a few looks, in which there is nobody to ask.
            await asyncio.sleep(0.3)
        await dropping


@pytest.mark.usefixtures("_soon")
async def test_who_needs_a_session_that_is_asked_waits_for_it(
    sessions: Sessions, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = sql.SQL("SELECT 'nothing' FROM pg_catalog.pg_sleep(0.2)")
    monkeypatch.setattr(module, "_WAITED_FOR", slow)
    first = await pid(sessions, database)
    async with asyncio.timeout(30):
        while sessions.tally.statements < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with sessions.use(database) as session:
        assert sessions._in_question is None
        assert await pid_of(session) == first
    assert sessions.tally.logins == 1


@pytest.mark.usefixtures("_soon")
async def test_a_session_that_hangs_when_it_is_asked_is_ended_alone(
    endpoint: Endpoint, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "ANSWER_SECONDS", 0.5)
    async with Stalling(postgres, 0) as stalling:
        sessions = Sessions(replace(endpoint, host="127.0.0.1", port=stalling.port))
        first = await pid(sessions)
        stalling.arm(1)
        await stalling.reached.wait()
        await gone(postgres, first)
        assert await pid(sessions) != first
        assert sessions.tally.logins == 2
        await sessions.close()


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize(
    "answer", ["SELECT 1, 2", "SELECT pg_catalog.json_build_array()", "SELECT NULL::text"]
)
async def test_a_strange_answer_about_locks_ends_nothing_but_its_session(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(module, "_WAITED_FOR", sql.SQL(answer))
    await pid(sessions)
    async with asyncio.timeout(30):
        while sessions._idle and sessions.tally.statements < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await pid(sessions)


async def test_nobody_asks_who_wants_the_administrators_database(
    sessions: Sessions, database: str
) -> None:
    await pid(sessions)
    statements = sessions.tally.statements
    await sessions._leave()
    assert sessions.tally.statements == statements
    await pid(sessions, database)
    statements = sessions.tally.statements
    await sessions._leave()
    assert sessions.tally.statements == statements + 1


@pytest.mark.usefixtures("_soon")
async def test_nobody_asks_when_nothing_is_kept(
    sessions: Sessions, admin: psycopg.AsyncConnection
) -> None:
    """Neither after the end, nor when the server has gone away."""
    number = await pid(sessions)
    await admin.execute("SELECT pg_terminate_backend(%s, 5000)", (number,))
    async with asyncio.timeout(30):
        while sessions._watcher is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not sessions._idle
    await pid(sessions)
    await sessions.close()
    assert sessions._watcher is None
