"""What a scrape tells of a provider's consumers, and of how many at most."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.api.status import Status
from fairlead.api.timestamps import format_time, moment
from fairlead.client import Client, Forbidden
from fairlead.client.wire import Page
from fairlead.provider import bounds
from fairlead.provider.metrics import ConsumerMetrics
from fairlead.runtime import Cluster


def before(**ago: float) -> str:
    return format_time(moment() - timedelta(**ago))


def consumer(name: str, **since: float) -> Object:
    annotations = {"backend.kube-bind.io/identity": name}
    metadata = {"name": f"kube-bind-{name}", "annotations": annotations}
    return object_from_dict({"metadata": metadata | {"creationTimestamp": before(**since)}})


def kube(kind: str, owner: str, name: str, status: JSON, **metadata: Any) -> Object:
    body: JSON = {"apiVersion": "kube-bind.io/v1alpha2", "kind": kind, "status": status}
    spec: JSON = {"kubeconfigSecretRef": {"name": "k", "key": "k"}, "providerPrettyName": "us"}
    named = {"name": name, "namespace": f"kube-bind-{owner}", **metadata}
    return object_from_dict(body | {"metadata": named, "spec": spec})


def binding(owner: str, beat: str = "", version: str = "v0.2.0", **metadata: Any) -> Object:
    status: JSON = {"heartbeatInterval": "1m0s", "konnectorVersion": version}
    if beat:
        status["lastHeartbeatTime"] = beat
    made = {"creationTimestamp": before(days=3), **metadata}
    return kube("ClusterBinding", owner, "cluster", status, **made)


def request(owner: str, name: str, phase: str) -> Object:
    return kube("APIServiceExportRequest", owner, name, {"phase": phase})


class Kept:
    """What an informer keeps."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._objects = objects

    def list(self, namespace: str = "") -> list[Object]:
        return [one for one in self._objects if namespace in {"", one.meta.namespace}]

    def get(self, namespace: str, name: str) -> Object | None:
        found = [one for one in self.list(namespace) if one.meta.name == name]
        return found[0] if found else None


class Served:
    """A server that has widgets, two on a page, and lists no gauges."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        self._left = [
            object_from_dict({"metadata": {"name": f"w{number}", "namespace": namespace}})
            for number, namespace in enumerate(namespaces)
        ]
        self.discovery = self

    async def resource_by_plural(self, group: str, plural: str) -> Resource:
        return Resource(group, "v1", plural, plural)

    async def page(self, resource: Resource, **more: Any) -> Page:
        if resource.plural == "gauges":
            raise Forbidden(Status("Failure", "no", "Forbidden", 403))
        begun = int(more["continue_"] or 0)
        ends = begun + 2
        return Page(self._left[begun:ends], "1", str(ends) if ends < len(self._left) else "")


class World:
    """A cluster as far as metrics read it."""

    name = "provider"

    def __init__(self, *objects: Object, copies: Sequence[str] = ()) -> None:
        self._objects = objects
        self.client = cast("Client", Served(copies))

    def informer(self, resource: Resource) -> Kept:
        kind = "" if resource == NAMESPACES else resource.kind
        return Kept([one for one in self._objects if one.to_dict().get("kind", "") == kind])

    def metrics(self) -> ConsumerMetrics:
        return ConsumerMetrics(cast("Cluster", self))


def told(metrics: ConsumerMetrics, name: str) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == f"fairlead_provider_{name}"
    }


def test_a_consumer_is_told_of_by_its_identity() -> None:
    metrics = World(
        consumer("shop", days=3),
        binding("shop", before(seconds=30)),
        request("shop", "one", "Failed"),
        request("shop", "two", "Succeeded"),
        object_from_dict({"metadata": {"name": "kube-system"}}),
    ).metrics()
    assert told(metrics, "consumers") == {(): 1}
    assert told(metrics, "heartbeat_age_seconds")["shop",] == pytest.approx(30, abs=10)
    assert told(metrics, "heartbeat_overdue") == {("shop",): 0}
    assert told(metrics, "token_age_seconds")["shop",] == pytest.approx(3 * 86400, abs=10)
    assert told(metrics, "requests_refused") == {("shop",): 1}
    assert told(metrics, "konnector_info") == {("shop", "v0.2.0"): 1}


@pytest.mark.parametrize(
    ("ago", "overdue"),
    [
        pytest.param(timedelta(seconds=30), 0, id="in time"),
        pytest.param(timedelta(minutes=10), 1, id="two missed"),
        pytest.param(timedelta(minutes=-10), 1, id="in the future"),
        pytest.param(None, 0, id="never: it was invited and not bound yet"),
    ],
)
def test_a_konnector_is_overdue_by_its_own_interval(ago: timedelta | None, overdue: int) -> None:
    beat = "" if ago is None else format_time(moment() - ago)
    metrics = World(consumer("shop"), binding("shop", beat)).metrics()
    assert told(metrics, "heartbeat_overdue") == {("shop",): overdue}
    assert bool(told(metrics, "heartbeat_age_seconds")) == bool(beat)


def test_a_token_is_as_old_as_the_last_rotation_has_written_down() -> None:
    made = {"fairlead.dev/token-made": before(hours=1)}
    metrics = World(consumer("shop"), binding("shop", annotations=made)).metrics()
    assert told(metrics, "token_age_seconds")["shop",] == pytest.approx(3600, abs=10)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        pytest.param("v1.2.3+abc", "v1.2.3+abc", id="a version"),
        pytest.param("x" * 1000, "other", id="none"),
        pytest.param('1" 1\nup 1', "other", id="more than that"),
    ],
)
def test_what_konnectors_say_makes_no_label_but_a_version(said: str, version: str) -> None:
    metrics = World(consumer("shop"), binding("shop", version=said)).metrics()
    assert told(metrics, "konnector_info") == {("shop", version): 1}


def test_what_cannot_be_read_is_told_of_as_far_as_it_goes() -> None:
    odd = binding("shop", "the day before")
    spoilt = kube("ClusterBinding", "zoo", "cluster", {"lastHeartbeatTime": 1})
    metrics = World(consumer("shop"), odd, consumer("zoo"), spoilt).metrics()
    assert told(metrics, "heartbeat_age_seconds") == {}
    assert told(metrics, "heartbeat_overdue") == {("shop",): 1, ("zoo",): 0}


def test_consumers_beyond_the_first_share_one_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CONSUMERS", 1)
    metrics = World(
        *(consumer("young", days=1), binding("young", before(days=1), "v2")),
        *(consumer("old", days=9), binding("old", before(seconds=1))),
        *(consumer("last", hours=1), binding("last", before(hours=1), "v3")),
        request("young", "a", "Failed"),
        request("last", "b", "Failed"),
    ).metrics()
    assert told(metrics, "consumers") == {(): 3}
    assert told(metrics, "heartbeat_overdue") == {("old",): 0, ("other",): 2}
    assert told(metrics, "heartbeat_age_seconds")["other",] == pytest.approx(86400, abs=10)
    assert told(metrics, "requests_refused") == {("old",): 0, ("other",): 2}
    assert told(metrics, "konnector_info") == {("old", "v0.2.0"): 1, ("other", "other"): 2}


async def test_copies_are_counted_page_by_page_and_by_whose_namespace_they_are_in() -> None:
    resources = [
        {"group": "example.org", "resource": plural, "versions": ["v1"]}
        for plural in ("gauges", "widgets")
    ]
    export = kube("APIServiceExport", "shop", "all", {})
    body = export.to_dict()
    body["spec"] = {
        "resources": resources,
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
    }
    namespace = object_from_dict(
        {
            "metadata": {
                "name": "shop-a",
                "annotations": {"kube-bind.io/api-service-namespace": "kube-bind-shop/a"},
            }
        }
    )
    copies = ["shop-a", "shop-a", "kube-system", "shop-a", "kube-bind-zoo"]
    world = World(
        *(consumer("shop"), consumer("zoo"), consumer("new"), namespace),
        object_from_dict(body),
        copies=copies,
    )
    metrics = world.metrics()
    assert told(metrics, "objects") == {}
    await metrics.count()
    assert told(metrics, "objects") == {("shop",): 3, ("zoo",): 1, ("new",): 0}
    assert told(metrics, "uncounted_kinds") == {(): 1}
