"""Older servers, whose rules for common administrators differ, and servers that speak TLS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from tests.support.pki import Authority
from tests.support.servers import embedded, started
from tests.unit.postgres.helpers import (
    PASSWORD,
    can_login,
    claim,
    cleanup,
    grant,
    login,
    privileges,
    roles,
    run,
    sync,
    wanted,
)

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.database.session import connect
from fairlead.postgres.errors import AccessError


@pytest.fixture(scope="module", params=[15, 16])
def older(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    yield from started(embedded(request.param))


def administrator(server: EmbeddedPostgres) -> Endpoint:
    return Endpoint(
        host=server.host,
        port=server.port,
        username=server.username,
        password=server.password,
        ssl_mode="disable",
    )


async def test_an_older_server(older: EmbeddedPostgres) -> None:
    endpoint = administrator(older)
    await run(
        older,
        "postgres",
        "CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest'",
        "CREATE DATABASE d OWNER modest",
    )
    await run(older, "d", "SET ROLE modest", "CREATE SCHEMA s", "CREATE TABLE s.t (id int)")
    modest = replace(endpoint, username="modest", password="modest")
    for admin in (endpoint, modest):
        access = wanted("app", grant("d", "CONNECT", "SELECT", "CREATE", "MAINTAIN", schema="s"))
        result = await sync(admin, access)
        assert [problem.reason for problem in result.problems] == ["UnsupportedPrivilege"]
        assert await can_login(older, "app", PASSWORD)
        assert ("t", "SELECT") in await privileges(older, "d", "app")
        before = await roles(older)
        assert not (await sync(admin, access)).changed
        assert await roles(older) == before
        async with await login(older, "app", PASSWORD, "d") as session:
            await session.execute("CREATE TABLE s.mine (id int)")
        with pytest.raises(AccessError, match="OwnsObjects"):
            await cleanup(admin, "app", claim(), "Restrict")
        await cleanup(admin, "app", claim(), "Cascade")
        assert "app" not in {name for name, *_ in await roles(older)}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("databases")


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[EmbeddedPostgres]:
    for server in started(embedded(15)):
        data = server.folder / "data"
        pair = authority.issue("database", hosts=("127.0.0.1",))
        for name, content in (("server.crt", pair.certificate), ("server.key", pair.key)):
            path = data / name
            path.touch(mode=0o600)
            path.write_bytes(content)
            os.chown(path, data.stat().st_uid, data.stat().st_gid)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.mark.parametrize(
    ("host", "mode", "trusted", "works"),
    [
        pytest.param("127.0.0.1", "verify-full", True, True, id="verify-full"),
        pytest.param("127.0.0.1", "verify-ca", True, True, id="verify-ca"),
        pytest.param("127.0.0.1", "require", False, True, id="require-does-not-verify"),
        pytest.param("127.0.0.1", "verify-full", False, False, id="system-roots-do-not-know-it"),
        pytest.param("localhost", "verify-full", True, False, id="another-host-name"),
    ],
)
async def test_tls(
    encrypted: EmbeddedPostgres,
    authority: Authority,
    host: str,
    mode: str,
    trusted: bool,
    works: bool,
) -> None:
    endpoint = replace(
        administrator(encrypted),
        host=host,
        ssl_mode=mode,
        ca=authority.pem.decode() if trusted else "",
    )
    if not works:
        with pytest.raises(AccessError, match="TLSFailed"):
            async with connect(endpoint, "postgres"):
                pass
        return
    async with connect(endpoint, "postgres") as session:
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await session.rows(psycopg.sql.SQL(query)) == [(True,)]


async def test_a_server_without_tls_is_refused_by_default(postgres: EmbeddedPostgres) -> None:
    endpoint = replace(administrator(postgres), ssl_mode="require")
    with pytest.raises(AccessError, match="TLSFailed"):
        async with connect(endpoint, "postgres"):
            pass
