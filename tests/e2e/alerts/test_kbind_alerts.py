"""Alerts about kbind v2, each in a konnector where just that is broken."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from time import monotonic

import pytest
from tests.support.alerts import Scraped, assert_well, firing, names
from tests.support.kbindbound import BoundWorld, binding, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, KbindWorld
from tests.support.waiting import eventually, gone, when

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.resource import SECRETS
from fairlead.konnector import metrics as sync_metrics


pytestmark = pytest.mark.extended


class KbindScraped(Scraped):
    """A konnector in whose world an object has crossed by kbind v2, and nothing fires."""

    def __init__(self, world: KbindWorld) -> None:
        super().__init__("konnector", lambda: self.konnector.metrics_url)
        self.world = world
        self.bound = BoundWorld(world)
        self.here, self.there = world.consumer, world.provider.admin
        self.resource = widgets(world.provider)
        self.connection = f"connection/{world.name}"

    async def start(self) -> None:
        api = await self.world.provider.offer()
        await self.bound.accept("widgets")
        self.konnector = await self.world.konnector(health_interval=1.0)
        await self.world.connect(await self.bound.kubeconfig("widgets"))
        await self.bound.bind("all", api)
        await self.bound.says("Ready", "True")
        await namespace(self.here, "shop")
        await self.here.create(self.resource, widget(self.resource, "blue", "shop"))
        await when(self.there, self.resource, "blue", "shop", until=bool)
        synced = await self.tells(
            "fairlead_sync_objects_in_sync",
            lambda value: value == 1,
            binding=self.connection,
            resource=api,
        )
        await assert_well(synced)

    async def create(self, name: str) -> None:
        await self.here.create(self.resource, widget(self.resource, name, "shop"))


@pytest.fixture
async def synced(stack: AsyncExitStack) -> KbindScraped:
    world = KbindWorld(stack)
    await world.start()
    scraped = KbindScraped(world)
    await scraped.start()
    return scraped


async def test_an_object_in_the_way_of_a_copy_is_told_of(synced: KbindScraped) -> None:
    await synced.there.create(synced.resource, widget(synced.resource, "taken", "shop"))
    await synced.create("taken")
    scrape = await synced.tells("fairlead_sync_conflicts", lambda value: value == 1)
    (alert,) = await firing((30, scrape), (30, await synced.scrape()))
    assert alert.name == "FairleadObjectsConflicting"
    assert f"in binding {synced.connection}" in alert.annotations


async def test_an_object_that_the_provider_refuses_is_told_of(synced: KbindScraped) -> None:
    assert synced.world.provider.plane is not None
    synced.world.provider.plane.faults.fail("patch", "widgets", 403, times=-1)
    await synced.create("refused")
    scrape = await synced.tells("fairlead_sync_failing", lambda value: value == 1)
    fired = names(await firing((30, scrape), (30, await synced.scrape())))
    assert fired == {"FairleadObjectsFailing"}
    synced.world.provider.plane.faults.clear()


async def test_a_binding_of_an_api_that_is_not_offered_is_told_of(synced: KbindScraped) -> None:
    await synced.bound.bind("more", "others.example.org")
    label = "clusterbinding/more"
    failed = "fairlead_konnector_binding_failed"
    scrape = await synced.tells(failed, lambda value: value == 1, binding=label)
    (alert,) = await firing((30, scrape), (30, await synced.scrape()))
    assert alert.name == "FairleadBindingFailed"
    assert label in alert.annotations
    await synced.here.delete(CLUSTERBINDINGS, "more")
    await gone(synced.here, CLUSTERBINDINGS, "more")

    async def is_well() -> bool:
        return not any(label in series for series in await synced.scrape())

    await eventually(is_well)


async def test_a_connection_that_is_not_ready_is_told_of_and_its_bindings_are_not(
    synced: KbindScraped,
) -> None:
    # One for a Connection that is not there waits, and fails nobody.
    lonely = binding("lonely", "nowhere", "others.example.org", namespace="shop")
    await synced.here.create(BINDINGS, lonely)
    secret = await synced.here.get(SECRETS, synced.world.name, NAMESPACE)
    empty = {"data": dict.fromkeys(secret.to_dict()["data"])}
    await synced.here.merge_patch(SECRETS, synced.world.name, NAMESPACE, empty)
    await synced.bound.says("Ready", "False", "Pending")
    ready = "fairlead_konnector_connection_ready"
    scrape = await synced.tells(ready, lambda value: value == 0, binding=synced.connection)
    (alert,) = await firing((30, scrape), (30, await synced.scrape()))
    assert alert.name == "FairleadConnectionNotReady"
    assert synced.connection in alert.annotations
    filled = {"data": secret.to_dict()["data"]}
    await synced.here.merge_patch(SECRETS, synced.world.name, NAMESPACE, filled)
    await synced.bound.says("Ready", "True")
    await assert_well(await synced.tells(ready, lambda value: value == 1))


async def test_a_change_that_does_not_reach_the_provider_is_told_of(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [0.0]
    clocked = partial(sync_metrics.SyncMetrics, clock=lambda: monotonic() + late[0])
    monkeypatch.setattr(sync_metrics, "SyncMetrics", clocked)
    world = KbindWorld(stack)
    await world.start()
    synced = KbindScraped(world)
    await synced.start()
    assert world.provider.plane is not None
    world.provider.plane.faults.delay(3600, "patch", "widgets")
    await synced.create("late")
    await synced.tells("fairlead_sync_pending", lambda value: value == 1, direction="spec")
    late[0] = 400
    scrape = await synced.scrape()
    (alert,) = await firing((30, scrape), (30, await synced.scrape()))
    assert alert.name == "FairleadObjectsLagging"
    assert f"binding {synced.connection}" in alert.annotations
    world.provider.plane.faults.clear()


async def test_series_go_with_the_api_and_with_the_connection(synced: KbindScraped) -> None:
    assert any(synced.connection in series for series in await synced.scrape())
    await synced.here.delete(CLUSTERBINDINGS, "all")
    await gone(synced.here, CLUSTERBINDINGS, "all")

    async def has_no_sync() -> bool:
        scrape = await synced.scrape()
        return not any(
            text in series
            for series in scrape
            for text in ("fairlead_sync", "sync-widgets", "clusterbinding/")
        )

    await eventually(has_no_sync)
    await synced.here.delete(CONNECTIONS, synced.world.name)
    await gone(synced.here, CONNECTIONS, synced.world.name)

    async def has_nothing() -> bool:
        return not any(synced.connection in series for series in await synced.scrape())

    await eventually(has_nothing)
