"""Several PostgresServers that lead to one PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.pgserver import fetch
from tests.support.pgworld import World, grant
from tests.support.postgres import prepare, running
from tests.support.waiting import eventually

from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.options import PostgresOptions
from fairlead_sandbox import Sandbox


@pytest.fixture
async def worlds(postgres: EmbeddedPostgres) -> AsyncIterator[list[World]]:
    async with (
        Sandbox(name="several") as plane,
        Client(parse_kubeconfig(plane.kubeconfig())) as admin,
    ):
        await prepare(admin)
        made = [World(admin, postgres, is_real=False) for _ in range(4)]
        for world in made:
            await world.arrive()
            await world.create_database()
        yield made


async def test_their_sessions_have_one_bound(
    worlds: list[World], postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SESSIONS_BESIDE", 1)
    query = "SELECT datname FROM pg_stat_activity WHERE application_name = 'fairlead-postgres'"

    async def are_bounded() -> bool:
        rows = await fetch(postgres, "postgres", query)
        return len([name for (name,) in rows if name != "postgres"]) <= 2

    async with running(worlds[0].admin, PostgresOptions(max_connections_per_server=1)):
        for world in worlds:
            await world.ready(await world.create(grants=[grant(world.database, "USAGE")]))
        await eventually(are_bounded)
        for world in worlds:
            await world.leave()
