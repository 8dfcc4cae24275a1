from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from tests.support.pgserver import endpoint_of, sweep
from tests.support.servers import Servers
from tests.support.statements import watched

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.connections.endpoint import Endpoint


_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def unwanted() -> Iterator[list[str]]:
    """What a test sends over our sessions that is not one statement of a kind we need: nothing."""
    with watched() as found:
        yield found
    assert found == []


@pytest.fixture
def shared(request: pytest.FixtureRequest) -> list[EmbeddedPostgres]:
    """The servers that the test shares with others."""
    return [
        request.getfixturevalue(name)
        for name in ("postgres", "server")
        if name in request.fixturenames
    ]


@pytest.fixture(autouse=True)
async def _swept(shared: list[EmbeddedPostgres]) -> None:
    """Have a test find nothing of those before it."""
    for server in shared:
        await sweep(server)


@pytest.fixture(scope="session")
def postgres(servers: Servers) -> EmbeddedPostgres:
    """The newest server; its log holds every statement."""
    return servers.of(18)


@pytest.fixture
async def admin(postgres: EmbeddedPostgres) -> AsyncIterator[psycopg.AsyncConnection]:
    """The superuser in the maintenance database; leaves no role and no database behind."""
    async with await psycopg.AsyncConnection.connect(
        postgres.dsn(), autocommit=True
    ) as connection:
        yield connection
    await sweep(postgres)


@pytest.fixture
async def database(admin: psycopg.AsyncConnection) -> str:
    """The name of a fresh database."""
    return await create_database(admin)


async def create_database(admin: psycopg.AsyncConnection) -> str:
    name = f"app{next(_numbers)}"
    await admin.execute(
        sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name))
    )
    return name


@pytest.fixture
def endpoint(postgres: EmbeddedPostgres) -> Endpoint:
    """How the operator's administrator, a superuser, reaches the server."""
    return endpoint_of(postgres)


@pytest.fixture
async def modest(admin: psycopg.AsyncConnection, endpoint: Endpoint, database: str) -> Endpoint:
    """An administrator who is no superuser: LOGIN, CREATEROLE and the database's owner."""
    await admin.execute("CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'modest'")
    await admin.execute(
        sql.SQL("ALTER DATABASE {} OWNER TO modest").format(sql.Identifier(database))
    )
    return replace(endpoint, username="modest", password="modest")
