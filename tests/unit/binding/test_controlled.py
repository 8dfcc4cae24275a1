"""Workloads that another controller writes, or whose Pods are described elsewhere.

They are left alone, and a message says what to bind or to map instead.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    cronjob,
    deployment,
    message,
    meta,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.reads import Get, Read, ReadFailure


ALL = {
    **KINDS,
    "apps/v1/ReplicaSet": "replicasets",
    "batch/v1/Job": "jobs",
    "serving.knative.dev/v1/Revision": "revisions",
    "serving.knative.dev/v1/Configuration": "configurations",
    "serving.knative.dev/v1/Service": "knativeservices",
    "x.io/v1/Shop": "shops",
}


def controlled(body: JSON, *owners: JSON, controller: bool = True) -> JSON:
    """Return an object below a chain of others, the nearest first, and these."""
    for below, above in zip([body, *owners], owners, strict=False):
        reference = {field: above[field] for field in ("apiVersion", "kind")}
        named = {field: above["metadata"][field] for field in ("name", "uid")}
        below["metadata"]["ownerReferences"] = [{**reference, **named, "controller": controller}]
    return body


def custom(kind: str, name: str) -> JSON:
    group = "x.io" if kind == "Shop" else "serving.knative.dev"
    uid = f"uid-{kind}-{name}"
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": meta(name) | {"uid": uid}}


def written(body: JSON, manager: str, operation: str) -> JSON:
    """Return a workload whose Pods' template a manager has written."""
    fields: JSON = {"f:spec": {"f:template": {"f:spec": {"f:containers": {}}}}}
    entry = {"manager": manager, "operation": operation, "fieldsV1": fields}
    body["metadata"]["managedFields"] = [entry]
    return body


def revision(name: str = "web-1") -> JSON:
    return {**deployment(name, labels={"app": "web"}), "kind": "ReplicaSet"}


def binding(kind: str = "Deployment", *, coreos: bool = False, **workload: Any) -> JSON:
    named = workload or {"name": "web"}
    if coreos:
        service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
        application = {"group": "apps", "version": "v1", "kind": kind, "resource": "", **named}
        return coreos_binding(services=[service], application=application, bindAsFiles=True)
    reference = {"apiVersion": "apps/v1", "kind": kind, **named}
    return spec_binding(service=SECRET_SERVICE, workload=reference)


def knative() -> list[JSON]:
    return [custom("Revision", "web-1"), custom("Configuration", "web"), custom("Service", "web")]


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
@pytest.mark.parametrize(
    ("workload", "above", "instead"),
    [
        pytest.param(
            revision("web"),
            [deployment("shop")],
            "belongs to Deployment shop, which writes its Pods' template and would undo the "
            "binding: bind Deployment shop instead",
            id="ReplicaSet of a Deployment",
        ),
        pytest.param(
            deployment(),
            knative(),
            "belongs to Revision web-1 of serving.knative.dev, which writes its Pods' template and"
            " would undo the binding: bind Service web of serving.knative.dev instead",
            id="Deployment of Knative",
        ),
        pytest.param(
            written(deployment(), "operator", "Update"),
            [custom("Shop", "shop")],
            "bind Shop shop of x.io instead",
            id="Deployment of an operator",
        ),
    ],
)
def test_nothing_is_written_that_the_owner_would_undo(
    workload: JSON, above: list[JSON], instead: str, coreos: bool
) -> None:
    workload = controlled(workload, *above)
    cluster = FakeCluster(ALL, [secret(), workload, *above])
    made = binding(workload["kind"], coreos=coreos)
    cluster.reconcile(made)
    assert cluster.get(f"{workload['kind'].lower()}s", "web") == workload
    assert conditions(made)["InjectionReady"] == ("False", "WorkloadNotAllowed")
    assert conditions(made)["Ready"][0] == "False"
    text = message(made, "InjectionReady")
    assert text.endswith(instead)
    assert text.startswith(f"{workload['kind']} ns/web belongs to ")


@pytest.mark.parametrize("why", ["not served", "forbidden", "another one"])
def test_an_owner_that_cannot_be_read_may_have_one_itself(why: str) -> None:
    above = knative()
    cluster = FakeCluster(ALL, [secret(), controlled(deployment(), *above), *above])
    if why == "not served":
        cluster = FakeCluster(KINDS, [secret(), controlled(deployment(), *above)])
    elif why == "another one":
        cluster.get("revisions", "web-1")["metadata"]["uid"] = "younger"
    else:

        def refuse(read: Read) -> ReadFailure | None:
            of_it = isinstance(read, Get) and read.resource.plural == "revisions"
            return ReadFailure("Forbidden", "no") if of_it else None

        cluster.refuse = refuse
    made = binding()
    context = cluster.reconcile(made)
    assert message(made, "InjectionReady").endswith(
        "bind Revision web-1 of serving.knative.dev instead, or the controller of that"
    )
    # Nothing above a workload is watched for a message.
    assert not any(
        isinstance(read, Get) and "knative" in read.resource.group
        for read in context.reader.snapshot.reads
    )


def test_owners_in_a_circle_come_to_an_end() -> None:
    first, second = custom("Shop", "a"), custom("Shop", "b")
    above = [first, second, first]
    cluster = FakeCluster(ALL, [secret(), controlled(deployment(), *above), first, second])
    made = binding()
    cluster.reconcile(made)
    assert message(made, "InjectionReady").endswith("bind Shop b of x.io instead")


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(
            controlled(written(deployment(), "crossplane", "Apply"), custom("Shop", "shop")),
            id="its controller applies it",
        ),
        pytest.param(
            controlled(deployment(), custom("Shop", "shop"), controller=False),
            id="its owner is no controller",
        ),
    ],
)
def test_what_no_owner_undoes_is_bound(workload: JSON) -> None:
    cluster, made = FakeCluster(ALL, [secret(), workload]), binding()
    cluster.reconcile(made)
    assert conditions(made)["Ready"][0] == "True"
    assert pod(cluster.get("deployments", "web"))["volumes"]


def test_a_projection_stays_until_the_owner_undoes_it() -> None:
    cluster, made = FakeCluster(ALL, [secret(), deployment()]), binding()
    cluster.reconcile(made)
    body = controlled(cluster.get("deployments", "web"), custom("Shop", "shop"))
    cluster.reconcile(made)
    assert conditions(made)["Ready"][0] == "True"
    pod(body)["volumes"].clear()
    cluster.reconcile(made)
    assert pod(cluster.get("deployments", "web"))["volumes"] == []
    assert conditions(made)["InjectionReady"] == ("False", "WorkloadNotAllowed")


def test_others_that_a_selector_matches_are_bound() -> None:
    bare, owned = revision("web-0"), controlled(revision(), deployment())
    cluster = FakeCluster(ALL, [secret(), deployment(), bare, owned])
    made = binding("ReplicaSet", selector={"matchLabels": {"app": "web"}})
    cluster.reconcile(made)
    assert pod(cluster.get("replicasets", "web-0"))["volumes"]
    assert cluster.get("replicasets", "web-1") == owned
    assert conditions(made)["Ready"][0] == "False"
    assert message(made, "Ready").endswith("bind Deployment web instead")


def test_a_job_says_which_cronjob_to_bind() -> None:
    job = controlled({**cronjob("web"), "kind": "Job"}, cronjob())
    job["spec"] = deployment()["spec"]
    made = spec_binding(
        service=SECRET_SERVICE, workload={"apiVersion": "batch/v1", "kind": "Job", "name": "web"}
    )
    cluster = FakeCluster(ALL, [secret(), job])
    cluster.reconcile(made)
    assert cluster.get("jobs", "web") == job
    text = message(made, "InjectionReady")
    assert "Kubernetes changes neither Pods nor the Pods of Jobs" in text
    assert text.endswith("bind CronJob night, which created it, or the controller of that")


def app_config(**spec: Any) -> JSON:
    return {"apiVersion": "x.io/v1", "kind": "AppConfig", "metadata": meta("web"), "spec": spec}


def to_app_config() -> JSON:
    workload = {"apiVersion": "x.io/v1", "kind": "AppConfig", "name": "web"}
    return spec_binding(service=SECRET_SERVICE, workload=workload)


@pytest.mark.parametrize(
    ("spec", "start", "path"),
    [
        pytest.param(
            {"runner": {"podTemplate": pod({"spec": {"template": {"spec": {}}}})}},
            ", nor any other: bind the object that its Pods are made from; or have an",
            ".spec.template",
            id="no template",
        ),
        pytest.param(
            {"odd name": deployment()["spec"]["template"], "jobs": [deployment()["spec"]]},
            ", nor any other",
            ".spec.template",
            id="one that no path of fields reaches",
        ),
        pytest.param(
            {"runner": {"pods": deployment()["spec"]["template"]}},
            "; or have an administrator say where they are, with kubectl apply -f -: {",
            ".spec.runner.pods",
            id="another template",
        ),
    ],
)
def test_a_missing_mapping_is_printed_ready_to_apply(spec: JSON, start: str, path: str) -> None:
    body, made = app_config(**spec), to_app_config()
    cluster = FakeCluster(ALL, [secret(), body])
    cluster.reconcile(made)
    text = message(made, "InjectionReady")
    looked = ".spec.template.spec.containers[*], .spec.template.spec.initContainers[*]"
    found = f"no containers found in application resource AppConfig ns/web at {looked}"
    assert text.startswith(f"{found}{start}")
    assert cluster.get("appconfigs", "web") == body
    mapping = json.loads(text[text.index("{") :])
    assert mapping["metadata"]["name"] == "appconfigs.x.io"
    (version,) = mapping["spec"]["versions"]
    assert version["volumes"] == f"{path}.spec.volumes"
    assert version["annotations"] == f"{path}.metadata.annotations"
    # With that of an administrator's it is bound, where there is one.
    cluster.set(mapping)
    cluster.reconcile(made)
    bound = conditions(made)["Ready"][0] == "True"
    assert bound == (path != ".spec.template")
    if not bound:
        end = "correct the paths of ClusterWorkloadResourceMapping appconfigs.x.io"
        assert message(made, "InjectionReady").endswith(end)


def test_a_rollout_names_the_workload_that_has_its_template() -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    body, made = app_config(workloadRef=reference), to_app_config()
    cluster = FakeCluster(ALL, [secret(), body])
    cluster.reconcile(made)
    assert message(made, "InjectionReady") == (
        "AppConfig ns/web takes its Pods' template from Deployment shop (.spec.workloadRef): "
        "bind that instead"
    )
    assert cluster.get("appconfigs", "web") == body
