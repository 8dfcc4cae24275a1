"""Large accesses, of which the operator's cache has stubs, and ordinary ones beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace
from tests.e2e.postgres.test_secrets import OPTIONS, annotate, fingerprint, world
from tests.support.pgworld import World, grant
from tests.support.postgres import access, running
from tests.support.waiting import SECONDS, idle

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import (
    END_SESSIONS_ANNOTATION,
    POSTGRESACCESSES,
    ROTATE_ANNOTATION,
)
from fairlead.api.resource import SECRETS
from fairlead.postgres import bounds
from fairlead.runtime import Metrics


__all__ = ["world"]

NOTES = {f"example.org/note{number}": "x" * 4000 for number in range(12)}
TEMPLATE: JSON = {"secretTemplate": {"annotations": NOTES}}
RESOURCE = POSTGRESACCESSES.group_resource
LABELS = {f"label{number}": "" for number in range(10_000)}


@pytest.fixture
async def metrics(world: World) -> AsyncIterator[Metrics]:
    """Of an operator at work, which looks at a server that is in sync only seldom."""
    counted = Metrics()
    async with running(world.admin, replace(OPTIONS, synced_interval=3600.0), counted):
        yield counted


def requests(metrics: Metrics) -> float:
    (counts, _) = metrics.requests.collect()
    return sum(sample.value for sample in counts.samples)


def gauge(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


async def created(world: World, suffix: str, metadata: JSON, **spec: object) -> str:
    name = world.name(suffix)
    body = access(name, world.namespace, world.server, **spec)
    body["metadata"] |= metadata
    await world.admin.create(POSTGRESACCESSES, body)
    return name


async def rests(metrics: Metrics) -> bool:
    """Whether the operator sends no request for a second."""
    before = requests(metrics)
    return await idle(1.0, lambda: requests(metrics) > before)


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        pytest.param({}, TEMPLATE, id="spec"),
        pytest.param({"labels": LABELS}, {}, id="labels"),
        pytest.param({"labels": LABELS}, TEMPLATE, id="both"),
    ],
)
async def test_a_large_access_and_its_neighbour_are_served(
    world: World, metrics: Metrics, metadata: JSON, spec: JSON
) -> None:
    connect = grant(world.database, "CONNECT")
    large = await created(world, "large", metadata, grants=[connect], **spec)
    small = await world.create("small", grants=[connect])
    for name in (large, small):
        await world.ready(name)
        assert await world.logs_in((await world.secret(name))["uri"])
    found = await world.admin.get(POSTGRESACCESSES, large, world.namespace)
    assert len(found.raw) > bounds.LARGE_BYTES
    assert len(found.meta.labels) == len(metadata.get("labels", {}))
    secret = await world.admin.get(SECRETS, f"{large}-login", world.namespace)
    assert [name in secret.meta.annotations for name in NOTES] == [bool(spec)] * len(NOTES)
    size = gauge(metrics, "fairlead_informer_bytes", cluster="provider", resource=RESOURCE)
    assert 0 < size < bounds.LARGE_BYTES
    roles = gauge(metrics, "fairlead_postgres_roles", owner=f"PostgresServer {world.server}")
    assert roles == 2
    # The passes of the start end, and its stub asks for no other again and again.
    async with asyncio.timeout(SECONDS):
        while not await rests(metrics):
            pass

    for name in (large, small):
        more = grant(world.database, "CONNECT", "CREATE") | {"on": "Database"}
        await world.patch(name, grants=[more])
        await world.wait(name, lambda body: body["status"]["observedGeneration"] == 2)
        await world.ready(name)
        query = "SELECT has_database_privilege(%s, %s, 'CREATE')"
        assert await world.fetch(query, name, world.database) == [(True,)]
    known = fingerprint(await world.ready(large))
    await annotate(world, large, **{ROTATE_ANNOTATION: "now"})
    await world.wait(large, lambda body: fingerprint(body) != known)
    await world.ready(large)
    assert await world.logs_in((await world.secret(large))["uri"])
    await annotate(world, large, **{END_SESSIONS_ANNOTATION: "now"})
    await world.wait(
        large, lambda body: body["status"].get("sessions", {}).get("request") == "now"
    )

    await world.delete(large)
    await world.gone(large)
    assert not await world.role_exists(large)
    assert await world.logs_in((await world.secret(small))["uri"])
