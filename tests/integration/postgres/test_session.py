"""What a server may do to a session: not answer, answer without end, or stand in for another."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import struct
import termios
from dataclasses import replace

import psycopg
import pytest
from psycopg import connection_async, generators, sql
from psycopg.waiting import Ready
from tests.support import hostile
from tests.support.hostile import Babbling, Flood, Pooler
from tests.support.pgserver import claim, cleanup, sync, wanted
from tests.support.postgres import Hanging
from tests.support.waiting import SECONDS

from fairlead.client import Fenced
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.database.connections import session
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.failures import AnswerTooLargeError
from fairlead.postgres.database.connections.login import connect, open_session
from fairlead.postgres.database.connections.session import LimitedConnection
from fairlead.postgres.errors import AccessError


MIB = 1 << 20
_BUFFERS = 8 * MIB
"""That the kernel takes off a sender to whom nobody listens any more."""


@pytest.mark.parametrize("method", ["run", "rows"])
async def test_a_session_takes_one_statement_at_a_time(
    endpoint: Endpoint, method: str, unwanted: list[str]
) -> None:
    """Whatever slips through quoting, no second statement follows the first."""
    async with connect(endpoint, "postgres") as session:
        with pytest.raises(psycopg.errors.SyntaxError):
            await getattr(session, method)(sql.SQL("SELECT 1; SELECT 2"))
    assert unwanted == ["['SelectStmt', 'SelectStmt']: SELECT 1; SELECT 2"]
    unwanted.clear()


class Fence:
    """Whether this process may write."""

    def __init__(self) -> None:
        self.up = False

    def check(self) -> None:
        if self.up:
            raise Fenced("frozen")


async def test_who_may_write_no_more_commits_nothing_of_what_was_begun(
    endpoint: Endpoint, admin: psycopg.AsyncConnection
) -> None:
    """A process that was frozen in the middle of a transaction wakes up beside the next leader."""
    fence = Fence()
    await admin.execute("CREATE ROLE thawed")
    comment = sql.SQL("COMMENT ON ROLE thawed IS 'mine'")
    look = sql.SQL("SELECT count(*) FROM pg_shdescription WHERE objoid = 'thawed'::regrole")
    async with connect(endpoint, "postgres", fence.check) as session:
        with pytest.raises(Fenced):  # noqa: PT012  it is raised at the end of the transaction
            async with session.transaction():
                await session.run(comment)
                assert await session.rows(look) == [(1,)]
                fence.up = True
        assert await session.rows(look) == [(0,)]
        with pytest.raises(Fenced):
            await session.run(comment)
        assert await session.rows(look) == [(0,)]
        fence.up = False
        await session.run(comment)
        assert await session.rows(look) == [(1,)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("PGHOSTADDR", "127.0.0.9", id="another-address"),
        pytest.param("PGSERVICE", "nowhere", id="service"),
        pytest.param("PGCHANNELBINDING", "require", id="channel-binding"),
        pytest.param("PGSSLNEGOTIATION", "direct", id="tls-at-once"),
        pytest.param("PGMINPROTOCOLVERSION", "latest", id="protocol"),
        pytest.param("PGTZ", "Asia/Tokyo", id="parameter"),
    ],
)
async def test_the_environment_leads_no_connection(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    # Only a name is looked up.
    async with connect(replace(endpoint, host="localhost"), "postgres") as session:
        found = await session.rows(sql.SQL("SELECT current_setting('TimeZone')"))
    assert found == [("UTC",)]


@pytest.mark.parametrize("host", ["::ffff:127.0.0.1", "127.0.0.1"])
async def test_an_address_is_a_host(endpoint: Endpoint, host: str) -> None:
    async with connect(replace(endpoint, host=host), "postgres") as session:
        assert await session.rows(sql.SQL("SELECT 1")) == [(1,)]


async def test_libpq_prints_nothing_into_the_log(
    endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each line of it is JSON, and libpq writes past it."""
    with pytest.raises(AccessError):
        async with connect(replace(endpoint, password=""), "postgres"):
            pass
    assert "WARNING" not in capfd.readouterr().err


async def test_a_server_that_hangs_after_the_login_is_given_up(
    postgres: EmbeddedPostgres, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.2)
    async with Hanging(postgres, after_login=True) as server:
        with pytest.raises(AccessError) as given_up:
            await sync(replace(endpoint, port=server.port), wanted("app"))
        # One more looks for whom the first one waits.
        assert server.held <= 2
    assert given_up.value.reason == "TimedOut"


async def test_a_server_that_never_answers_is_given_up(
    postgres: EmbeddedPostgres, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LOGIN_SECONDS", 0.2)
    async with Hanging(postgres, after_login=False) as server:
        with pytest.raises(AccessError) as given_up:
            await sync(replace(endpoint, port=server.port), wanted("app"))
    assert given_up.value.reason == "ConnectionFailed"
    assert "did not answer in time" in given_up.value.message


async def test_a_login_that_takes_too_long_leaves_no_socket(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be it that Python's collector does not come by for long."""
    monkeypatch.setattr(connection_async, "timeout_from_conninfo", lambda _: 0.2)
    left = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    gc.disable()
    try:
        async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(AccessError) as given_up:
                await open_session(replace(endpoint, password="", port=port), "postgres")
            async with asyncio.timeout(SECONDS):
                await left.wait()
    finally:
        gc.enable()
    assert "did not answer in time" in given_up.value.message


FLOODS = [
    hostile.rows,
    hostile.empty_rows,
    hostile.one_row,
    hostile.notices,
    hostile.notifications,
    hostile.parameters,
]


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("work", ["sync", "cleanup"])
async def test_an_answer_without_end_is_broken_off(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, flood: Flood, work: str
) -> None:
    monkeypatch.setattr(bounds, "ANSWER_BYTES", MIB)
    async with Babbling(flood) as server:
        there = replace(endpoint, port=server.port)
        cleaning = cleanup(there, "app", claim(), "Restrict")
        with pytest.raises(AccessError) as given_up:
            await (cleaning if work == "cleanup" else sync(there, wanted("app")))
        cleaning.close()
        assert server.sent < MIB + _BUFFERS
    assert given_up.value.reason == "AnswerTooLarge"


@pytest.mark.parametrize("flood", [hostile.notices, hostile.parameters])
async def test_a_login_without_end_is_broken_off(endpoint: Endpoint, flood: Flood) -> None:
    async with Babbling(flood, at_login=True) as server:
        with pytest.raises(AccessError) as given_up:
            await sync(replace(endpoint, port=server.port), wanted("app"))
        assert server.sent < MIB + _BUFFERS
    assert given_up.value.reason == "ConnectionFailed"
    assert "does not answer as PostgreSQL does" in given_up.value.message


@pytest.mark.parametrize("flood", FLOODS)
async def test_an_answer_that_drips_for_ever_is_given_up(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, flood: Flood
) -> None:
    monkeypatch.setattr(session, "ANSWER_SECONDS", 0.2)
    async with Babbling(flood, pause=0.02) as server:
        with pytest.raises(AccessError) as given_up:
            await sync(replace(endpoint, port=server.port), wanted("app"))
    assert given_up.value.reason == "TimedOut"


async def test_as_many_rows_as_anybody_needs(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large answer comes whole, and what is too large leaves the session as it was."""
    monkeypatch.setattr(bounds, "ANSWER_ROWS", 20_000)
    count = "SELECT g FROM pg_catalog.generate_series(1, {}) g"
    async with connect(endpoint, "postgres") as ours:
        assert len(await ours.rows(sql.SQL(count).format(20_000))) == 20_000
        with pytest.raises(AnswerTooLargeError):
            await ours.rows(sql.SQL(count).format(20_001))
        assert await ours.rows(sql.SQL("SELECT 1")) == [(1,)]


async def test_an_answer_just_below_the_limit(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes are counted once: a limit twice as high as the answer lets it through."""
    monkeypatch.setattr(bounds, "ANSWER_BYTES", 16 * MIB)
    large = "SELECT pg_catalog.repeat('x', 1000) FROM pg_catalog.generate_series(1, {})"
    async with connect(endpoint, "postgres") as ours:
        assert len(await ours.rows(sql.SQL(large).format(14_000))) == 14_000
        # Each answer has a limit of its own.
        assert len(await ours.rows(sql.SQL(large).format(14_000))) == 14_000
        with pytest.raises(AnswerTooLargeError):
            await ours.rows(sql.SQL(large).format(18_000))


async def test_a_turn_of_the_event_loop_reads_all_that_has_arrived(endpoint: Endpoint) -> None:
    """Else a large answer would take a turn for every 16 KiB, and each turn may be slow."""
    size = 40_000
    async with connect(endpoint, "postgres") as session_:
        ours = session_._connection
        assert isinstance(ours, LimitedConnection)
        ours.pgconn.send_query(f"SELECT pg_catalog.repeat('x', {size})".encode())
        while _queued(ours.pgconn.socket) < size:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0)
        answer = ours._limited(generators.fetch(ours.pgconn))
        next(answer)
        with pytest.raises(StopIteration):
            answer.send(Ready.R)


def _queued(number: int) -> int:
    """Bytes that have arrived at a socket and nobody has read."""
    return int(struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, bytes(4)))[0])


@pytest.mark.parametrize(
    ("answer", "passes_on"),
    [
        pytest.param("unsupported startup parameter: options", False, id="pgbouncer"),
        pytest.param(
            "unsupported startup parameter in options: search_path", False, id="pgbouncer-1.20"
        ),
        pytest.param(
            "Feature not supported: RDS Proxy currently doesn't support command-line options.",
            False,
            id="rds-proxy",
        ),
        pytest.param("", False, id="options-are-dropped"),
        pytest.param("", True, id="a-proxy-that-passes-all-on"),
    ],
)
async def test_a_pooler_that_keeps_options_is_told_from_a_server(
    postgres: EmbeddedPostgres, endpoint: Endpoint, answer: str, passes_on: bool
) -> None:
    async with Pooler(postgres, answer, passes_on=passes_on) as pooler:
        there = replace(endpoint, port=pooler.port)
        if passes_on:
            assert (await sync(there, wanted("app"))).changed
            return
        with pytest.raises(AccessError) as refused:
            await sync(there, wanted("app"))
    assert refused.value.reason == "ConnectionFailed"
    assert "is a pooler that does not pass on session options" in refused.value.message
