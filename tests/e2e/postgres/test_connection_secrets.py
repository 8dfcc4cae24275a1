"""Connections whose Secrets change, come and go, while the access is in sync."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from tests.support.pgworld import World, grant
from tests.support.planes import ControlPlane
from tests.support.postgres import prepare, running
from tests.support.waiting import condition, failed_with, is_ready

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.resource import SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.controllers.access import controller
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import BackoffPolicy


OPTIONS = PostgresOptions(pending_interval=3600.0, synced_interval=3600.0)
"""No interval brings a pass: what follows, follows a change."""


@pytest.fixture
async def other() -> AsyncIterator[EmbeddedPostgres]:
    async with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
async def world(
    control_plane: ControlPlane, postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    """A team whose failed accesses are tried again after a change alone."""
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        made = World(admin, postgres, is_real=control_plane.is_real)
        await made.arrive()
        with monkeypatch.context() as patched:
            patched.setattr(controller, "RETRIES", BackoffPolicy(initial=3600.0, maximum=3600.0))
            async with running(admin, OPTIONS):
                yield made
        async with running(admin, PostgresOptions(pending_interval=0.5)):
            await made.leave()


def login_of(server: EmbeddedPostgres) -> dict[str, str]:
    return {
        "host": server.host,
        "port": str(server.port),
        "username": server.username,
        "password": server.password,
        "sslmode": "disable",
    }


async def give(world: World, name: str, server: EmbeddedPostgres) -> None:
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": world.namespace},
        "stringData": login_of(server),
    }
    await world.admin.create(SECRETS, body)


async def edit(world: World, name: str, **data: str) -> None:
    await world.admin.merge_patch(SECRETS, name, world.namespace, {"stringData": data})


async def ready_at(world: World, name: str, server: EmbeddedPostgres) -> JSON:
    """The access, ready at this server, with a Secret that logs in there."""
    async with await psycopg.AsyncConnection.connect(server.dsn()) as connection:
        cursor = await connection.execute("SELECT system_identifier FROM pg_control_system()")
        ((identifier,),) = await cursor.fetchall()

    def until(body: JSON) -> bool:
        known = (body.get("status", {}).get("server") or {}).get("systemIdentifier")
        return is_ready(body) and known == str(identifier)

    body = await world.wait(name, until)
    secret = await world.secret(name)
    assert secret["port"] == str(server.port)
    assert f":{server.port}/" in secret["uri"]
    assert await world.logs_in(secret["uri"])
    return body


async def test_an_access_follows_the_secret_of_its_connection(
    world: World, other: EmbeddedPostgres
) -> None:
    neighbour = await world.create("neighbour")
    await world.ready(neighbour)
    await give(world, "given", world.postgres)
    names = [
        await world.create(f"app{number}", connection={"existingSecret": "given"})
        for number in range(5)
    ]
    for name in names:
        await ready_at(world, name, world.postgres)
    await edit(world, "given", **login_of(other))
    for name in names:
        await ready_at(world, name, other)

    # A server that is none leaves clients with the one that they have.
    await edit(world, "given", port="1")
    for name in names:
        await world.wait(name, failed_with("no connection to a PostgreSQL at 127.0.0.1:1"))
        assert (await world.secret(name))["port"] == str(other.port)
        assert await world.logs_in((await world.secret(name))["uri"])
    await edit(world, "given", **login_of(world.postgres))
    for name in names:
        await ready_at(world, name, world.postgres)

    await world.admin.delete(SECRETS, "given", world.namespace)
    for name in names:
        await world.wait(name, failed_with("ConnectionSecretMissing"))
    await give(world, "given", other)
    for name in names:
        await ready_at(world, name, other)
    # The neighbour has been at work all the time.
    before = (await world.ready(neighbour))["status"]["password"]["fingerprint"]
    patch: JSON = {"metadata": {"annotations": {ROTATE_ANNOTATION: "now"}}}
    await world.admin.merge_patch(POSTGRESACCESSES, neighbour, world.namespace, patch)

    def rotated(body: JSON) -> bool:
        return is_ready(body) and body["status"]["password"]["fingerprint"] != before

    await world.wait(neighbour, rotated)


async def test_a_secret_that_comes_later_or_is_named_in_parts_is_heard_of(world: World) -> None:
    await world.create_database()
    later = await world.create("later", connection={"existingSecret": "later"})
    await world.wait(later, failed_with("ConnectionSecretMissing"))
    await give(world, "later", world.postgres)
    await ready_at(world, later, world.postgres)

    await give(world, "parts", world.postgres)
    key = {"name": "parts", "key": "password"}
    connection: JSON = {
        "host": world.postgres.host,
        "port": world.postgres.port,
        "username": {"value": world.postgres.username},
        "password": {"secretRef": key},
        "sslMode": "disable",
    }
    name = await world.create(
        "parts", connection=connection, grants=[grant(world.database, "CONNECT")]
    )
    await ready_at(world, name, world.postgres)
    await edit(world, "parts", password="wrong")

    def remarked(body: JSON) -> bool:
        message = condition(body, "Ready")["message"]
        return is_ready(body) and f"correct the credentials in Secret {where}" in message

    where = f"{world.namespace}/parts"
    await world.wait(name, remarked)
    await edit(world, "parts", password=world.postgres.password)
    await world.wait(name, lambda body: is_ready(body) and not remarked(body))
    await ready_at(world, name, world.postgres)
