"""Jobs and Pods, which nobody can change once they are there."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import deployment, meta, secret, spec_binding

from fairlead.api.meta import JSON
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.workloads.records import record_key


ALL = {**KINDS, "batch/v1/Job": "jobs", "v1/Pod": "pods"}
SERVICE = {"apiVersion": "v1", "kind": "Secret", "name": "s1"}
RECORD = record_key("uid-sb")


def job(name: str = "web", **status: Any) -> JSON:
    body: JSON = {**deployment(name, labels={"app": "a"}), "apiVersion": "batch/v1"}
    return {**body, "kind": "Job", **({"status": status} if status else {})}


def bare_pod(name: str = "web", **status: Any) -> JSON:
    spec = {"containers": [{"name": "app"}], "initContainers": [{"name": "init"}]}
    body: JSON = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name), "spec": spec}
    return {**body, **({"status": status} if status else {})}


def binding(kind: str = "Job", **spec: Any) -> JSON:
    api_version = "v1" if kind == "Pod" else "batch/v1"
    named: JSON = {"name": "web"} if "selector" not in spec else {"selector": spec.pop("selector")}
    workload = {"apiVersion": api_version, "kind": kind, **named}
    return spec_binding(workload=workload, service=SERVICE, **spec)


def created(cluster: FakeCluster, made: JSON, workload: JSON) -> None:
    """Have a workload come as the projector would let it: bound before it is there."""
    body = copy.deepcopy(workload)
    uid = body["metadata"].pop("uid")
    cluster.set(body)
    cluster.reconcile(made)
    body = cluster.of("jobs", "pods")[-1]
    body["metadata"]["uid"] = uid
    body |= {"status": workload.get("status", {})}


def injected(context: BaseContext) -> tuple[str, str]:
    found = context.get_condition("InjectionReady")
    assert found
    return found.status, found.message


@pytest.mark.parametrize("make", [job, bare_pod])
def test_what_was_created_unbound_says_what_helps(make: Any) -> None:
    workload = make()
    cluster = FakeCluster(ALL, [secret(), workload])
    context = cluster.reconcile(binding(workload["kind"]))
    status, message = injected(context)
    assert status == "False"
    assert f"{workload['kind']} ns/web was created without this binding" in message
    assert cluster.get(f"{workload['kind'].lower()}s", "web") == workload


@pytest.mark.parametrize("make", [job, bare_pod])
def test_what_is_there_bound_stays_as_it_is(make: Any) -> None:
    made = binding(make()["kind"])
    cluster = FakeCluster(ALL, [secret()])
    created(cluster, made, make())
    (before,) = copy.deepcopy(cluster.of("jobs", "pods"))
    assert RECORD in before["metadata"]["annotations"]
    context = cluster.reconcile(made)
    assert injected(context) == ("True", "")
    assert cluster.of("jobs", "pods") == [before]
    made["spec"]["name"] = "other"
    context = cluster.reconcile(made)
    assert injected(context) == ("True", f"{before['kind']} ns/web keeps what it was created with")
    assert cluster.of("jobs", "pods") == [before]


def test_pods_are_bound_without_a_mapping() -> None:
    cluster = FakeCluster(ALL, [secret()])
    created(cluster, binding("Pod"), bare_pod())
    spec = cluster.get("pods", "web")["spec"]
    assert [volume["secret"]["secretName"] for volume in spec["volumes"]] == ["s1"]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/bindings/sb"]


def test_many_that_stay_are_counted() -> None:
    made = binding(selector={"matchLabels": {"app": "a"}})
    cluster = FakeCluster(ALL, [secret()])
    for number in range(5):
        created(cluster, made, job(f"job-{number}"))
    made["spec"]["name"] = "other"
    status, message = injected(cluster.reconcile(made))
    assert status == "True"
    assert message.endswith("; and 2 more")
    assert message.count("keeps what it was created with") == 3


RUNNING: JSON = {"active": 1}
COMPLETE: JSON = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED: JSON = {"conditions": [{"type": "Failed", "status": "True"}]}


@pytest.mark.parametrize(
    ("workload", "goes"),
    [
        pytest.param(job(**RUNNING), False, id="running"),
        pytest.param(
            job(conditions=[{"type": "Complete", "status": "False"}]), False, id="not complete"
        ),
        pytest.param(job(**COMPLETE), True, id="complete"),
        pytest.param(job(**FAILED), True, id="failed"),
        pytest.param(bare_pod(phase="Running"), False, id="running pod"),
        pytest.param(bare_pod(phase="Succeeded"), True, id="succeeded pod"),
    ],
)
@pytest.mark.parametrize("how", ["deleted", "leftover"])
def test_what_has_finished_alone_is_let_go(workload: JSON, goes: bool, how: str) -> None:
    made = binding(workload["kind"])
    cluster = FakeCluster(ALL, [secret()])
    created(cluster, made, workload)
    (before,) = copy.deepcopy(cluster.of("jobs", "pods"))
    if how == "deleted":
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        made["spec"]["workload"]["name"] = "another"
    context = cluster.reconcile(made)
    (after,) = cluster.of("jobs", "pods")
    assert after["spec"] == before["spec"]
    assert (RECORD not in (after["metadata"].get("annotations") or {})) is goes
    if how == "deleted":
        assert bool(context.flow.error) is not goes
    stuck = f"{workload['kind']} ns/web has this binding and cannot be changed any more"
    assert (stuck in str(context.status("now"))) is not goes


def test_what_cannot_be_unbound_keeps_nothing_else_bound() -> None:
    made = binding(selector={"matchLabels": {"app": "a"}})
    cluster = FakeCluster(ALL, [secret()])
    created(cluster, made, job("one", **RUNNING))
    created(cluster, made, job("two", **COMPLETE))
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    context = cluster.reconcile(made)
    assert "ns/one" in context.flow.error
    assert "ns/two" not in context.flow.error
    assert RECORD in cluster.get("jobs", "one")["metadata"]["annotations"]
    assert RECORD not in (cluster.get("jobs", "two")["metadata"].get("annotations") or {})
