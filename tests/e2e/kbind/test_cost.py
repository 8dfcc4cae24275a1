"""What kbind v2 costs: watches, handlers and requests, and the original's faults F22 to F25."""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import pytest
from tests.support.countingplanes import Plane, quiet
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, KbindWorld, exported_crd
from tests.support.konnector import Konnector
from tests.support.line import Line
from tests.support.waiting import eventually, when

from fairlead.api.meta import object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.konnector.v2.bindings.crds import pulled
from fairlead.konnector.v2.connection import link
from fairlead.konnector.v2.schemas import source
from fairlead.runtime import Cluster, install_crds


OBJECTS = 60
WORKERS = 4


class CountedWorld:
    """A world with one API bound by a ClusterBinding, in which all is counted."""

    def __init__(self, world: KbindWorld) -> None:
        self.world = world
        self.bound = BoundWorld(world)
        self.here, self.there = world.consumer, world.provider.admin
        self.resource = widgets(world.provider)
        self.konnector: Konnector

    @property
    def planes(self) -> tuple[Plane, Plane]:
        assert self.world.provider.plane is not None
        return self.world.consumer_plane, self.world.provider.plane

    async def start(self, *, address: str = "", bind: bool = True, **options: Any) -> str:
        """Bind the API, and return its name."""
        api = await self.world.provider.offer()
        await self.bound.accept("widgets")
        self.konnector = await self.world.konnector(**options)
        await self.world.connect(await self.bound.kubeconfig("widgets", address=address))
        for admin in (self.here, self.there):
            await namespace(admin, "shop")
        if bind:
            await self.bound.bind("all", api)
            await self.bound.says("Ready", "True")
        return api

    async def create(self, name: str) -> None:
        await self.here.create(self.resource, widget(self.resource, name, "shop"))

    async def cross(self, name: str) -> None:
        await self.create(name)
        await when(self.there, self.resource, name, "shop", until=bool)

    def provider_cluster(self) -> Cluster:
        """The cluster of the Connection's link that runs."""
        return clusters()[f"connection-{self.world.name}"]


def clusters() -> dict[str, Cluster]:
    """Return the clusters that are watched, by name."""
    return {one.name: one for one in gc.get_objects() if isinstance(one, Cluster) and one.running}


def handlers() -> Counter[str]:
    """Count all that is called at a change, by cluster and informer."""
    counts: Counter[str] = Counter()
    for name, cluster in clusters().items():
        for informer in cluster.informers():
            called = len(informer._handlers) + len(informer._listeners)
            counts[f"{name}: {informer.scope}"] = called
    return counts


def asked(plane: Plane) -> Counter[str]:
    """Count what a server was asked about the objects, by verb."""
    return Counter(info.verb for info in plane.traffic.seen if info.resource == "widgets")


async def test_f22_reconnections_leave_no_handler_and_no_watch(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the original each syncer that is rebuilt leaves its handlers on the informers."""
    monkeypatch.setattr(source, "ANSWER_SECONDS", 0.2)
    world = CountedWorld(kbind)
    async with Line(world.there.config.server) as line:
        await world.start(address=line.url, health_patience=2)
        await world.cross("first")
        await quiet(*world.planes)
        before = handlers()
        watches = [plane.watched() for plane in world.planes]
        assert len(before) > 8
        for number in range(3):
            former = world.provider_cluster()
            await kbind.rotate(await world.bound.kubeconfig("widgets", address=line.url))

            async def has_changed(former: Cluster = former) -> bool:
                name = former.name
                return name in clusters() and clusters()[name] is not former

            await eventually(has_changed)
            await world.cross(f"rotated-{number}")
            await line.cut()
            await kbind.says("Ready", "False")
            line.mend()
            await kbind.says("Ready", "True")
            await world.cross(f"again-{number}")
        await quiet(*world.planes)
        assert handlers() == before
        assert [plane.watched() for plane in world.planes] == watches


async def test_f23_a_first_sync_takes_a_bounded_number_of_requests_for_each_object(
    kbind: KbindWorld,
) -> None:
    """The original takes two GETs and an apply a pass, and a pass each minute for each object."""
    world = CountedWorld(kbind)
    api = await world.start(bind=False)
    # All objects are there before they are bound.
    crd = pulled(object_from_dict(exported_crd(kbind.provider.group)), kbind.name, "v1")
    await install_crds(world.here, [crd])
    for number in range(OBJECTS):
        await world.create(f"w{number:03}")
    here, there = world.planes
    await quiet(here, there)
    await world.bound.bind("all", api)
    await world.bound.says("Ready", "True")
    await quiet(here, there, forget=False)
    # The finalizer here; there a look whether the place is free, and the copy.
    assert asked(here) == {"patch": OBJECTS, "list": 1, "watch": 1}
    assert asked(there) == {"get": OBJECTS, "patch": OBJECTS, "list": 1, "watch": 1}
    for plane in world.planes:
        plane.traffic.seen.clear()
    change = {"spec": {"size": 2}}
    await world.here.merge_patch(world.resource, "w000", "shop", change)
    await quiet(here, there, forget=False)
    # The first of them is this test's.
    assert asked(here) == {"patch": 1}
    assert asked(there) == {"patch": 1}
    copies = (await world.there.list(world.resource, "shop")).items
    assert len(copies) == OBJECTS


async def test_f23_nothing_holds_back_requests_to_a_provider(kbind: KbindWorld) -> None:
    """The original's client sends five requests a second, by one worker."""
    world = CountedWorld(kbind)
    await world.start(workers=WORKERS)
    _, there = world.planes
    with there.traffic.hold("patch", "widgets") as hold:
        for number in range(2 * WORKERS):
            await world.create(f"w{number}")

        async def all_wait() -> bool:
            return there.traffic.count("patch", resource="widgets") == WORKERS

        await eventually(all_wait)
        assert hold.reached.is_set()
    await when(world.there, world.resource, f"w{2 * WORKERS - 1}", "shop", until=bool)


async def test_f24_at_rest_nothing_is_asked_but_the_lease(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original lists, reads, applies and writes again each 30 or 60 seconds."""
    monkeypatch.setattr(link, "RENEW_SECONDS", 0.2)
    world = CountedWorld(kbind)
    await world.start(health_interval=0.05, health_patience=1000)
    for number in range(5):
        await world.cross(f"w{number}")
    here, there = world.planes
    renewals = 0

    async def has_rested() -> bool:
        """Whether several intervals have passed in which nothing else was asked."""
        nonlocal renewals
        asked = [*here.traffic.seen, *there.traffic.seen]
        others = [info for info in asked if info.resource != "leases"]
        renewals = len(asked) - len(others)
        if others:
            for plane in world.planes:
                plane.traffic.seen.clear()
        return renewals >= 10

    await eventually(has_rested)
    assert {(info.verb, info.resource) for info in there.traffic.seen} == {("update", "leases")}
    assert here.traffic.seen == []


async def test_f25_what_is_watched_is_what_is_named(kbind: KbindWorld) -> None:
    """The original caches all Secrets, CRDs, namespaces and objects of all consumers."""
    world = CountedWorld(kbind)
    await world.start(protocols=("v2",))
    await world.cross("first")
    await kbind.provider.offer("hidden", exported=False)
    scopes = {
        name: {str(one.scope) for one in cluster.informers()}
        for name, cluster in clusters().items()
    }
    api, crds = f"widgets.{kbind.provider.group}", CUSTOMRESOURCEDEFINITIONS.group_resource
    assert scopes.pop(f"connection-{kbind.name}") == {
        api,
        f"{crds} with labels core.kbind.io/exported=true",
    }
    (consumer,) = scopes.values()
    # Each CRD may be one that a binding is going to list.
    assert consumer == {
        api,
        crds,
        "connections.core.kbind.io",
        "clusterbindings.core.kbind.io",
        "bindings.core.kbind.io",
        f"secrets in namespace {NAMESPACE}",
    }
