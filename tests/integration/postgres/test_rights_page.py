"""What docs/how-to/administrator-rights.md has a master user run who is no superuser."""

from __future__ import annotations

import psycopg
import pytest
from tests.support.image import ROOT
from tests.support.pages import fences_of
from tests.support.pgserver import run
from tests.support.servers import Servers

from fairlead.demo.postgres.server import EmbeddedPostgres


PAGE = ROOT / "docs" / "how-to" / "administrator-rights.md"


@pytest.fixture(params=[15, 16, 18])
def server(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    """Each version."""
    return servers.of(request.param)


async def test_a_master_user_makes_an_administrator_that_can_grant(
    server: EmbeddedPostgres,
) -> None:
    (block,) = [fence.text for fence in fences_of(PAGE) if fence.language == "sql"]
    await run(server, "postgres", "CREATE ROLE master LOGIN CREATEROLE CREATEDB PASSWORD 'master'")
    await run(server, "postgres", "CREATE DATABASE shop OWNER master STRATEGY FILE_COPY")
    await _said(server, "master", "master", block)
    await _said(
        server,
        "fairlead",
        "change-me",
        "CREATE ROLE reader; GRANT CONNECT ON DATABASE shop TO reader;"
        " GRANT USAGE ON SCHEMA sales TO reader;"
        " ALTER DEFAULT PRIVILEGES FOR ROLE shop_owner IN SCHEMA sales"
        " GRANT SELECT ON TABLES TO reader",
    )


async def _said(server: EmbeddedPostgres, user: str, password: str, statements: str) -> None:
    dsn = server.dsn("shop", user, password)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(statements.encode())
