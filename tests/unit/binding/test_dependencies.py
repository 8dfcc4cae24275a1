"""Which bindings a change concerns, and which watches they need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, DEPLOYMENTS, SECRETS, Resource
from fairlead.api.selectors import LabelSelector
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.status import Status
from fairlead.binding import bounds
from fairlead.binding.cluster import dependencies as module
from fairlead.binding.cluster.dependencies import BindingDependencies
from fairlead.binding.reads import Get, ListAll, Lookup, Marked
from fairlead.binding.workloads.records import record_key
from fairlead.client import Forbidden
from fairlead.runtime import Cluster, Delta, Request


ONE, TWO = Request("c", "ns", "one"), Request("c", "ns", "two")
SECRET = Get(SECRETS, "ns", "s1")
WEB = Get(DEPLOYMENTS, "ns", "web", spec_only=True)


class FakeInformer:
    def __init__(self) -> None:
        self.has_synced = True
        self.error = ""
        self.cause: Exception | None = None
        self.closed = False
        self.handler: Callable[[Delta], None] = lambda delta: None
        self.listener: Callable[[], None] = lambda: None
        self.objects: dict[str, Object] = {}
        self.indexes: dict[str, Callable[[Object], list[str]]] = {}

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(name)

    def add_index(self, name: str, function: Callable[[Object], list[str]]) -> None:
        self.indexes[name] = function

    def by_index(self, name: str, value: str) -> list[Object]:
        return [item for item in self.objects.values() if value in self.indexes[name](item)]

    def subscribe(self, handler: Callable[[Delta], None]) -> None:
        self.handler = handler

    def listen(self, listener: Callable[[], None]) -> None:
        self.listener = listener

    async def close(self) -> None:
        self.closed = True

    def list(self, namespace: str = "") -> list[Object]:
        return [*self.objects.values()]


class FakeCluster:
    def __init__(self) -> None:
        self.informers: dict[tuple[Resource, str], FakeInformer] = {}
        self.next = FakeInformer

    def informer(self, resource: Resource, *, namespace: str, metadata_only: bool) -> FakeInformer:
        assert metadata_only
        made = self.informers[resource, namespace] = self.next()
        return made


class Bench:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.told: list[Request] = []
        self.watches = BindingDependencies(cast("Cluster", self.cluster), self.told.append)

    def tell(self, resource: Resource, delta: Delta, namespace: str = "ns") -> list[Request]:
        self.told.clear()
        self.cluster.informers[resource, namespace].handler(delta)
        return list(self.told)


def body(name: str, **meta: Any) -> JSON:
    metadata = {"name": name, "namespace": "ns", **meta}
    return {"apiVersion": "v1", "kind": "X", "metadata": metadata}


def added(name: str, *, initial: bool = False) -> Delta:
    return Delta("ADDED", None, object_from_dict(body(name)), initial)


def modified(before: JSON, after: JSON) -> Delta:
    return Delta("MODIFIED", object_from_dict(before), object_from_dict(after))


async def test_a_binding_is_told_of_what_it_read_and_of_nothing_else() -> None:
    bench = Bench()
    await bench.watches.join(ONE, SECRET)
    await bench.watches.join(TWO, ListAll(SECRETS, "ns"))
    assert bench.tell(SECRETS, added("s1")) == [ONE, TWO]
    assert bench.tell(SECRETS, added("s2")) == [TWO]
    gone = Delta("DELETED", object_from_dict(body("s1")), None)
    assert bench.tell(SECRETS, gone) == [ONE, TWO]
    assert len(bench.cluster.informers) == 1


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param({"generation": 1}, {"generation": 1}, False, id="status"),
        pytest.param({"generation": 1}, {"generation": 2}, True, id="spec"),
        pytest.param(
            {"generation": 1}, {"generation": 1, "labels": {"a": "b"}}, True, id="labels"
        ),
        pytest.param(
            {"generation": 1}, {"generation": 1, "annotations": {"a": "b"}}, True, id="annotations"
        ),
        pytest.param(
            {"generation": 1},
            {"generation": 1, "annotations": {"deployment.kubernetes.io/revision": "2"}},
            False,
            id="its controller counts revisions",
        ),
        pytest.param(
            {"generation": 1}, {"generation": 1, "deletionTimestamp": "x"}, True, id="deletion"
        ),
        pytest.param({}, {}, True, id="a kind without generations"),
    ],
)
async def test_the_status_of_a_workload_is_of_no_interest(
    before: JSON, after: JSON, told: bool
) -> None:
    bench = Bench()
    await bench.watches.join(ONE, WEB)
    delta = modified(body("web", **before), body("web", **after))
    assert bench.tell(DEPLOYMENTS, delta) == ([ONE] if told else [])


async def test_the_status_of_a_workload_counts_while_it_rolls_out() -> None:
    bench = Bench()
    later: list[Request] = []
    bench.watches = BindingDependencies(
        cast("Cluster", bench.cluster), bench.told.append, later.append
    )
    for request in (ONE, TWO):
        await bench.watches.join(request, WEB)
    read = object_from_dict(body("web", generation=1, resourceVersion="5"))
    bench.watches.follow(ONE, [(DEPLOYMENTS, read)])
    status = modified(body("web", generation=1), body("web", generation=1))
    spec = modified(body("web", generation=1), body("web", generation=2))
    assert bench.tell(DEPLOYMENTS, status) == []
    assert later == [ONE]
    # A changed spec has a pass at once, as ever.
    assert bench.tell(DEPLOYMENTS, spec) == [ONE, TWO]
    assert later == [ONE]
    elsewhere = modified(
        body("web", generation=1, namespace="x"), body("web", generation=1, namespace="x")
    )
    assert bench.tell(DEPLOYMENTS, elsewhere) == []
    assert later == [ONE]
    bench.watches.follow(ONE, [])
    bench.tell(DEPLOYMENTS, status)
    assert later == [ONE]


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        pytest.param("4", [], id="the watch lags behind the read"),
        pytest.param("5", [], id="as it was read"),
        pytest.param("6", [ONE], id="changed since it was read"),
    ],
)
async def test_a_status_that_changed_before_it_was_followed_counts(
    shown: str, told: list[Request]
) -> None:
    bench = Bench()
    await bench.watches.join(ONE, WEB)
    informer = bench.cluster.informers[DEPLOYMENTS, "ns"]
    informer.objects["web"] = object_from_dict(body("web", resourceVersion=shown))
    read = object_from_dict(body("web", resourceVersion="5"))
    bench.watches.follow(ONE, [(DEPLOYMENTS, read)])
    assert bench.told == told


async def test_what_a_binding_no_longer_reads_is_not_followed() -> None:
    bench = Bench()
    for request in (ONE, TWO):
        await bench.watches.join(request, WEB)
    bench.watches.follow(ONE, [(DEPLOYMENTS, object_from_dict(body("web")))])
    await bench.watches.keep_only(ONE, ())
    status = modified(body("web", generation=1), body("web", generation=1))
    assert bench.tell(DEPLOYMENTS, status) == []


async def test_the_status_of_a_service_is_what_is_waited_for() -> None:
    bench = Bench()
    await bench.watches.join(ONE, Get(DEPLOYMENTS, "ns", "web"))
    delta = modified(body("web", generation=1), body("web", generation=1))
    assert bench.tell(DEPLOYMENTS, delta) == [ONE]


@pytest.mark.parametrize(
    "term",
    [
        pytest.param({"key": "app", "operator": "Exists"}, id="any value"),
        pytest.param({"key": "app", "operator": "In", "values": ["x", "y"]}, id="several values"),
    ],
)
async def test_a_change_is_not_compared_with_selectors_of_labels_that_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch, term: JSON
) -> None:
    compared: list[object] = []
    concerns = module._concerns

    def counted(read: Any, *rest: Any, **more: Any) -> bool:
        compared.append(read)
        return concerns(read, *rest, **more)

    monkeypatch.setattr(module, "_concerns", counted)
    bench = Bench()
    read = ListAll(SECRETS, "ns", labels=LabelSelector.from_dict({"matchExpressions": [term]}))
    await bench.watches.join(ONE, read)
    assert bench.tell(SECRETS, modified(body("s"), body("s", labels={"other": "x"}))) == []
    assert not compared
    assert bench.tell(SECRETS, modified(body("s"), body("s", labels={"app": "x"}))) == [ONE]
    assert bench.tell(SECRETS, modified(body("s", labels={"app": "x"}), body("s"))) == [ONE]
    await bench.watches.keep_only(ONE, ())
    assert bench.cluster.informers[SECRETS, "ns"].closed


async def test_what_was_there_before_the_answer_is_no_news() -> None:
    bench = Bench()
    assert await bench.watches.join(ONE, SECRET)
    assert bench.tell(SECRETS, added("s1", initial=True)) == []


async def test_a_watch_that_is_refused_tells_when_it_is_granted() -> None:
    bench = Bench()

    class Refused(FakeInformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_synced, self.error = False, "forbidden"

    bench.cluster.next = Refused
    assert not await bench.watches.join(ONE, SECRET)
    assert bench.tell(SECRETS, added("s1", initial=True)) == [ONE]


async def test_a_watch_that_does_not_come_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "SYNC_SECONDS", 0.0)
    bench = Bench()

    class Slow(FakeInformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_synced = False

    bench.cluster.next = Slow
    assert not await bench.watches.join(ONE, SECRET)


async def test_what_a_pass_reads_is_watched_together_and_before_the_first_list() -> None:
    bench = Bench()

    class Late(FakeInformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_synced = False

    bench.cluster.next = Late
    mapping = Get(CLUSTERWORKLOADRESOURCEMAPPINGS, "", "deployments.apps", spec_only=True)
    kind = Lookup("apps", "v1", kind="Deployment")
    waiting = asyncio.create_task(bench.watches.watch(ONE, [kind, SECRET, mapping, WEB]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    # Both are there before either has its list; mappings and kinds have watches of their own.
    assert set(bench.cluster.informers) == {(SECRETS, "ns"), (DEPLOYMENTS, "ns")}
    assert bench.watches.unwatched_readers(lambda read: read in {kind, mapping}) == [ONE]
    bench.cluster.informers[SECRETS, "ns"].error = "forbidden"
    bench.cluster.informers[DEPLOYMENTS, "ns"].has_synced = True
    assert await waiting == {SECRET}
    assert await bench.watches.watch(ONE, [WEB]) == set()


async def test_watches_are_left_when_nobody_needs_them() -> None:
    bench = Bench()
    for request in (ONE, TWO):
        await bench.watches.join(request, SECRET)
    await bench.watches.join(ONE, WEB)
    await bench.watches.keep_only(ONE, [WEB])
    await bench.watches.keep_only(TWO, [SECRET])
    assert bench.tell(SECRETS, added("s1")) == [TWO]
    await bench.watches.keep_only(TWO, [])
    closed = {place[0]: informer.closed for place, informer in bench.cluster.informers.items()}
    assert closed == {SECRETS: True, DEPLOYMENTS: False}
    await bench.watches.close()
    assert bench.cluster.informers[DEPLOYMENTS, "ns"].closed


async def test_reads_that_are_announced_elsewhere_are_remembered() -> None:
    bench = Bench()
    lookup, other = Lookup("x.io", "v1", kind="Database"), Lookup("", "v1", kind="Secret")
    for read in (lookup, other):
        bench.watches.add_unwatched(ONE, read)
    assert not bench.cluster.informers
    await bench.watches.keep_only(ONE, [lookup])
    assert bench.watches.unwatched_readers(lambda read: read == lookup) == [ONE]
    assert bench.watches.unwatched_readers(lambda read: read == other) == []
    await bench.watches.keep_only(ONE, [])
    assert bench.watches.unwatched_readers(lambda _: True) == []


async def test_cluster_scoped_objects_are_watched_without_a_namespace() -> None:
    bench = Bench()
    read = Get(CUSTOMRESOURCEDEFINITIONS, "ns", "databases.x.io")
    await bench.watches.join(ONE, read)
    assert list(bench.cluster.informers) == [(CUSTOMRESOURCEDEFINITIONS, "")]


MARK = record_key("uid-one")
MARKED = Marked(DEPLOYMENTS, "ns", MARK)
OWNED = Marked(SECRETS, "ns", owner="uid-one")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param({}, {"annotations": {MARK: "x"}}, True, id="gets a record"),
        pytest.param({"annotations": {MARK: "x"}}, {}, True, id="loses its record"),
        pytest.param(
            {"annotations": {MARK: "x"}},
            {"annotations": {MARK: "x"}, "labels": {"a": "b"}},
            True,
            id="relabelled with a record",
        ),
        pytest.param({}, {"labels": {"a": "b"}}, False, id="without a record"),
        pytest.param(
            {}, {"annotations": {record_key("uid-two"): "x"}}, False, id="record of another"
        ),
        pytest.param(
            {"generation": 1, "annotations": {MARK: "x"}},
            {"generation": 1, "annotations": {MARK: "x"}},
            False,
            id="status",
        ),
    ],
)
async def test_what_has_a_record_is_of_interest(before: JSON, after: JSON, told: bool) -> None:
    bench = Bench()
    await bench.watches.join(ONE, MARKED)
    delta = modified(body("web", **before), body("web", **after))
    assert bench.tell(DEPLOYMENTS, delta) == ([ONE] if told else [])


OWNER = {"apiVersion": "v1", "kind": "ServiceBinding", "name": "one", "uid": "uid-one"}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param({"annotations": {MARK: "x"}}, None, True, id="a revision goes"),
        pytest.param({"annotations": {MARK: "x"}}, {}, True, id="a record goes"),
        pytest.param({"annotations": {MARK: "x"}}, {"annotations": {MARK: "y"}}, True, id="new"),
        pytest.param(None, {"annotations": {MARK: "x"}}, False, id="a revision comes"),
        pytest.param(
            {"generation": 1, "annotations": {MARK: "x"}},
            {"generation": 2, "annotations": {MARK: "x", "desired": "2"}},
            False,
            id="a revision is scaled",
        ),
        pytest.param({"ownerReferences": [OWNER]}, None, False, id="a Secret has gone"),
        pytest.param(None, {"ownerReferences": [OWNER]}, True, id="a Secret comes back"),
        pytest.param({}, {"ownerReferences": [OWNER]}, True, id="a Secret is given"),
    ],
)
async def test_what_keeps_a_former_secret_is_news_when_it_lets_go(
    before: JSON | None, after: JSON | None, told: bool
) -> None:
    """Not while Deployments' controller rolls out, nor for what the binding has deleted."""
    bench = Bench()
    read = OWNED if "owner" in f"{before}{after}" else MARKED
    await bench.watches.join(ONE, msgspec.structs.replace(read, optional=True))
    old, new = (
        one if one is None else object_from_dict(body("x", **one)) for one in (before, after)
    )
    type_: Any = "DELETED" if new is None else "ADDED" if old is None else "MODIFIED"
    assert bench.tell(read.resource, Delta(type_, old, new)) == ([ONE] if told else [])


async def test_what_has_a_record_or_an_owner_is_known_without_a_request() -> None:
    bench = Bench()
    owner = {"apiVersion": "v1", "kind": "ServiceBinding", "name": "one", "uid": "uid-one"}
    for read, more in (
        (MARKED, {"annotations": {MARK: "x"}}),
        (OWNED, {"ownerReferences": [owner]}),
    ):
        await bench.watches.join(ONE, read)
        informer = bench.cluster.informers[read.resource, "ns"]
        informer.objects = {
            name: object_from_dict(body(name, **(more if name == "its" else {})))
            for name in ("its", "other")
        }
        found, written = bench.watches.marked(ONE, read)
        assert [item.meta.name for item in found] == ["its"]
        assert written == []


@pytest.mark.parametrize(
    ("seen", "behind"),
    [
        pytest.param(None, True, id="not seen at all"),
        pytest.param("6", True, id="seen as it was before"),
        pytest.param("7", True, id="seen as it was read"),
        pytest.param("8", False, id="seen as it was written"),
        pytest.param("10", False, id="seen later still"),
        pytest.param("text", False, id="versions that are no numbers"),
    ],
)
async def test_what_was_written_a_moment_ago_is_looked_at_besides(
    seen: str | None, behind: bool
) -> None:
    bench = Bench()
    await bench.watches.join(ONE, MARKED)
    bench.watches.expect_newer(ONE, (DEPLOYMENTS, "ns", "web"), "7")
    informer = bench.cluster.informers[DEPLOYMENTS, "ns"]
    if seen:
        informer.objects["web"] = object_from_dict(body("web", resourceVersion=seen))
    assert bench.watches.marked(ONE, MARKED)[1] == (["web"] if behind else [])
    assert bench.watches.marked(TWO, MARKED)[1] == []
    await bench.watches.keep_only(ONE, [])


def at(version: str) -> Delta:
    before = {"namespace": "ns", "resourceVersion": "1", "generation": 1}
    after = {**before, "resourceVersion": version, "generation": 2}
    return modified(body("web", **before), body("web", **after))


GONE = Delta("DELETED", object_from_dict(body("web", resourceVersion="9")), None)


@pytest.mark.parametrize(
    ("during", "stored", "after", "told"),
    [
        pytest.param([], "8", [at("8")], 0, id="what it wrote comes back"),
        pytest.param([at("8")], "8", [], 0, id="and before the answer"),
        pytest.param([at("8")], "8", [at("9")], 1, id="then another writes"),
        pytest.param([at("7"), at("8")], "8", [], 1, id="another wrote before"),
        pytest.param([at("8"), at("9")], "8", [], 1, id="another wrote meanwhile"),
        pytest.param([at("8")], "", [], 1, id="it was stored otherwise than wanted"),
        pytest.param([], "", [at("8")], 1, id="so it was, and comes after the answer"),
        pytest.param([GONE], "8", [], 1, id="it goes meanwhile"),
    ],
)
async def test_what_a_binding_wrote_itself_is_no_news_to_it(
    during: list[Delta], stored: str, after: list[Delta], told: int
) -> None:
    bench = Bench()
    for request in (ONE, TWO):
        await bench.watches.join(request, WEB)
    handler = bench.cluster.informers[DEPLOYMENTS, "ns"].handler
    bench.watches.writing(ONE, DEPLOYMENTS, "ns", "web")
    for delta in during:
        handler(delta)
    bench.watches.stored(ONE, (DEPLOYMENTS, "ns", "web"), stored)
    for delta in after:
        handler(delta)
    assert bench.told.count(ONE) == told
    # To another binding of the same workload it is.
    assert bench.told.count(TWO) == len(during) + len(after)


@pytest.mark.parametrize(
    ("version", "there", "told"),
    [
        pytest.param("7", False, [ONE], id="read, and gone"),
        pytest.param("7", True, [], id="read, and there"),
        pytest.param("", False, [], id="was not there when it was read"),
    ],
)
async def test_what_was_read_and_went_while_nothing_was_watched_is_news(
    version: str, there: bool, told: list[Request]
) -> None:
    bench = Bench()
    await bench.watches.join(ONE, SECRET)
    await bench.watches.join(TWO, Get(SECRETS, "ns", "s2"))
    bench.watches.asking(ONE, SECRET)
    bench.watches.answered(ONE, SECRET, version)
    informer = bench.cluster.informers[SECRETS, "ns"]
    if there:
        informer.objects["s1"] = object_from_dict(body("s1"))
    informer.listener()
    assert bench.told == told


async def test_what_was_written_and_went_while_nothing_was_watched_is_news_once() -> None:
    bench = Bench()
    await bench.watches.join(ONE, SECRET)
    bench.watches.writing(ONE, SECRETS, "ns", "s1")
    bench.watches.stored(ONE, (SECRETS, "ns", "s1"), "7")
    bench.cluster.informers[SECRETS, "ns"].listener()
    bench.cluster.informers[SECRETS, "ns"].listener()
    assert bench.told == [ONE]


async def test_the_first_list_is_no_news_to_who_waits_for_it() -> None:
    bench = Bench()

    class Late(FakeInformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_synced = False

    bench.cluster.next = Late
    waiting = asyncio.create_task(bench.watches.join(ONE, SECRET))
    await asyncio.sleep(0)
    assert bench.tell(SECRETS, added("s1", initial=True)) == []
    bench.cluster.informers[SECRETS, "ns"].has_synced = True
    assert await waiting


def _places(count: int) -> list[tuple[Request, Get]]:
    return [
        (Request("c", f"ns-{number}", "one"), Get(SECRETS, f"ns-{number}", "s1"))
        for number in range(count)
    ]


async def test_many_namespaces_share_one_watch() -> None:
    bench = Bench()
    places = _places(3 * bounds.NAMESPACES)
    for request, read in places:
        await bench.watches.join(request, read)
    assert len(bench.cluster.informers) == bounds.NAMESPACES + 1
    for namespace in ("ns-1", f"ns-{bounds.NAMESPACES}", "ns-40"):
        of = namespace if namespace == "ns-1" else ""
        changed = modified(body("s1", namespace=namespace), body("s1", namespace=namespace))
        assert bench.tell(SECRETS, changed, of) == [Request("c", namespace, "one")]
    for number, (request, _) in enumerate(places):
        await bench.watches.keep_only(request, [])
        wide = bench.cluster.informers[SECRETS, ""]
        assert wide.closed == (number == len(places) - 1)
    assert all(informer.closed for informer in bench.cluster.informers.values())


async def test_what_is_watched_for_all_namespaces_is_answered_for_one() -> None:
    bench = Bench()
    for request, read in _places(bounds.NAMESPACES):
        await bench.watches.join(request, read)
    owned = Marked(SECRETS, "ns", owner="uid-one")
    labelled = ListAll(SECRETS, "ns", labels=LabelSelector.parse("app=x"))
    await bench.watches.join(ONE, owned)
    await bench.watches.join(ONE, labelled)
    owner = {"apiVersion": "v1", "kind": "ServiceBinding", "name": "one", "uid": "uid-one"}
    informer = bench.cluster.informers[SECRETS, ""]
    informer.objects = {
        namespace: object_from_dict(
            body("s1", namespace=namespace, labels={"app": "x"}, ownerReferences=[owner])
        )
        for namespace in ("ns", "other")
    }
    found, _ = bench.watches.marked(ONE, owned)
    assert [item.meta.namespace for item in found] == ["ns"]
    assert [item.meta.namespace for item in bench.watches.selected(labelled)] == ["ns"]


async def test_who_must_not_watch_all_namespaces_watches_each() -> None:
    bench = Bench()
    places = _places(bounds.NAMESPACES + 2)
    for request, read in places[: bounds.NAMESPACES]:
        await bench.watches.join(request, read)

    class Refused(FakeInformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_synced, self.error = False, "forbidden"
            self.cause = Forbidden(Status("Failure", "no", "Forbidden", 403))
            bench.cluster.next = FakeInformer

    bench.cluster.next = Refused
    for request, read in places[bounds.NAMESPACES :]:
        assert await bench.watches.join(request, read)
    assert len(bench.cluster.informers) == len(places) + 1
    for request, read in places:
        await bench.watches.keep_only(request, [read])
        now = body("s1", namespace=request.namespace)
        assert bench.tell(SECRETS, modified(now, now), request.namespace) == [request]
    assert bench.cluster.informers[SECRETS, ""].closed


async def test_a_watch_of_all_namespaces_that_comes_back_in_between_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One binding finds it refused, and the next one, a moment later, finds it synced."""
    bench = Bench()
    places = _places(bounds.NAMESPACES + 2)
    for request, read in places[: bounds.NAMESPACES]:
        await bench.watches.join(request, read)
    synced = module._synced

    def wide() -> Any:
        return bench.cluster.informers.get((SECRETS, ""))

    async def flickering(informer: Any) -> bool:
        if informer is not wide():
            return await synced(informer)
        await asyncio.sleep(0)
        informer.cause = Forbidden(Status("Failure", "no", "Forbidden", 403))
        first = informer.has_synced is False
        informer.has_synced = True
        return not first

    monkeypatch.setattr(module, "_synced", flickering)

    class Late(FakeInformer):
        def __init__(self) -> None:
            super().__init__()
            self.has_synced = False
            bench.cluster.next = FakeInformer

    bench.cluster.next = Late
    late = places[bounds.NAMESPACES :]
    assert all(await asyncio.gather(*(bench.watches.join(*place) for place in late)))
    for request, read in late:
        await bench.watches.keep_only(request, [read])
        now = body("s1", namespace=request.namespace)
        assert (SECRETS, request.namespace) in bench.cluster.informers
        assert bench.tell(SECRETS, modified(now, now), request.namespace) == [request]
    assert bench.cluster.informers[SECRETS, ""].closed
