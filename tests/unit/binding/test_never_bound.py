"""What never bound anything goes when it is deleted, whatever cannot be read by then."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    edited,
    message,
    pod,
    secret,
    spec_binding,
)
from tests.unit.binding.test_controller import Bench

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.status import Status
from fairlead.binding.reads import FailureCode, Get, ListAll, Lookup, Marked, Read, ReadFailure
from fairlead.binding.workloads.records import KINDS_ANNOTATION, kinds_text, read_kinds
from fairlead.client import Forbidden


ROLES = "rbac.authorization.k8s.io"
HIDDEN = {"pods", "roles", "nodes", "configmaps"}
LABELS = {"matchLabels": {"a": "b"}}
LONG = {"matchLabels": {f"a{number}": "b" for number in range(101)}}
WRONG = {"matchExpressions": [{"key": "a b", "operator": "Foo"}]}


def hidden(read: Read) -> ReadFailure | None:
    """The controllers may do nothing with these kinds, as by default."""
    if isinstance(read, Get | ListAll | Marked) and read.resource.plural in HIDDEN:
        return ReadFailure("Forbidden", f"may not read {read.resource.plural}")
    return None


def world() -> FakeCluster:
    kinds = {
        **KINDS,
        "v1/Pod": "pods",
        "v1/Node": "nodes",
        f"{ROLES}/v1/Role": "roles",
    }
    made = FakeCluster(kinds, [secret(), deployment(labels={"a": "b"})])
    made.refuse = hidden
    return made


def binding(api: str, group: str, kind: str, **selected: Any) -> JSON:
    if api == "spec":
        version = f"{group}/v1".removeprefix("/")
        workload: JSON = {"apiVersion": version, "kind": kind, **selected}
        return spec_binding(service=SECRET_SERVICE, workload=workload)
    if "selector" in selected:
        selected["labelSelector"] = selected.pop("selector")
    services = [{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}]
    made = coreos_binding(services=services)
    made["spec"]["application"] = {"group": group, "version": "v1", "kind": kind, **selected}
    return made


NEVER = [
    pytest.param(("", "Pod"), {"selector": LABELS}, id="a kind that may not be listed"),
    pytest.param(("", "Pod"), {"name": "x"}, id="a kind that may not be read"),
    pytest.param((ROLES, "Role"), {"selector": {}}, id="a kind that is no workload"),
    pytest.param((ROLES, "Role"), {"name": "x"}, id="a kind that is no workload, by name"),
    pytest.param(("", "Node"), {"selector": {}}, id="a kind that nobody has mapped"),
    pytest.param(("", "ConfigMap"), {"name": "x"}, id="a kind that nobody has mapped, by name"),
    pytest.param(("nope.example", "Nope"), {"selector": {}}, id="a kind that is not served"),
    pytest.param(("apps", "Deployment"), {"selector": WRONG}, id="a selector that is wrong"),
    pytest.param(("apps", "Deployment"), {"selector": LONG}, id="a selector that is too long"),
]


@pytest.mark.parametrize("noted", [False, True], ids=["", "noted by hand"])
@pytest.mark.parametrize("api", ["spec", "coreos"])
@pytest.mark.parametrize(("kind", "selected"), NEVER)
def test_a_binding_that_never_bound_anything_goes(
    kind: tuple[str, str], selected: JSON, api: str, noted: bool
) -> None:
    cluster, body = world(), binding(api, *kind, **selected)
    neighbour = spec_binding(service=SECRET_SERVICE)
    neighbour["metadata"] |= {"name": "other", "uid": "uid-other"}
    if noted and kind[1] != "Pod":
        note = kinds_text([Lookup(kind[0], "v1", kind=kind[1])])
        body["metadata"]["annotations"] = {KINDS_ANNOTATION: note}
    cluster.reconcile(neighbour)
    for _ in range(2):
        cluster.reconcile(body)
        assert conditions(body)["Ready"][0] == "False"
    deleted(body)
    assert not cluster.reconcile(body).flow.error
    volumes = pod(cluster.get("deployments", "web"))["volumes"]
    assert [one["name"] for one in volumes] == ["other"]


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_what_was_bound_before_it_named_what_cannot_be_read_is_unbound(api: str) -> None:
    cluster, body = world(), binding(api, "apps", "Deployment", name="web")
    cluster.reconcile(body)
    assert pod(cluster.get("deployments", "web"))["volumes"]
    part = "workload" if api == "spec" else "application"
    edited(body, **{part: binding(api, "", "Pod", selector=LABELS)["spec"][part]})
    cluster.reconcile(body)
    assert conditions(body)["Ready"][0] == "False"
    assert not pod(cluster.get("deployments", "web"))["volumes"]
    deleted(body)
    assert not cluster.reconcile(body).flow.error


@pytest.mark.parametrize("selected", [{"name": "web"}, {"selector": LABELS}], ids=str)
@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_what_was_bound_is_waited_for(selected: JSON, api: str) -> None:
    cluster, body = world(), binding(api, "apps", "Deployment", **selected)
    cluster.reconcile(body)
    assert conditions(body)["Ready"][0] == "True"
    deleted(body)
    cluster.refuse = lambda read: (
        ReadFailure("Forbidden", "may not") if isinstance(read, Get | ListAll | Marked) else None
    )
    assert cluster.reconcile(body).flow.error == "cannot unbind: may not"
    cluster.refuse = hidden
    assert not cluster.reconcile(body).flow.error
    assert not pod(cluster.get("deployments", "web"))["volumes"]


@pytest.mark.parametrize("code", ["Forbidden", "Error"])
@pytest.mark.parametrize("before", [{"name": "web"}, {"selector": LABELS}], ids=str)
@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_what_was_bound_before_it_named_another_workload_is_waited_for(
    before: JSON, code: FailureCode, api: str
) -> None:
    cluster, body = world(), binding(api, "apps", "Deployment", **before)
    cluster.reconcile(body)
    part = "workload" if api == "spec" else "application"
    edited(body, **{part: binding(api, "apps", "Deployment", name="other")["spec"][part]})
    deleted(body)
    cluster.refuse = lambda read: (
        ReadFailure(code, "no list") if isinstance(read, ListAll | Marked) else None
    )
    assert cluster.reconcile(body).flow.error == "cannot unbind: no list"
    cluster.refuse = hidden
    assert not cluster.reconcile(body).flow.error
    assert not pod(cluster.get("deployments", "web"))["volumes"]


@pytest.mark.parametrize("selected", [{"name": "web"}, {"selector": LABELS}], ids=str)
@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_what_was_bound_before_its_status_could_be_written_is_waited_for(
    selected: JSON, api: str
) -> None:
    cluster, body = world(), binding(api, "apps", "Deployment", **selected)
    cluster.reconcile(body)
    del body["status"]
    deleted(body)
    cluster.failing["list", "deployments"] = "no list"
    assert cluster.reconcile(body).flow.error == "cannot unbind: no list"
    cluster.failing.clear()
    assert not cluster.reconcile(body).flow.error
    assert not pod(cluster.get("deployments", "web"))["volumes"]


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_the_one_workload_that_was_ever_named_is_unbound_without_the_right_to_list(
    api: str,
) -> None:
    cluster, body = world(), binding(api, "apps", "Deployment", name="web")
    cluster.refuse = lambda read: (
        ReadFailure("Forbidden", "no list") if isinstance(read, ListAll | Marked) else None
    )
    cluster.reconcile(body)
    assert pod(cluster.get("deployments", "web"))["volumes"]
    deleted(body)
    assert not cluster.reconcile(body).flow.error
    assert not pod(cluster.get("deployments", "web"))["volumes"]


FORBIDDEN = Forbidden(Status("Failure", 'User "sa" cannot list x', "Forbidden", 403))
PODS = Resource("", "v1", "pods", "Pod")


def _without_pods(bench: Bench) -> None:
    bench.client.discovery.resources.append(PODS)
    bench.client.fail["list", "pods"] = FORBIDDEN
    watch = bench.cluster.informer(PODS)
    watch.has_synced, watch.error = False, "no"


@pytest.mark.parametrize("service", [True, False], ids=["Ready", "without a service"])
async def test_a_note_that_was_there_before_the_binding_was_seen_is_nobodys(service: bool) -> None:
    body = spec_binding(
        service=SECRET_SERVICE,
        annotations={KINDS_ANNOTATION: kinds_text([Lookup("", "v1", kind="Pod")])},
    )
    bench = Bench(body, deployment(), *([secret()] if service else []))
    _without_pods(bench)
    await bench.reconcile()
    ready = ("True", "ApplicationsBound") if service else ("False", "ProcessingError")
    assert conditions(bench.binding)["Ready"] == ready
    noted = [Lookup("apps", "v1", kind="Deployment")] if service else []
    assert read_kinds(bench.binding["metadata"]["annotations"]) == noted
    deleted(bench.binding)
    await bench.reconcile()
    assert not bench.binding["metadata"].get("finalizers")


async def test_a_kind_is_noted_in_one_write_once_its_workloads_can_be_looked_for() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE, workload={"name": "new"}), secret())
    bench.client.fail["get", "deployments"] = FORBIDDEN
    await bench.reconcile()
    assert read_kinds(bench.binding["metadata"]["annotations"]) == []
    assert bench.binding["status"]["binding"]["name"] == "s1"
    assert "cannot list x; grant" in message(bench.binding, "InjectionReady")
    del bench.client.fail["get", "deployments"]
    # None is there, which can be told.
    await bench.reconcile()
    noted = [Lookup("apps", "v1", kind="Deployment")]
    assert read_kinds(bench.binding["metadata"]["annotations"]) == noted
    assert bench.client.writes.count(("patch", "ServiceBinding")) == 2
