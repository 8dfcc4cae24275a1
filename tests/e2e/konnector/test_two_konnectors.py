"""Two konnectors on one ClusterBinding: ours, and one that acts as kube-bind's own does."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.konnector import WIDGETS, Requests, World, event, quiet, widget
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEBINDINGS, CLUSTERBINDINGS
from fairlead.api.meta import Object
from fairlead.api.resource import EVENTS
from fairlead.api.timestamps import now
from fairlead.client import Client, Conflict


RIVAL = "v0.8.1"


async def fight(client: Client, namespace: str, writes: list[str]) -> None:
    """Write our own version into the ClusterBinding as soon as another one stands there."""
    found = await client.get(CLUSTERBINDINGS, "cluster", namespace)
    await take(client, found, writes)
    version = found.meta.resource_version
    while True:
        async for seen in client.watch(CLUSTERBINDINGS, namespace, resource_version=version):
            version = seen.object.meta.resource_version
            await take(client, seen.object, writes)


async def take(client: Client, found: Object, writes: list[str]) -> None:
    there = found.to_dict()["status"]["konnectorVersion"]
    if there == RIVAL:
        return
    metadata = {"resourceVersion": found.meta.resource_version}
    status = {"konnectorVersion": RIVAL, "lastHeartbeatTime": now()}
    with suppress(Conflict):
        await client.merge_patch(
            CLUSTERBINDINGS,
            found.meta.name,
            found.meta.namespace,
            {"metadata": metadata, "status": status},
            subresource="status",
        )
        writes.append(there)


async def test_the_one_that_knows_better_says_so_once_and_leaves_it_to_the_other(
    world: World,
) -> None:
    await world.konnector()
    link = await world.bound()
    writes: list[str] = []
    requests = Requests(world.provider_plane)
    task = asyncio.create_task(fight(world.provider, link.cluster_namespace, writes))
    try:
        told = await link.condition("AnotherKonnector", lambda found: found)
        assert RIVAL in told["message"]
        assert "stop one of them" in told["message"]
        await quiet(requests)
        assert 2 <= len(writes) <= 4
    finally:
        task.cancel()
    binding = await when(world.consumer, APISERVICEBINDINGS, link.name, until=bool)
    assert condition(binding, "Ready")["status"] == "True"
    seen = await event(world.consumer, "default", "VersionsAlternate")
    assert seen["type"] == "Warning"
    reasons = [found.to_dict()["reason"] for found in (await world.consumer.list(EVENTS)).items]
    assert reasons.count("VersionsAlternate") == 1
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)
