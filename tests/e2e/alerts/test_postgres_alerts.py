"""Alerts about PostgreSQL servers, each where just that is broken at a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial

import msgspec
import psycopg
import pytest
from psycopg import sql
from tests.support.alerts import Scraped, assert_well, at_least, at_work, firing, names
from tests.support.line import Line
from tests.support.pgworld import World
from tests.support.postgres import prepare

from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import format_time, moment
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.demo.programs import provider_programs
from fairlead.postgres import app
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead_sandbox import Sandbox


pytestmark = pytest.mark.extended

OPTIONS = PostgresOptions(synced_interval=0.5, pending_interval=0.5)


class Operated(Scraped):
    """An operator at work at one server over a line, with a role in sync."""

    world: World
    line: Line
    owner: dict[str, str]


@pytest.fixture
async def operated(postgres: EmbeddedPostgres) -> AsyncIterator[Operated]:
    program = msgspec.structs.replace(
        provider_programs([])[0], build=partial(app.build, options=OPTIONS)
    )
    async with (
        Sandbox(name="provider") as plane,
        Client(parse_kubeconfig(plane.kubeconfig())) as admin,
        Line(f"tcp://{postgres.host}:{postgres.port}") as line,
    ):
        await prepare(admin)
        world = World(admin, postgres, is_real=False)
        await world.arrive(host="127.0.0.1", port=int(line.url.rpartition(":")[2]))
        async with at_work(admin, program) as scraped:
            found = Operated(scraped.job, scraped._url)
            found.world, found.line = world, line
            found.owner = {"owner": f"PostgresServer {world.server}"}
            await world.ready(await world.create("app"))
            await assert_well(
                await found.tells("fairlead_postgres_roles", lambda value: value == 1)
            )
            yield found
            line.mend()
            await world.leave()


async def test_a_server_that_does_not_answer_is_told_of(operated: Operated) -> None:
    await operated.line.cut()
    scrape = await operated.tells(
        "fairlead_postgres_reachable", lambda value: value == 0, **operated.owner
    )
    (alert,) = await firing((30, scrape), (30, await operated.scrape()))
    assert alert.name == "FairleadPostgresServerAway"
    assert operated.owner["owner"] in alert.annotations


async def test_a_server_that_refuses_the_administrator_is_told_of(operated: Operated) -> None:
    world = operated.world
    wrong = {"stringData": {"password": "wrong"}}
    await world.admin.merge_patch(SECRETS, world.server, DEFAULT_NAMESPACE, wrong)
    name = "fairlead_postgres_administrator_refused"
    refused = await operated.tells(name, lambda value: value == 1, **operated.owner)
    (alert,) = await firing((30, refused), (30, await operated.scrape()))
    assert alert.name == "FairleadAdministratorRefused"
    assert operated.owner["owner"] in alert.annotations
    right = {"stringData": {"password": world.postgres.password}}
    await world.admin.merge_patch(SECRETS, world.server, DEFAULT_NAMESPACE, right)
    await assert_well(await operated.tells(name, lambda value: value == 0, **operated.owner))


async def test_drift_that_comes_again_and_again_is_told_of(operated: Operated) -> None:
    name = "fairlead_postgres_drift_healed_total"
    before = await operated.scrape()
    spoil = sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(operated.world.name()))
    async with await psycopg.AsyncConnection.connect(
        operated.world.postgres.dsn(), autocommit=True
    ) as other:
        for times in range(1, 7):
            await other.execute(spoil)
            after = await operated.tells(name, at_least(times))
    assert names(await firing((30, before), (10, after))) == {"FairleadDriftHealedAgain"}
    # Once is what the operator is there for.
    once = {series: min(value, 1) if name in series else value for series, value in after.items()}
    assert await firing((30, before), (10, once)) == []


async def test_work_that_waits_for_a_lock_of_another_session_is_told_of(
    operated: Operated,
) -> None:
    name = operated.world.name()
    async with await psycopg.AsyncConnection.connect(operated.world.postgres.dsn()) as other:
        limit = sql.SQL("ALTER ROLE {} CONNECTION LIMIT 7").format(sql.Identifier(name))
        await other.execute(limit)
        await operated.world.patch(name, attributes={"connectionLimit": 3})
        scrape = await operated.tells(
            "fairlead_postgres_locked", lambda value: value == 1, **operated.owner
        )
        found = await firing((30, scrape), (30, await operated.scrape()))
        assert names(found) == {"FairleadWorkHeldByLock"}
        await other.rollback()
    await assert_well(await operated.tells("fairlead_postgres_locked", lambda value: value == 0))


async def test_an_access_that_has_failed_for_long_is_told_of(operated: Operated) -> None:
    name = operated.world.name()
    await operated.world.patch(name, grants=[{"database": "missing", "privileges": ["CONNECT"]}])
    scrape = await operated.tells(
        "fairlead_postgres_failing", lambda value: value == 1, **operated.owner
    )
    found = await firing((40, scrape), (10, await operated.scrape()))
    assert names(found) == {"FairleadAccessesFailing"}
    await operated.world.patch(name, grants=[])
    await assert_well(await operated.tells("fairlead_postgres_failing", lambda value: value == 0))


async def test_logins_that_end_soon_are_told_of(operated: Operated) -> None:
    world = operated.world
    # No object that was created now can have both an end within 7 days and a life of 28.
    later = format_time(moment() + timedelta(days=29))
    await world.patch(world.name(), attributes={"validUntil": later})
    name = "fairlead_postgres_logins_ending"
    scrape = await operated.tells(name, lambda value: value == 1, within="30d")
    await assert_well(scrape)
    near = {
        series: 1 if name in series and "7d" in series else value
        for series, value in scrape.items()
    }
    (alert,) = await firing((30, near), (30, near))
    assert alert.name == "FairleadLoginsEnding"
    assert world.name() not in alert.annotations
