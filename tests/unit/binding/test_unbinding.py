"""Unbinding, whatever goes before it, in every order: nothing is let go with its projection on."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    coreos_binding,
    database,
    deleted,
    deployment,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.reads import Get, ListAll, Marked, Read, ReadFailure


KIND = {"apiVersion": "x.io/v1", "kind": "AppConfig"}
MAPPING: JSON = {
    "apiVersion": "servicebinding.io/v1",
    "kind": "ClusterWorkloadResourceMapping",
    "metadata": {"name": "appconfigs.x.io"},
    "spec": {"versions": [{"version": "*", "volumes": ".spec.volumes"}]},
}
BROKEN: JSON = {**MAPPING, "spec": {"versions": [{"version": "*", "volumes": ".a["}]}}
LABELS = {"tier": "web"}
_GONE: dict[str, Callable[[FakeCluster, JSON], None]] = {
    "service": lambda cluster, _: cluster.delete(database()),
    "secret": lambda cluster, _: cluster.delete(secret()),
    "own secret": lambda cluster, _: _drop_own_secret(cluster),
    "workload": lambda cluster, _: _drop_workload(cluster),
    "labels": lambda cluster, _: _relabel(cluster),
    "mapping": lambda cluster, _: cluster.delete(MAPPING),
    "mapping breaks": lambda cluster, _: cluster.set(BROKEN),
    "kind": lambda cluster, _: _drop_kind(cluster),
    "right to read": lambda cluster, _: setattr(cluster, "refuse", _refusing),
    "right to write": lambda cluster, _: cluster.failing.update({("update", "appconfigs"): "no"}),
    "binding": lambda _, binding: deleted(binding),
}


def workload() -> JSON:
    return {**deployment(labels=LABELS), **KIND}


def _drop_own_secret(cluster: FakeCluster) -> None:
    for key in [key for key in cluster.objects if key[0] == "secrets" and key[2] != "s1"]:
        del cluster.objects[key]


def _drop_workload(cluster: FakeCluster) -> None:
    cluster.objects.pop(("appconfigs", "ns", "web"), None)


def _relabel(cluster: FakeCluster) -> None:
    for body in cluster.of("appconfigs"):
        body["metadata"]["labels"] = {}


def _drop_kind(cluster: FakeCluster) -> None:
    """With its CRD go its objects."""
    _drop_workload(cluster)
    cluster.resources = [one for one in cluster.resources if one.plural != "appconfigs"]


def _refusing(read: Read) -> ReadFailure | None:
    if isinstance(read, Get | ListAll | Marked) and read.resource.plural == "appconfigs":
        return ReadFailure("Forbidden", "may not")
    return None


def _binding(api: str, way: str) -> JSON:
    if api == "spec":
        selected: JSON = (
            {"name": "web"} if way == "name" else {"selector": {"matchLabels": LABELS}}
        )
        return spec_binding(type="t", workload={**KIND, **selected})
    named: JSON = {"name": "web"} if way == "name" else {"labelSelector": {"matchLabels": LABELS}}
    application = {"group": "x.io", "version": "v1", "kind": "AppConfig", **named}
    return {**(made := coreos_binding()), "spec": {**made["spec"], "application": application}}


@settings(max_examples=400)
@given(
    st.sampled_from(["spec", "coreos"]),
    st.sampled_from(["name", "selector"]),
    st.permutations(sorted(_GONE)).flatmap(
        lambda order: st.integers(0, len(order)).map(lambda much: [*order[:much], "binding"])
    ),
)
def test_a_binding_goes_when_its_projection_or_its_workload_has(
    api: str, way: str, order: list[str]
) -> None:
    cluster = FakeCluster(objects=[database(), secret(), workload(), MAPPING])
    binding = _binding(api, way)
    cluster.reconcile(binding)
    assert _projected(cluster)
    for event in order:
        _GONE[event](cluster, binding)
        if _pass(cluster, binding):
            assert not _projected(cluster), event
            return
    # What was in the way comes back.
    cluster.refuse = lambda read: None
    cluster.failing.clear()
    assert _pass(cluster, binding)
    assert not _projected(cluster)


def _pass(cluster: FakeCluster, binding: JSON) -> bool:
    """Whether the binding is let go."""
    made = cluster.reconcile(binding)
    return bool(made.meta.deleting) and not made.flow.error


def _projected(cluster: FakeCluster) -> bool:
    return any(
        key.startswith("projection.servicebinding.io/")
        for body in cluster.of("appconfigs")
        for key in body["metadata"].get("annotations") or {}
    ) or any(body["spec"].get("volumes") for body in cluster.of("appconfigs"))
