"""Which changes wake whose pages: what one consumer does often may not be work for all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.integration.portal.handshake.conftest import ADA, _quiet, admin, plane
from tests.support.filled import Filled, crd, gadget
from tests.support.waiting import eventually

from fairlead.api.kubebind import ANNOTATION_IDENTITY
from fairlead.api.meta import object_from_dict
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.portal.console.consumers.directory import Directory
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.sources.consumers import Consumers
from fairlead.portal.console.sources.kinds import History, Kinds
from fairlead.runtime import Cluster


__all__ = ["_quiet", "admin", "plane"]

ALL, MINE, OTHER = ("",), ("ada-1",), ("ben-1",)


@asynccontextmanager
async def following(admin: Client) -> AsyncIterator[tuple[Hub, Kinds]]:
    """Caches that wake streams, some of which wait for each topic."""
    hub, cluster = Hub(), Cluster("provider", admin)
    kinds = Kinds(cluster, hub, History())
    Consumers(cluster, hub, kinds)
    directory = Directory(cluster, hub, kinds)
    with hub.subscribed("ada") as one:
        one.take((*ALL, *MINE, *OTHER))
        tasks = [asyncio.create_task(run()) for run in (cluster.run, kinds.run, directory.run)]
        try:
            await eventually(lambda: _ready(kinds))
            for informer in list(cluster.informers()):
                await informer.synced.wait()
            # Lists of consumers count by the watch of the objects' own pages.
            kinds_watched = [informer.scope.resource.plural for informer in cluster.informers()]
            assert kinds_watched.count("gadgets") == 1
            yield hub, kinds
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _ready(kinds: Kinds) -> bool:
    found = kinds.get("gadgets.example.org")
    return found is not None and found.events.has_synced and found.objects.has_synced


async def test_a_namespace_for_objects_wakes_its_consumer_alone(admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds(crd())
    await filled.consumer("ada-1", ADA)
    await filled.export("ada-1")
    async with following(admin) as (hub, kinds):
        before = {topic: hub.version(topic) for topic in (ALL, MINE, OTHER)}
        await filled.namespace("ada-1", "shop")
        await eventually(lambda: _is(hub.version(MINE) > before[MINE]))
        await eventually(lambda: _is(len(kinds.namespaces("ada-1")) == 2))
        assert {topic: hub.version(topic) for topic in (ALL, OTHER)} == {
            topic: before[topic] for topic in (ALL, OTHER)
        }
        found = await admin.get(NAMESPACES, "ada-1")
        patch = {"metadata": {"annotations": {ANNOTATION_IDENTITY: None}}}
        await admin.merge_patch(NAMESPACES, found.meta.name, "", patch=patch)
        # One that is a consumer's no more was one.
        await eventually(lambda: _is(hub.version(ALL) > before[ALL]))


async def test_an_event_of_elsewhere_wakes_no_page(admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds(crd())
    await filled.consumer("ada-1", ADA)
    await filled.export("ada-1")
    where = await filled.namespace("ada-1", "shop")
    (made,) = await filled.put(gadget(where, "hers"))
    strange = object_from_dict(gadget("default", "other") | {"metadata": {"uid": "x"}})
    strange.meta.namespace = "default"
    async with following(admin) as (hub, kinds):
        before = {topic: hub.version(topic) for topic in (ALL, MINE, OTHER)}
        await filled.event(strange, "of no consumer")
        await filled.event(made, "of hers")
        found = kinds.get("gadgets.example.org")
        assert found is not None
        await eventually(lambda: _is(len(found.events.list()) == 2))
        assert hub.version(MINE) > before[MINE]
        assert {topic: hub.version(topic) for topic in (ALL, OTHER)} == {
            topic: before[topic] for topic in (ALL, OTHER)
        }


async def _is(told: bool) -> bool:
    return told
