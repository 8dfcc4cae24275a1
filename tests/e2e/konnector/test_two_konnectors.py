"""Two konnectors on one ClusterBinding: ours, and one that acts as kube-bind's own does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.konnector import WIDGETS, Requests, World, event, konnector, quiet, widget
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEBINDINGS, CLUSTERBINDINGS
from fairlead.api.meta import Object
from fairlead.api.resource import EVENTS
from fairlead.api.timestamps import now
from fairlead.client import Client, Conflict
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import make_row
from fairlead.konnector.controllers.clusterbinding import peers


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


async def test_two_of_ours_say_so_until_one_of_them_ends(
    world: World, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but their entries tells them apart: both are of one version."""
    monkeypatch.setattr(peers, "INTERVAL", timedelta(seconds=2))
    monkeypatch.setattr(peers, "BEAT", timedelta(seconds=1))
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await link.condition("AnotherKonnector", lambda found: not found)
    second = await stack.enter_async_context(konnector(world.consumer))
    told = await link.condition("AnotherKonnector", bool)
    assert (told["status"], told["reason"]) == ("True", "SeveralKonnectors")
    assert "2 konnectors work with the provider's ClusterBinding" in told["message"]
    assert "stop all but one of them" in told["message"]
    seen = await event(world.consumer, "default", "SeveralKonnectors")
    assert seen["type"] == "Warning"
    await link.says(Ready="True", AnotherKonnector="True")
    async with Overview(world.consumer) as overview:
        (bound,) = await overview.fetch()
    (remark,) = make_row(bound, datetime.now(UTC)).remarks
    assert remark.text.startswith("SeveralKonnectors: 2 konn")
    await second.stop()
    await link.condition("AnotherKonnector", lambda found: not found)


async def test_one_that_takes_over_is_not_taken_for_another(world: World) -> None:
    first = await world.konnector()
    link = await world.bound()
    for _ in range(3):
        await first.stop()
        await first.start()
        await link.says(Ready="True", Heartbeating="True")
    requests = Requests(world.provider_plane)
    await quiet(requests)
    await link.condition("AnotherKonnector", lambda found: not found)
    reasons = [found.to_dict()["reason"] for found in (await world.consumer.list(EVENTS)).items]
    assert "SeveralKonnectors" not in reasons
