"""An operator that may not write any more, as one that was frozen beyond its Lease."""

from __future__ import annotations

import asyncio

import psycopg
from psycopg import sql
from tests.support.pgworld import World
from tests.support.postgres import prepare, running
from tests.support.waiting import SECONDS

from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Metrics
from fairlead_sandbox import Sandbox


async def test_it_changes_nothing_in_a_database_either(postgres: EmbeddedPostgres) -> None:
    metrics = Metrics()

    def cycles() -> float:
        name = "fairlead_postgres_cycle_seconds_count"
        return metrics.registry.get_sample_value(name, {"owner": owner}) or 0.0

    async def until(number: float) -> None:
        async with asyncio.timeout(SECONDS):
            while cycles() < number:  # noqa: ASYNC110  numbers tell nobody
                await asyncio.sleep(0.02)

    async with (
        Sandbox(name="fenced") as sandbox,
        Client(parse_kubeconfig(sandbox.kubeconfig())) as admin,
        await psycopg.AsyncConnection.connect(postgres.dsn(), autocommit=True) as connection,
    ):
        await prepare(admin)
        world = World(admin, postgres, is_real=False)
        owner = f"PostgresServer {world.server}"
        await world.arrive()
        async with running(admin, PostgresOptions(synced_interval=0.2), metrics) as client:
            name = await world.create("app")
            await world.ready(name)
            await until(1)
            may_log_in = sql.SQL("SELECT rolcanlogin FROM pg_roles WHERE rolname = {}")
            look = may_log_in.format(sql.Literal(name))

            client.fence(lambda: "its Lease is over")
            await connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(name)))
            await until(cycles() + 3)
            assert await (await connection.execute(look)).fetchall() == [(False,)]

        # The next leader does.
        async with running(admin, PostgresOptions(synced_interval=0.2)):
            async with asyncio.timeout(SECONDS):
                while await (await connection.execute(look)).fetchall() != [(True,)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await world.leave()
