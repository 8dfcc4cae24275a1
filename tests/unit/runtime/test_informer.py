"""Shared informers and leases: counted, replayed, indexed, closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest
from tests.unit.runtime.fakes import WIDGETS, FakeServer, refusal, widget

from fairlead.api.meta import Object
from fairlead.client import AnswerTooLarge, Bounds, Client
from fairlead.client.bounds import Intake, cost
from fairlead.runtime.cache.informer import CacheRoom, Delta, InformerClosed, SharedInformer
from fairlead.runtime.cache.reflector import Scope
from fairlead.runtime.cache.store import Transform
from fairlead.runtime.cluster import Cluster


Run = Callable[[Awaitable[Any]], Any]


@asynccontextmanager
async def running(
    server: FakeServer, transform: Transform | None = None
) -> AsyncIterator[Cluster]:
    cluster = Cluster("c", cast("Client", server), transform=transform)
    task = asyncio.create_task(cluster.run())
    await asyncio.sleep(0)
    try:
        yield cluster
    finally:
        task.cancel()
        await asyncio.wait([task])


def named(delta: Delta) -> list[str]:
    return [delta.object.meta.name]


def test_equal_scopes_share_one_watch_until_the_last_lease_is_closed(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        async with running(server) as cluster:
            first, second = cluster.informer(WIDGETS), cluster.informer(WIDGETS)
            other = cluster.informer(WIDGETS, namespace="ns")
            await asyncio.sleep(1)
            assert server.open_watches == 2
            await first.close()
            await first.close()
            assert server.open_watches == 2
            await second.close()
            assert server.open_watches == 1
            await other.close()
            assert server.open_watches == 0
            assert list(cluster.informers()) == []

    virtual(story())


def test_a_lease_from_before_the_cluster_runs_starts_with_it(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        cluster = Cluster("c", cast("Client", server))
        informer = cluster.informer(WIDGETS)
        await asyncio.sleep(5)
        assert server.asked == []
        assert cluster.unsynced() == "waiting for widgets.example.org"
        task = asyncio.create_task(cluster.run())
        await informer.synced()
        assert cluster.unsynced() == ""
        assert [object_.meta.name for object_ in informer.list()] == ["a"]
        task.cancel()
        await asyncio.wait([task])
        assert server.open_watches == 0

    virtual(story())


def test_a_cluster_runs_once_at_a_time_and_again_later(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        cluster = Cluster("c", cast("Client", server))
        informer = cluster.informer(WIDGETS)
        for number in range(2):
            task = asyncio.create_task(cluster.run())
            await asyncio.sleep(1)
            with pytest.raises(RuntimeError, match="cluster c is running already"):
                await cluster.run()
            await server.put(f"seen-{number}")
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
        assert len(informer.list()) == 2

    virtual(story())


def test_a_late_subscriber_hears_what_is_there_as_initial(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        await server.put("old")
        async with running(server) as cluster:
            informer = cluster.informer(WIDGETS)
            early: list[Delta] = []
            informer.subscribe(early.append)
            await informer.synced()
            await asyncio.sleep(1)
            await server.put("new")
            await asyncio.sleep(1)
            late: list[Delta] = []
            informer.subscribe(late.append)
            assert [(d.object.meta.name, d.initial) for d in early] == [
                ("old", True),
                ("new", False),
            ]
            assert [(d.type, d.initial) for d in late] == [("ADDED", True)] * 2

    virtual(story())


def test_one_handler_that_fails_stops_no_other(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        heard: list[str] = []

        def poisoned(delta: Delta) -> None:
            raise ValueError(delta.object.meta.name)

        async with running(server) as cluster:
            informer = cluster.informer(WIDGETS)
            informer.subscribe(poisoned)
            informer.subscribe(lambda delta: heard.extend(named(delta)))
            await informer.synced()
            for name in "ab":
                await server.put(name)
            await asyncio.sleep(1)
            assert heard == ["a", "b"]
            assert server.count("list") == 1

    virtual(story())


def test_a_closed_lease_hears_nothing_while_others_do(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        heard: dict[str, list[str]] = {"closed": [], "open": []}
        async with running(server) as cluster:
            closed, left = cluster.informer(WIDGETS), cluster.informer(WIDGETS)
            closed.subscribe(lambda delta: heard["closed"].extend(named(delta)))
            left.subscribe(lambda delta: heard["open"].extend(named(delta)))
            await left.synced()
            await closed.close()
            await server.put("a")
            await asyncio.sleep(1)
            assert heard == {"closed": [], "open": ["a"]}

    virtual(story())


def test_indexes_are_each_leases_own(virtual: Run) -> None:
    def by_name(object_: Object) -> list[str]:
        return [object_.meta.name]

    def by_kind(object_: Object) -> list[str]:
        return [object_.kind]

    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        async with running(server) as cluster:
            first, second = cluster.informer(WIDGETS), cluster.informer(WIDGETS)
            first.add_index("x", by_name)
            first.add_index("x", by_name)
            second.add_index("x", by_kind)
            await first.synced()
            assert [len(lease.by_index("x", "a")) for lease in (first, second)] == [1, 0]
            with pytest.raises(ValueError, match="already has an index x"):
                first.add_index("x", by_kind)
            await second.close()
            assert len(first.by_index("x", "a")) == 1
            with pytest.raises(KeyError):
                first.by_index("y", "a")

    virtual(story())


def test_waiting_for_a_closed_lease_ends(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fault["list"] = lambda: refusal("Forbidden", "no")
        async with running(server) as cluster:
            informer = cluster.informer(WIDGETS)
            waiting = asyncio.create_task(informer.synced())
            await asyncio.sleep(1)
            assert informer.error == "cannot list widgets.example.org: no"
            assert not informer.has_synced
            await informer.close()
            with pytest.raises(InformerClosed, match=r"widgets\.example\.org"):
                await waiting

    virtual(story())


def test_a_server_that_goes_away_makes_the_cluster_unready_until_it_is_back(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        cluster = Cluster("c", cast("Client", server))
        informer = cluster.informer(WIDGETS)
        task = asyncio.create_task(cluster.run())
        await informer.synced()
        assert cluster.unsynced() == ""
        for verb in ("list", "watch"):
            server.fault[verb] = lambda: refusal("ServiceUnavailable")
        await server.end_watches()
        await asyncio.sleep(60)
        assert cluster.unsynced().startswith("cannot watch widgets.example.org")
        server.fault.clear()
        await asyncio.sleep(60)
        assert cluster.unsynced() == ""
        task.cancel()
        await asyncio.wait([task])

    virtual(story())


def test_a_later_informer_that_cannot_sync_leaves_the_cluster_ready(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        server.fault["list"] = lambda: refusal("NotFound")
        async with running(server) as cluster:
            informer = cluster.informer(WIDGETS)
            await asyncio.sleep(1)
            assert informer.error
            assert cluster.unsynced() == ""

    virtual(story())


def test_what_is_kept_is_transformed(virtual: Run) -> None:
    def slim(object_: Object) -> Object:
        return msgspec.structs.replace(object_, raw=b"{}")

    async def story() -> None:
        server = FakeServer()
        await server.put("a")
        deltas: list[Delta] = []
        async with running(server, slim) as cluster:
            informer = cluster.informer(WIDGETS)
            informer.subscribe(deltas.append)
            await informer.synced()
            await asyncio.sleep(1)
            await server.delete("a")
            await asyncio.sleep(1)
            assert [delta.object.raw for delta in deltas] == [b"{}", b"{}"]

    virtual(story())


def test_an_object_that_cannot_be_transformed_is_kept_as_it_is(virtual: Run) -> None:
    def picky(object_: Object) -> Object:
        if object_.meta.name == "bad":
            raise KeyError("bad")
        return msgspec.structs.replace(object_, raw=b"{}")

    async def story() -> None:
        server = FakeServer()
        for name in ("bad", "good"):
            await server.put(name)
        async with running(server, picky) as cluster:
            informer = cluster.informer(WIDGETS)
            await informer.synced()
            bad, good = informer.get("ns", "bad"), informer.get("ns", "good")
            assert bad is not None
            assert good is not None
            assert (len(bad.raw) > 2, good.raw) == (True, b"{}")

    virtual(story())


def test_a_list_of_thousands_lets_others_run(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        for number in range(2500):
            await server.put(f"w{number}")
        async with running(server) as cluster:
            informer = cluster.informer(WIDGETS)
            turns = 0
            while not informer.has_synced:
                turns += 1
                await asyncio.sleep(0)
            assert len(informer.list()) == 2500
            assert turns >= 4

    virtual(story())


@pytest.mark.parametrize(
    ("again", "listed", "news"),
    [
        pytest.param([], "a1 b1 c1", ["ADDED c"], id="whole-at-once"),
        pytest.param([], "a1 b2 c1", ["MODIFIED b", "ADDED c"], id="with-a-change"),
        pytest.param([], "b1 c1", ["DELETED a", "ADDED c"], id="without-one"),
        pytest.param([], "", ["DELETED a", "DELETED b"], id="without-any"),
        pytest.param(["a1"], "a1 b1 c1", ["ADDED c"], id="pages-that-have-come-before"),
        pytest.param(["a2", "b1"], "a2 b1", ["MODIFIED a"], id="a-page-with-a-change"),
        pytest.param(
            ["c1"], "c1 d1", ["ADDED c", "DELETED a", "DELETED b", "ADDED d"], id="others"
        ),
        pytest.param(["c1"], "c1 a1 b1", ["ADDED c"], id="as-many-in-another-order"),
        pytest.param(["c1"], "c1 a1 b2 d1", ["ADDED c", "MODIFIED b", "ADDED d"], id="and-more"),
    ],
)
def test_a_first_list_that_broke_off_is_told_once(
    again: list[str], listed: str, news: list[str]
) -> None:
    """Its pages brought a and b; they come again, unless they are not there any more."""

    async def story() -> None:
        informer = SharedInformer(cast("Client", None), Scope(WIDGETS))
        told: list[str] = []
        informer.subscribe(lambda delta: told.append(f"{delta.type} {delta.object.meta.name}"))
        informer.arrived([widget("a", version=1), widget("b", version=1)])
        assert told == ["ADDED a", "ADDED b"]
        told.clear()
        made = {text: widget(text[0], version=int(text[1])) for text in [*again, *listed.split()]}
        for text in again:
            informer.arrived([made[text]])
        await informer.replace([made[text] for text in listed.split()])
        assert told == news
        assert sorted(informer.store, key=lambda one: one.key) == [
            made[text] for text in sorted(listed.split())
        ]

    asyncio.run(story())


def test_a_delta_without_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match="without an object"):
        _ = Delta("DELETED", None, None).object


def test_caches_of_one_server_have_room_together() -> None:
    """A list has a bound, and what a watch adds to it later counts as well."""
    size = cost(widget("a"))
    room = CacheRoom(Intake("fake", Bounds(objects=3 * size + size // 2)))
    first, second = (
        SharedInformer(cast("Any", None), Scope(WIDGETS, namespace), room=room)
        for namespace in ("one", "two")
    )
    first.put(widget("a"))
    first.put(widget("b"))
    second.put(widget("a", namespace="two"))
    first.put(widget("a", 2))
    with pytest.raises(AnswerTooLarge, match="objects"):
        second.put(widget("b", namespace="two"))
    assert len(second.store) == 1
    first.remove(widget("a", 3))
    second.put(widget("b", namespace="two"))
    second.leave()
    first.put(widget("c"))
    first.put(widget("d"))
    with pytest.raises(AnswerTooLarge):
        first.put(widget("e"))


def test_a_watch_that_adds_without_end_is_told(virtual: Run) -> None:
    async def story() -> None:
        server = FakeServer()
        # Their JSON differs by a few bytes, and not by as much as half an object.
        room = 10 * cost(widget("k0")) + cost(widget("k0")) // 2
        server.intake = Intake("fake", Bounds(objects=room))
        async with running(server) as cluster:
            lease = cluster.informer(WIDGETS)
            await lease.synced()
            for number in range(11):
                await server.put(f"k{number}")
            await asyncio.sleep(60.0)
            assert isinstance(lease.cause, AnswerTooLarge)
            assert lease.restarts["too-large"] > 1
            assert len(lease.list()) == 10
            await server.delete("k0")
            await asyncio.sleep(600.0)
            assert lease.error == ""
            assert len(lease.list()) == 10

    virtual(story())
