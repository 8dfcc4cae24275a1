"""How many rounds of SCRAM-SHA-256 a server can have the operator work out for a login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.support import hostile
from tests.support.hostile import (
    ASK_MD5,
    ASK_SCRAM,
    LOGIN_OK,
    MOST_ROUNDS,
    Answer,
    Scripted,
    refusal,
    wants,
)
from tests.support.pgserver import endpoint_of, run
from tests.support.servers import Servers
from tests.support.tiers import VERSIONS

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections import keys
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.login import connect, logs_in
from fairlead.postgres.database.connections.rounds import (
    Challenge,
    HostAddress,
    NoMechanismError,
    ask,
)
from fairlead.postgres.database.plans.password import verifier
from fairlead.postgres.errors import AccessError


REFUSED = refusal("28P01", 'password authentication failed for user "postgres"')
NO_ENTRY = refusal("28000", "no pg_hba.conf entry for host")


async def refused(endpoint: Endpoint, server: Scripted) -> AccessError:
    with pytest.raises(AccessError) as error:
        async with connect(replace(endpoint, port=server.port), "postgres"):
            pass
    return error.value


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param([ASK_SCRAM, 4096], Challenge(b"salt", 4096), id="scram"),
        pytest.param([ASK_SCRAM, MOST_ROUNDS], Challenge(b"salt", MOST_ROUNDS), id="most"),
        pytest.param([wants(10, b"FOO\0SCRAM-SHA-256\0\0"), 1], Challenge(b"salt", 1), id="two"),
        pytest.param([wants(10, b"OAUTHBEARER\0\0")], NoMechanismError, id="oauth"),
        pytest.param([ASK_MD5], None, id="md5"),
        pytest.param([LOGIN_OK], None, id="trust"),
        pytest.param([wants(3)], None, id="clear-text"),
        pytest.param([NO_ENTRY], None, id="refused"),
        pytest.param([ASK_SCRAM, REFUSED], None, id="refused-later"),
        pytest.param([ASK_SCRAM, ASK_MD5], None, id="another-way-later"),
        pytest.param([ASK_SCRAM, wants(11, b"r=,s=,i=")], None, id="no-challenge"),
        pytest.param([], None, id="ends"),
        pytest.param([ASK_SCRAM], None, id="ends-later"),
        pytest.param([b"HTTP/1.1 400 Bad Request\r\n\r\n"], None, id="http"),
        pytest.param([b"R\x7f\xff\xff\xff" + b"x" * 5000], None, id="a-message-without-end"),
        pytest.param([b"R\0\0\0\x04"], None, id="a-message-that-is-too-short"),
        pytest.param([b"R\xff\xff\xff\xff\0\0\0\0"], None, id="a-negative-length"),
    ],
)
async def test_what_servers_answer(
    endpoint: Endpoint, script: list[Answer], expected: Challenge | type[Exception] | None
) -> None:
    async with Scripted(script) as server:
        place = HostAddress("127.0.0.1", "127.0.0.1", server.port)
        if isinstance(expected, type):
            with pytest.raises(expected):
                await ask(endpoint, "postgres", place, 10.0)
        else:
            assert await ask(endpoint, "postgres", place, 10.0) == expected
        ((startup, *_),) = server.clients
        assert startup == b"\0\x03\0\0user\0postgres\0database\0postgres\0\0"


async def test_who_cannot_be_asked(endpoint: Endpoint) -> None:
    """Why, libpq tells."""
    async with Scripted([]) as gone:
        place = HostAddress("127.0.0.1", "127.0.0.1", gone.port)
    assert await ask(endpoint, "postgres", place, 10.0) is None
    assert await ask(endpoint, "postgres", HostAddress("", "", 1), 10.0) is None
    async with Scripted([ASK_SCRAM, 1]) as server:
        place = HostAddress("127.0.0.1", "127.0.0.1", server.port)
        encrypted = replace(endpoint, ssl_mode="require")
        assert await ask(encrypted, "postgres", place, 10.0) is None
        assert await ask(replace(endpoint, username="a\0b"), "postgres", place, 10.0) is None


@pytest.mark.parametrize("rounds", [100_001, MOST_ROUNDS])
async def test_a_server_that_wants_too_many_rounds(endpoint: Endpoint, rounds: int) -> None:
    async with Scripted([ASK_SCRAM, rounds, REFUSED]) as server:
        error = await refused(endpoint, server)
        assert error.reason == "AuthenticationFailed"
        assert error.message == (
            f"the server 127.0.0.1:{server.port} asks for {rounds} iterations of"
            " SCRAM-SHA-256 for the password of postgres; store the password again with"
            " at most 100000"
        )
        there = replace(endpoint, port=server.port)
        # As the password of a role it is none that the operator has stored.
        assert await logs_in(there, "postgres", "app", "app") is False
        assert not any(b"p=" in said for client in server.clients for said in client)


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [
        pytest.param(
            [ASK_SCRAM, 1], [ASK_SCRAM, MOST_ROUNDS, REFUSED], "AuthenticationFailed", id="scram"
        ),
        pytest.param([ASK_MD5], [ASK_SCRAM, MOST_ROUNDS], "ConnectionFailed", id="after-md5"),
        pytest.param([LOGIN_OK], [ASK_SCRAM, MOST_ROUNDS], "ConnectionFailed", id="after-trust"),
        pytest.param([REFUSED], [ASK_SCRAM, MOST_ROUNDS], "ConnectionFailed", id="after-refusal"),
        pytest.param([], [ASK_SCRAM, MOST_ROUNDS], "ConnectionFailed", id="after-nothing"),
        pytest.param([ASK_SCRAM, 1], [ASK_MD5, LOGIN_OK], "ConnectionFailed", id="md5-then"),
    ],
)
async def test_a_server_that_wants_something_else_of_libpq(
    endpoint: Endpoint, first: list[Answer], then: list[Answer], reason: str
) -> None:
    """It gets what it was asked about, and libpq works nothing out."""
    async with Scripted(first, then) as server:
        error = await refused(endpoint, server)
        assert error.reason == reason
        assert ("did not say in time how it checks" in error.message) is (
            reason == "ConnectionFailed"
        )
        assert len(server.clients) == 2


@pytest.mark.parametrize("methods", ["OAUTHBEARER", "FOO"])
async def test_another_mechanism_is_told_as_such(endpoint: Endpoint, methods: str) -> None:
    async with Scripted([wants(10, methods.encode() + b"\0\0")]) as server:
        error = await refused(endpoint, server)
    assert error.reason == "AuthenticationFailed"
    assert "asks for an authentication method other than scram-sha-256 or md5" in error.message


@pytest.mark.parametrize(
    "flood", [hostile.notices, hostile.parameters, hostile.rows, hostile.one_row]
)
async def test_who_talks_without_end_is_left(endpoint: Endpoint, flood: hostile.Flood) -> None:
    async with hostile.Babbling(flood, at_login=True) as server:
        place = HostAddress("127.0.0.1", "127.0.0.1", server.port)
        assert await ask(endpoint, "postgres", place, 10.0) is None


@pytest.fixture(params=VERSIONS)
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many challenges were worked out since it was last looked at."""
    count = 0
    derive = keys.derive

    async def counting(text: str, challenge: Challenge) -> keys.ScramKeys:
        nonlocal count
        count += 1
        return await derive(text, challenge)

    def taken() -> int:
        nonlocal count
        count, before = 0, count
        return before

    monkeypatch.setattr(keys, "derive", counting)
    return taken


async def test_keys_are_worked_out_once(
    server: EmbeddedPostgres, asked: Callable[[], int]
) -> None:
    """Until the password is stored again, be it the same one."""
    endpoint = endpoint_of(server)
    await run(server, "postgres", f"CREATE ROLE app LOGIN PASSWORD '{verifier('one')}'")
    assert await logs_in(endpoint, "postgres", "app", "one") is True
    asked()
    assert await logs_in(endpoint, "postgres", "app", "one") is True
    assert asked() == 0
    assert await logs_in(endpoint, "postgres", "app", "two") is False
    assert asked() == 1
    await run(server, "postgres", f"ALTER ROLE app PASSWORD '{verifier('one', iterations=2)}'")
    assert await logs_in(endpoint, "postgres", "app", "one") is True
    assert asked() == 1
    await run(server, "postgres", f"ALTER ROLE app PASSWORD '{verifier('two')}'")
    assert await logs_in(endpoint, "postgres", "app", "one") is False
    assert await logs_in(endpoint, "postgres", "app", "two") is True
    await run(server, "postgres", "ALTER ROLE app NOLOGIN")
    assert await logs_in(endpoint, "postgres", "app", "two") is False
    await run(server, "postgres", "ALTER ROLE app LOGIN PASSWORD NULL")
    assert await logs_in(endpoint, "postgres", "app", "two") is False


async def test_keys_that_are_refused_the_same_way_are_not_tried_again(
    endpoint: Endpoint, asked: Callable[[], int]
) -> None:
    """A role that is locked in another way still has its verifier."""
    scram: list[Answer] = [ASK_SCRAM, 1, REFUSED]
    async with Scripted(scram) as server:
        there = replace(endpoint, port=server.port)
        place = HostAddress("127.0.0.1", "127.0.0.1", server.port)
        made = await keys.derive(there.password, Challenge(b"salt", 1))
        keys.remember(there, place, made)
        asked()
        assert (await refused(endpoint, server)).reason == "AuthenticationFailed"
        assert asked() == 0
        # The login, and the question whether anything has changed.
        assert len(server.clients) == 2
        assert keys.proven_keys(there, place) is None


@pytest.mark.parametrize(
    "password",
    [
        "pässwörd",
        "I\u00adX",
        "\u2168",
        "\u00aa",
        "a\u00a0b",
        "\u0627\u0031",
        "\u0007é",
        "x" * 1000,
    ],
)
async def test_passwords_are_prepared_as_servers_do(
    server: EmbeddedPostgres, password: str
) -> None:
    """Whoever has stored it: the server, of the password in clear, or we."""
    endpoint = endpoint_of(server)
    await run(server, "postgres", f"CREATE ROLE app LOGIN PASSWORD '{password}'")
    assert await logs_in(endpoint, "postgres", "app", password) is True
    await run(server, "postgres", f"ALTER ROLE app PASSWORD '{verifier(password)}'")
    assert await logs_in(endpoint, "postgres", "app", password) is True


async def test_md5_is_left_to_libpq(server: EmbeddedPostgres) -> None:
    async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as connection:
        await connection.execute("SET password_encryption = 'md5'")
        await connection.execute("CREATE ROLE app LOGIN PASSWORD 'app'")
    data = server.folder / "data" / "pg_hba.conf"
    before = data.read_text()
    try:
        data.write_text(f"host all app 127.0.0.1/32 md5\n{before}")
        await run(server, "postgres", "SELECT pg_reload_conf()")
        endpoint = endpoint_of(server)
        async with asyncio.timeout(60):
            # Whoever has not seen the file yet wants SCRAM of a role that has none.
            while not await logs_in(endpoint, "postgres", "app", "app"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await logs_in(endpoint, "postgres", "app", "other") is False
    finally:
        data.write_text(before)
        await run(server, "postgres", "SELECT pg_reload_conf()")


async def test_each_host_is_asked_for_itself(server: EmbeddedPostgres) -> None:
    there = replace(endpoint_of(server), host="127.0.0.7,no.such.host.invalid,localhost")
    async with connect(there, "postgres") as session:
        assert session.server_version >= 150000


async def test_why_each_host_failed_is_told_by_the_worst(endpoint: Endpoint) -> None:
    async with Scripted([ASK_SCRAM, 1, REFUSED]) as server:
        there = replace(endpoint, host="127.0.0.7,127.0.0.1")
        assert (await refused(there, server)).reason == "AuthenticationFailed"
    async with Scripted([ASK_SCRAM, MOST_ROUNDS]) as server:
        there = replace(endpoint, host="127.0.0.7,127.0.0.1,127.0.0.8")
        assert "2147483647 iterations" in (await refused(there, server)).message


@pytest.mark.parametrize("mode", ["disable", "prefer", "verify-full"])
async def test_a_directory_of_sockets(endpoint: Endpoint, tmp_path: Path, mode: str) -> None:
    """None of them is encrypted, and libpq asks none for it."""
    endpoint = replace(endpoint, ssl_mode=mode)
    scripted = Scripted([ASK_SCRAM, 5])
    place = HostAddress(str(tmp_path), "", 5432)
    assert await ask(endpoint, "postgres", place, 10.0) is None
    listener = await asyncio.start_unix_server(scripted._accept, tmp_path / ".s.PGSQL.5432")
    try:
        assert await ask(endpoint, "postgres", place, 10.0) == Challenge(b"salt", 5)
    finally:
        listener.close()
