"""Administrators whose password is wrong: few attempts, and what works goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import sql
from tests.support.pgworld import World
from tests.support.planes import ControlPlane
from tests.support.postgres import access, prepare, running, server_profile
from tests.support.waiting import condition, eventually, failed_with, idle, is_ready

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions


REFUSED = "password authentication failed"
OPTIONS = PostgresOptions(pending_interval=0.2, synced_interval=1.0, server_interval=0.5)


@pytest.fixture
async def locked() -> AsyncIterator[EmbeddedPostgres]:
    """A server of its own, whose log tells of each login that it refuses."""
    async with EmbeddedPostgres(settings={"log_connections": "on"}) as server:
        yield server


@pytest.fixture
async def world(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        made = World(admin, postgres, is_real=control_plane.is_real)
        await made.arrive()
        async with running(admin, OPTIONS):
            yield made
            await made.leave()


async def offer(world: World, name: str, server: EmbeddedPostgres, password: str) -> None:
    """Make a PostgresServer of this name, with this password in its Secret."""
    secret: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
        "stringData": {"username": server.username, "password": password},
    }
    await world.admin.create(SECRETS, secret)
    await world.admin.create(POSTGRESSERVERS, server_profile(name, server))


async def correct(world: World, name: str, password: str) -> None:
    await world.admin.merge_patch(
        SECRETS, name, DEFAULT_NAMESPACE, {"stringData": {"password": password}}
    )


async def set_password(server: EmbeddedPostgres, password: str) -> None:
    async with await psycopg.AsyncConnection.connect(server.dsn(), autocommit=True) as connection:
        query = sql.SQL("ALTER ROLE {} PASSWORD {}")
        await connection.execute(query.format(sql.Identifier(server.username), password))


async def is_fenced(server: EmbeddedPostgres, name: str, password: str) -> bool:
    dsn = server.dsn(username=server.username, password=password)
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        query = "SELECT 1 FROM pg_roles WHERE rolname = %s AND rolcanlogin"
        return not await (await connection.execute(query, [name])).fetchall()


async def test_of_many_accesses_one_tries_a_wrong_password(
    world: World, locked: EmbeddedPostgres
) -> None:
    profiles = [f"locked{number}-{world.id}" for number in range(3)]
    for profile in profiles:
        await offer(world, profile, locked, "wrong")
    names = []
    for number in range(12):
        name = world.name(f"app{number}")
        names.append(name)
        body = access(name, world.namespace, profiles[number % len(profiles)])
        await world.admin.create(POSTGRESACCESSES, body)
    for number, name in enumerate(names):
        secret = f"Secret {profiles[number % len(profiles)]} of PostgresServer"
        await world.wait(name, failed_with(f"correct the credentials in {secret}"))
    # Attempts of 0, 2 and 6 seconds, however often passes, looks and status checks need a login.
    await idle(3.0)
    assert 1 <= locked.log().count(REFUSED) <= 4
    # The neighbour on another server is at work beside it.
    await world.ready(await world.create("neighbour"))
    for profile in profiles:
        await correct(world, profile, locked.password)
    for name in names:
        await world.ready(name)
    for name in names:
        await world.delete(name)
        await world.gone(name)
    for profile in profiles:
        await world.admin.delete(POSTGRESSERVERS, profile)


@pytest.mark.parametrize("changed", ["Secret", "server"])
async def test_what_is_in_sync_stays_so_and_a_login_is_taken_away(
    world: World, locked: EmbeddedPostgres, changed: str
) -> None:
    profile = f"locked-{world.id}"
    await offer(world, profile, locked, locked.password)
    stays, goes = (world.name(name) for name in ("stays", "goes"))
    for name in (stays, goes):
        await world.admin.create(POSTGRESACCESSES, access(name, world.namespace, profile))
        await world.ready(name)
    if changed == "Secret":
        await correct(world, profile, "wrong")
    else:
        await set_password(locked, "another")

    def remarked(body: JSON) -> bool:
        return is_ready(body) and "correct the credentials" in condition(body, "Ready")["message"]

    if changed == "Secret":
        await world.wait(stays, remarked)
    await world.delete(goes)
    if changed == "Secret":
        await world.gone(goes)
    else:
        # The session that is open takes the login; what needs more sessions waits for them.
        await eventually(is_fenced, locked, goes, "another")
    assert is_ready(await world.wait(stays, is_ready))
    assert locked.log().count(REFUSED) <= 6
    await correct(world, profile, "another" if changed == "server" else locked.password)
    await world.wait(stays, lambda body: is_ready(body) and not remarked(body))
    await world.gone(goes)
    await world.delete(stays)
    await world.gone(stays)
    await world.admin.delete(POSTGRESSERVERS, profile)
