"""Unbinding, whatever goes before it, in every order: nothing is let go with its projection on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    conditions,
    coreos_binding,
    database,
    deleted,
    deployment,
    pod,
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


DIRECT = {"apiVersion": "v1", "kind": "Secret", "name": "s1"}
VARIABLE = {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}


def _web(cluster: FakeCluster) -> JSON:
    found: JSON = pod(cluster.get("deployments", "web"))
    return found


def _app(cluster: FakeCluster) -> JSON:
    found: JSON = _web(cluster)["containers"][0]
    return found


def _rename_volume(cluster: FakeCluster) -> None:
    _web(cluster)["volumes"][0]["name"] = "mine"
    _app(cluster)["volumeMounts"][0]["name"] = "mine"


def _lose_all_but(cluster: FakeCluster, **container: Any) -> None:
    cluster.set(deployment(containers=[{"name": "app", **container}]))


LEFT: dict[str, tuple[Callable[[FakeCluster], object], str]] = {
    "nothing": (lambda cluster: None, ""),
    "filled-in defaults": (
        lambda cluster: _web(cluster)["volumes"][0]["secret"].update(optional=False),
        "",
    ),
    "a second user of the Secret": (lambda cluster: _app(cluster)["env"].append(VARIABLE), ""),
    "what a tool has dropped": (lambda cluster: _web(cluster).update(volumes=[]), ""),
    "another volume": (
        lambda cluster: _web(cluster).update(volumes=[{"name": "sb", "emptyDir": {}}]),
        "Deployment ns/web keeps volume sb, which another writer has changed",
    ),
    "another variable": (
        lambda cluster: _app(cluster).update(env=[{"name": "X", "value": "mine"}]),
        "keeps variable X of container app, which",
    ),
    "another mount": (
        lambda cluster: _app(cluster).update(
            volumeMounts=[{"name": "mine", "mountPath": "/bindings/sb"}]
        ),
        "keeps mount /bindings/sb of container app, which",
    ),
    "a renamed volume": (
        _rename_volume,
        "keeps mount /bindings/sb of container app, volume mine of Secret s1, which",
    ),
    "a prefix": (
        lambda cluster: _app(cluster)["envFrom"][0].update(prefix="DB_"),
        "keeps the variables of Secret s1 in container app, which",
    ),
    "no record, another variable": (
        lambda cluster: _lose_all_but(cluster, env=[VARIABLE]),
        "keeps variable Y of container app, and no record says",
    ),
    "no record, all variables": (
        lambda cluster: _lose_all_but(cluster, envFrom=[{"secretRef": {"name": "s1"}}]),
        "keeps the variables of Secret s1 in container app, and no record says",
    ),
    "no record, nothing": (_lose_all_but, ""),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_unbinding_leaves_is_told(what: str) -> None:
    change, text = LEFT[what]
    cluster = FakeCluster(objects=[secret(), deployment()])
    binding = spec_binding(service=DIRECT, env=[{"name": "X", "key": "password"}])
    binding["metadata"]["annotations"]["servicebinding.io/bind-as-env"] = "true"
    cluster.reconcile(binding)
    change(cluster)
    deleted(binding)
    made = cluster.reconcile(binding)
    assert not made.flow.error
    assert len(made.left) == bool(text)
    assert text in "".join(made.left)
    told = conditions(binding)["InjectionReady"]
    assert told == (("False", "ItemsLeft") if text else ("True", "ApplicationUpdated"))


def test_what_another_binding_has_in_the_place_is_no_leftover() -> None:
    """Its record says so."""
    cluster = FakeCluster(objects=[secret(), deployment()])
    binding, other = (
        spec_binding(service=DIRECT, name="sb", env=[{"name": "X", "key": "password"}])
        for _ in range(2)
    )
    other["metadata"] |= {"name": "other", "uid": "uid-other"}
    cluster.reconcile(binding)
    taken = cluster.get("deployments", "web")["metadata"]["annotations"]
    (record,) = [taken[key] for key in taken if key.startswith("projection.")]
    taken["projection.servicebinding.io/uid-other"] = record.replace("s1", "s2")
    _web(cluster)["volumes"][0]["secret"]["secretName"] = "s2"
    _app(cluster)["env"][0]["valueFrom"]["secretKeyRef"]["name"] = "s2"
    deleted(binding)
    assert cluster.reconcile(binding).left == []


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_a_copy_of_a_bound_workload_keeps_its_login_as_long_as_the_binding_is_there(
    api: str,
) -> None:
    cluster = FakeCluster(objects=[database(), secret(), workload(), MAPPING])
    binding = _binding(api, "name")
    cluster.reconcile(binding)
    primary = copy.deepcopy(cluster.get("appconfigs", "web"))
    primary["metadata"] |= {"name": "web-primary", "uid": "uid-primary"}
    cluster.set(primary)
    cluster.reconcile(binding)
    assert cluster.get("appconfigs", "web-primary") == primary
    # One that was selected itself keeps nothing.
    reference = binding["spec"].get("workload") or binding["spec"]["application"]
    reference["name"] = "other"
    binding["metadata"]["generation"] += 1
    cluster.reconcile(binding)
    assert not cluster.get("appconfigs", "web")["spec"].get("volumes")
    assert cluster.get("appconfigs", "web-primary") == primary
    deleted(binding)
    assert _pass(cluster, binding)
    assert not _projected(cluster)
