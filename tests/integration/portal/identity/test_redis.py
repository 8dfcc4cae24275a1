"""Redis over TLS with a password, and one that comes late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.portal.identity.conftest import ended, redis_replica, until
from tests.support.pki import Authority
from tests.support.redisserver import RedisServer, redis_program, redis_server

from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.redisstore import RedisStore
from fairlead.portal.identity.sessions import BrowserSessions, Person
from fairlead.portal.options import RedisOptions


ADA = Person("https://issuer.example", "ada")
PASSWORD = "not for any eyes: %@/"


@asynccontextmanager
async def away(options: RedisOptions) -> AsyncIterator[RedisStore]:
    """A store that cannot use its Redis, and has noticed it."""
    store = RedisStore.at(options)
    task = asyncio.create_task(store.run())
    try:
        await until(lambda: "away" in store.not_ready())
        yield store
    finally:
        await ended([task])
        await store.close()


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[RedisServer]:
    """A Redis that speaks TLS and wants a password."""
    authority = Authority.create("of Redis")
    (tmp_path / "other.pem").write_bytes(Authority.create("other").pem)
    async with redis_server(tmp_path, password=PASSWORD, authority=authority) as server:
        yield server


async def test_replicas_share_sessions_by_tls_and_a_password(closed: RedisServer) -> None:
    async with redis_replica(closed) as one, redis_replica(closed) as other:
        token, session = await BrowserSessions(one, lifetime=60).create(ADA, "cli")
        assert await BrowserSessions(other, lifetime=60).find(token) == session


@dataclass
class Wrong:
    """Options that do not fit, and what is said of them."""

    change: dict[str, Any]
    said: str


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong({"password": "guessed-and-wrong"}, "check $REDIS_PASSWORD"),
        Wrong({"password": ""}, "check $REDIS_PASSWORD"),
        Wrong(
            {"ca_file": None}, "of Redis has issued it, while this client trusts the authorities"
        ),
        Wrong(
            {"ca_file": Path("other.pem")},
            "of Redis has issued it, while this client trusts other:",
        ),
        Wrong({"host": "localhost"}, "check --redis-ca-file and --redis-addr"),
        Wrong({"tls": False, "ca_file": None}, ""),
    ],
    ids=["password", "no password", "authority", "other authority", "name", "plain"],
)
async def test_a_redis_that_cannot_be_trusted_or_does_not_trust_us_is_away(
    closed: RedisServer, wrong: Wrong, tmp_path: Path
) -> None:
    options = msgspec.structs.replace(closed.options, **wrong.change)
    if options.ca_file is not None:
        options = msgspec.structs.replace(options, ca_file=tmp_path / options.ca_file)
    async with away(options) as store:
        assert wrong.said in store.not_ready()
        with pytest.raises(Refusal) as refused:
            await BrowserSessions(store, lifetime=60).create(ADA, "cli")
        assert refused.value.status == 503
        told = f"{store.not_ready()} {refused.value.reason}"
        assert wrong.said in refused.value.reason
        assert PASSWORD not in told
        assert "guessed" not in told


async def test_a_redis_that_comes_late_is_used_as_soon_as_it_is_there(tmp_path: Path) -> None:
    redis_program()
    server = RedisServer(tmp_path)
    async with away(server.options) as store:
        sessions = BrowserSessions(store, lifetime=60)
        with pytest.raises(Refusal) as refused:
            await sessions.create(ADA, "cli")
        assert refused.value.status == 503
        await server.start()
        try:
            await until(lambda: not store.not_ready())
            token, session = await sessions.create(ADA, "cli")
            assert await sessions.find(token) == session
        finally:
            await server.stop()
