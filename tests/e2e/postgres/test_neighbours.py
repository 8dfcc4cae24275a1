"""Two teams on one server: one holds what its logins can, the other's accesses come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, cast

import psycopg
import pytest
from tests.support.pgworld import World, grant
from tests.support.planes import ControlPlane
from tests.support.postgres import prepare, running
from tests.support.waiting import failed_with, is_ready

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.options import PostgresOptions


OPTIONS = PostgresOptions(pending_interval=0.2, synced_interval=3600.0)
ADVISORY = "SELECT pg_try_advisory_lock(hashtextextended('access.k8s.delta10.nl', 0))"
"""What operators took before: the first of these sessions has it."""


@pytest.fixture
async def teams(
    control_plane: ControlPlane, postgres: EmbeddedPostgres
) -> AsyncIterator[tuple[World, World]]:
    """Both use the server by the same profile, and so by the same connection."""
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        hostile, neighbour = (
            World(admin, postgres, is_real=control_plane.is_real) for _ in range(2)
        )
        for world in (hostile, neighbour):
            await world.arrive(allowedNamespaces={})
            await world.create_database()
        own, neighbour.server = neighbour.server, hostile.server
        async with running(admin, OPTIONS):
            yield hostile, neighbour
            neighbour.server = own
            for world in (neighbour, hostile):
                await world.leave()


async def rotate(world: World, name: str) -> None:
    patch: JSON = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
    await world.admin.merge_patch(POSTGRESACCESSES, name, world.namespace, patch)


async def rotated(world: World, name: str, before: JSON) -> None:
    """Wait until the access is ready with another password than before."""
    known = before["status"]["password"]["fingerprint"]

    def until(body: JSON) -> bool:
        return is_ready(body) and body["status"]["password"]["fingerprint"] != known

    await world.wait(name, until)
    assert await world.logs_in((await world.secret(name))["uri"])


@asynccontextmanager
async def holding(uri: str, *statements: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    session = await psycopg.AsyncConnection.connect(uri)
    try:
        for statement in statements:
            await session.execute(cast("Any", statement))
        yield session
    finally:
        # Somebody may have ended it by now.
        with suppress(psycopg.Error):
            await session.rollback()
        await session.close()


async def test_a_neighbour_comes_rotates_and_goes_whatever_is_held(
    teams: tuple[World, World],
) -> None:
    hostile, neighbour = teams
    held = [
        await hostile.create(f"held{number}", grants=[grant(hostile.database, "CONNECT")])
        for number in range(6)
    ]
    secrets = {}
    for name in held:
        await hostile.ready(name)
        secrets[name] = await hostile.secret(name)
    turning, going = held[:3], held[3:]
    async with AsyncExitStack() as stack:
        for name, secret in secrets.items():
            own = f"ALTER ROLE \"{name}\" PASSWORD 'x'"
            await stack.enter_async_context(holding(secret["uri"], ADVISORY, own))
        for name in turning:
            await rotate(hostile, name)
        for name in going:
            await hostile.delete(name)
        name = await neighbour.create(grants=[grant(neighbour.database, "CONNECT")])
        before = await neighbour.ready(name)
        assert await neighbour.logs_in((await neighbour.secret(name))["uri"])
        await rotate(neighbour, name)
        await rotated(neighbour, name, before)
        await neighbour.delete(name)
        await neighbour.gone(name)
        # Whoever goes has no say; whoever stays is told who holds it.
        for name in going:
            await hostile.gone(name)
            assert not await hostile.role_exists(name)
        for name in turning:
            body = await hostile.wait(name, failed_with("of role"))
            assert f"of role {name}" in str(body["status"]["conditions"])
            # What the Secret has logs in all the time.
            assert await hostile.secret(name) == secrets[name]
            assert await hostile.logs_in(secrets[name]["uri"])
    for name in turning:
        await hostile.ready(name)
        assert await hostile.secret(name) != secrets[name]
        assert await hostile.logs_in((await hostile.secret(name))["uri"])


async def test_somebody_elses_grant_keeps_a_role_and_its_object_but_no_login(
    teams: tuple[World, World],
) -> None:
    hostile, neighbour = teams
    owner = await hostile.create("owner", grants=[grant(hostile.database, "CONNECT", "CREATE")])
    victim = await neighbour.create("victim", grants=[grant(hostile.database, "CONNECT")])
    await hostile.ready(owner)
    await neighbour.ready(victim)
    own, other = (await hostile.secret(owner))["uri"], (await neighbour.secret(victim))["uri"]
    statements = (
        "CREATE TABLE mine (id int)",
        f'GRANT SELECT ON mine TO "{victim}"',
    )
    async with holding(own, *statements), holding(other, "SELECT 1") as open_:
        await neighbour.delete(victim)
        await neighbour.wait(victim, failed_with(f"of role {owner}"))
        with pytest.raises(psycopg.OperationalError):
            await open_.execute("SELECT 1")
        assert not await neighbour.logs_in(other)
        name = await neighbour.create(grants=[grant(hostile.database, "CONNECT")])
        await neighbour.ready(name)
    await neighbour.gone(victim)
