"""Alerts about objects that do not cross, each in a konnector where just that is broken."""

from __future__ import annotations

from functools import partial
from time import monotonic

import pytest
from tests.support.alerts import Scraped, assert_well, firing, names
from tests.support.konnector import Link, World
from tests.support.provider import WIDGETS
from tests.support.waiting import when

from fairlead.api.kubebind import APISERVICEEXPORTS
from fairlead.konnector import metrics as sync_metrics


pytestmark = pytest.mark.extended


class Synced(Scraped):
    """A konnector in whose world an object has crossed, and nothing fires."""

    def __init__(self, world: World, link: Link) -> None:
        super().__init__("konnector", lambda: world.one.metrics_url)
        self.world = world
        self.link = link
        self.consumer = world.consumer
        self.faults = world.provider_plane.faults


@pytest.fixture
async def synced(world: World) -> Synced:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, world.widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)
    found = Synced(world, link)
    await assert_well(await found.tells("fairlead_sync_objects_in_sync", lambda value: value == 1))
    return found


async def test_an_object_in_the_way_is_told_of_as_a_conflict(synced: Synced) -> None:
    world = synced.world
    theirs = world.widget("taken")
    theirs["metadata"]["namespace"] = await synced.link.provider_namespace()
    await world.provider.create(WIDGETS, theirs)
    await world.consumer.create(WIDGETS, world.widget("taken"))
    scrape = await synced.tells("fairlead_sync_conflicts", lambda value: value == 1)
    (alert,) = await firing((30, scrape), (30, await synced.scrape()))
    assert alert.name == "FairleadObjectsConflicting"
    assert "1 objects of widgets.example.org in binding widgets" in alert.annotations


async def test_an_object_that_a_server_refuses_is_told_of_as_failing(synced: Synced) -> None:
    synced.faults.fail("create", "widgets", 403, times=-1)
    await synced.consumer.create(WIDGETS, synced.world.widget("refused"))
    scrape = await synced.tells("fairlead_sync_failing", lambda value: value == 1)
    assert names(await firing((30, scrape), (30, await synced.scrape()))) == {
        "FairleadObjectsFailing"
    }


async def test_a_binding_that_has_failed_is_told_of(synced: Synced) -> None:
    link = synced.link
    await synced.world.provider.delete(APISERVICEEXPORTS, link.name, link.cluster_namespace)
    failed = "fairlead_konnector_binding_failed"
    scrape = await synced.tells(failed, lambda value: value == 1, binding=synced.link.name)
    found = await firing((30, scrape), (30, await synced.scrape()))
    assert names(found) == {"FairleadBindingFailed"}


async def test_a_change_that_does_not_cross_is_told_of_as_lagging(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [0.0]
    clocked = partial(sync_metrics.SyncMetrics, clock=lambda: monotonic() + late[0])
    monkeypatch.setattr(sync_metrics, "SyncMetrics", clocked)
    await world.konnector()
    link = await world.bound()
    synced = Synced(world, link)
    await assert_well(await synced.scrape())
    # The provider answers to nothing any more.
    synced.faults.delay(3600, "create", "widgets")
    await world.consumer.create(WIDGETS, world.widget("late"))
    await synced.tells("fairlead_sync_pending", lambda value: value == 1, direction="spec")
    late[0] = 400
    scrape = await synced.scrape()
    assert names(await firing((30, scrape), (30, await synced.scrape()))) == {
        "FairleadObjectsLagging"
    }
    synced.faults.clear()
