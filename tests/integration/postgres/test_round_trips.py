"""How often the operator waits for a server, and what shares a round trip without harm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.support.pgserver import fetch, grant, run, wanted

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.login import connect
from fairlead.postgres.database.connections.session import Patience, Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.sync import sync


MAKE = sql.SQL("CREATE ROLE kept")
FAIL = sql.SQL("SELECT 1 / 0")
PATIENCE = sql.SQL("SELECT pg_catalog.current_setting('lock_timeout')")


async def test_an_access_waits_for_its_server_a_few_times(
    postgres: EmbeddedPostgres,
    endpoint: Endpoint,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await run(postgres, database, "CREATE TABLE t (id int)")
    sessions, verifiers, trips = Sessions(endpoint), Verifiers(), 0
    exchange = Session.exchange

    async def counted(session: Session, *asked: Any) -> Any:
        nonlocal trips
        trips += 1
        return await exchange(session, *asked)

    monkeypatch.setattr(Session, "exchange", counted)
    found = []
    for privileges in (["SELECT"], ["SELECT", "INSERT"], ["SELECT", "INSERT"]):
        trips = 0
        asked = wanted("app", grant(database, *privileges))
        await sync(sessions, [asked], verifiers, brief=True)
        found.append(trips)
    await sessions.close()
    # A new access, a changed grant, and nothing to do.
    assert found == [11, 5, 3]
    assert sessions.tally.logins == 2


@pytest.fixture
async def session(endpoint: Endpoint, database: str) -> AsyncIterator[Session]:
    async with connect(endpoint, database) as found:
        yield found


async def kept(postgres: EmbeddedPostgres, database: str) -> bool:
    rows = await fetch(postgres, database, "SELECT 1 FROM pg_roles WHERE rolname = 'kept'")
    return bool(rows)


async def test_a_transaction_that_asks_nothing_sends_nothing(session: Session) -> None:
    async with session.transaction(), session.savepoint():
        pass
    assert session.statements == 0


async def test_a_failure_in_a_savepoint_leaves_the_transaction(
    postgres: EmbeddedPostgres, database: str, session: Session
) -> None:
    async with session.transaction():
        await session.run(MAKE)
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with session.savepoint():
                await session.run(FAIL)
        with pytest.raises(psycopg.errors.DivisionByZero):
            async with session.savepoint():
                await session.run(FAIL)
    assert await kept(postgres, database)


@pytest.mark.parametrize("error", [ZeroDivisionError, psycopg.Rollback])
async def test_a_transaction_that_fails_leaves_nothing(
    postgres: EmbeddedPostgres, database: str, session: Session, error: type[Exception]
) -> None:
    try:
        async with session.transaction():
            await session.run(MAKE)
            raise error
    except ZeroDivisionError:
        pass
    assert not await kept(postgres, database)
    assert await session.rows(sql.SQL("SELECT 1")) == [(1,)]


async def test_a_check_before_the_commit_rolls_back(
    postgres: EmbeddedPostgres, endpoint: Endpoint, database: str
) -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise InterruptedError

    async with connect(endpoint, database, check) as session:
        with pytest.raises(InterruptedError):
            async with session.transaction():
                await session.run(MAKE)
        assert not await kept(postgres, database)


async def test_timeouts_hold_for_each_round_trip_and_no_longer(session: Session) -> None:
    session.patience = Patience(20)
    assert await session.exchange((PATIENCE, None), (PATIENCE, None)) == [[("20ms",)]] * 2
    async with session.transaction(Patience(30)):
        assert await session.rows(PATIENCE) == [("30ms",)]
        session.limit(Patience(40))
        assert await session.rows(PATIENCE) == [("40ms",)]
    assert await session.rows(PATIENCE) == [("20ms",)]
    session.patience = None
    assert await session.rows(PATIENCE) not in ([("20ms",)], [("40ms",)])
