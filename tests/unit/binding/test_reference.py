"""Bindings that the reference runtime of servicebinding.io has projected, taken over."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from tests.support.binding import DEFAULT, PROJECTOR
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    message,
    meta,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.reads import Lookup
from fairlead.binding.workloads.records import KINDS_ANNOTATION, kinds_text


BOUND = ("True", "ApplicationsBound")
ROOT = {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}
ENV = [{"name": "PW", "key": "password"}, {"name": "KIND", "key": "type"}]


def reference(uid: str, *, secret: str = "s1", type_: str = "") -> JSON:
    """What the runtime adds, by the place where it goes."""
    name = f"servicebinding-{uid}"
    field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{PROJECTOR}/type-{uid}']"}
    sources: list[JSON] = [{"secret": {"name": secret}}]
    notes = {f"{PROJECTOR}/secret-{uid}": secret}
    if type_:
        sources.append({"downwardAPI": {"items": [{"path": "type", "fieldRef": field}]}})
        notes[f"{PROJECTOR}/type-{uid}"] = type_
    kind = {"fieldRef": field} if type_ else {"secretKeyRef": {"name": secret, "key": "type"}}
    return {
        "volume": {"name": name, "projected": {"defaultMode": 420, "sources": sources}},
        "mount": {"name": name, "mountPath": f"/bindings/{uid[4:]}", "readOnly": True},
        "env": [
            {"name": "KIND", "valueFrom": kind},
            {"name": "PW", "valueFrom": {"secretKeyRef": {"name": secret, "key": "password"}}},
        ],
        "notes": notes,
        "mapping": {f"{PROJECTOR}/mapping-{uid}": json.dumps(DEFAULT)},
    }


def projected(*parts: JSON, name: str = "web", **labels: str) -> JSON:
    """A Deployment as the runtime leaves it."""
    body = deployment(name, labels=labels)
    app = pod(body)["containers"][0]
    app["env"] = [ROOT, *(item for part in parts for item in part["env"])]
    app["volumeMounts"] = [part["mount"] for part in parts]
    pod(body)["volumes"] = [part["volume"] for part in parts]
    body["spec"]["template"]["metadata"] = {
        "annotations": {key: text for part in parts for key, text in part["notes"].items()}
    }
    body["metadata"]["annotations"] = {
        key: text for part in parts for key, text in part["mapping"].items()
    }
    return body


def resolved(**spec: Any) -> JSON:
    """A binding with the status that the runtime writes."""
    binding = spec_binding(service=SECRET_SERVICE, **{"env": ENV, **spec})
    binding["status"] = {"binding": {"name": "s1"}, "conditions": []}
    return binding


def world(*objects: JSON) -> FakeCluster:
    return FakeCluster({**KINDS, "batch/v1/Job": "jobs"}, [secret(), *objects])


def web(cluster: FakeCluster, name: str = "web") -> JSON:
    return cluster.get("deployments", name)


def traces(body: JSON, uid: str = "uid-sb") -> bool:
    return f"servicebinding-{uid}" in json.dumps(body) or PROJECTOR in json.dumps(body)


OTHER = reference("uid-other")
OTHER["env"] = [{"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "type"}}}]
USER: JSON = {
    "volume": {"name": "mine", "projected": {"sources": [{"secret": {"name": "s1"}}]}},
    "mount": {"name": "mine", "mountPath": "/mine"},
    "env": [{"name": "MINE", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "password"}}}],
    "notes": {"a": "b"},
    "mapping": {"c": "d"},
}


@pytest.mark.parametrize("type_", ["", "mysql"], ids=["as it is", "another type"])
def test_what_the_runtime_has_projected_is_replaced_in_one_write(type_: str) -> None:
    cluster = world(projected(USER, OTHER, reference("uid-sb", type_=type_)))
    binding = resolved(**({"type": type_} if type_ else {}))
    before = copy.deepcopy(web(cluster))
    context = cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    assert len(context.changed_workloads()) == 1
    after = web(cluster)
    name = binding["status"]["binding"]["name"]
    assert pod(after)["volumes"] == [
        *pod(before)["volumes"][:2],
        {"name": "sb", "secret": {"secretName": name}},
    ]
    app = pod(after)["containers"][0]
    assert app["volumeMounts"] == [
        *pod(before)["containers"][0]["volumeMounts"][:2],
        {"name": "sb", "mountPath": "/bindings/sb"},
    ]
    assert [item["name"] for item in app["env"]] == [
        *("SERVICE_BINDING_ROOT", "MINE", "OTHER", "PW", "KIND")
    ]
    assert app["env"][-1]["valueFrom"] == {"secretKeyRef": {"name": name, "key": "type"}}
    assert after["spec"]["template"]["metadata"]["annotations"] == {"a": "b", **OTHER["notes"]}
    del after["metadata"]["annotations"]["projection.servicebinding.io/uid-sb"]
    assert after["metadata"]["annotations"] == {"c": "d", **OTHER["mapping"]}
    assert cluster.reconcile(binding).flow.error == ""


def test_a_binding_that_goes_takes_what_the_runtime_has_projected_along() -> None:
    cluster = world(projected(USER, OTHER, reference("uid-sb")), projected(OTHER, name="b"))
    binding = resolved()
    deleted(binding)
    assert cluster.reconcile(binding).flow.error == ""
    assert web(cluster) == projected(USER, OTHER)
    assert web(cluster, "b") == projected(OTHER, name="b")


@pytest.mark.parametrize("leaving", [True, False], ids=["deleted", "relabelled"])
def test_workloads_that_are_not_selected_any_more_are_found(leaving: bool) -> None:
    part = reference("uid-sb")
    cluster = world(projected(part, a="b"), projected(part, name="former"))
    binding = resolved(workload={"selector": {"matchLabels": {"a": "b"}}})
    if leaving:
        deleted(binding)
    cluster.reconcile(binding)
    assert not traces(web(cluster))
    assert not traces(web(cluster, "former"))
    assert bool(pod(web(cluster))["volumes"]) is not leaving
    assert pod(web(cluster, "former"))["volumes"] == []


def test_what_the_runtime_puts_there_once_more_goes_with_the_binding() -> None:
    """As where both ran for a while: by then all kinds and Secrets are on record."""
    cluster, binding = world(deployment(), deployment("former")), resolved()
    cluster.reconcile(binding)
    cluster.set(projected(reference("uid-sb"), name="former"))
    binding["metadata"]["annotations"] = {
        KINDS_ANNOTATION: kinds_text([Lookup("apps", "v1", kind="Deployment")])
    }
    deleted(binding)
    cluster.reconcile(binding)
    assert not traces(web(cluster, "former"))
    assert pod(web(cluster, "former"))["volumes"] == []


def test_the_mapping_of_projection_time_says_where_it_is() -> None:
    part = reference("uid-sb")
    mapping = {
        "versions": [
            {
                "version": "v1",
                "annotations": ".spec.notes",
                "containers": [{"path": ".spec.app", "env": ".vars", "volumeMounts": ".mounts"}],
                "volumes": ".spec.disks",
            }
        ]
    }
    body: JSON = {
        "apiVersion": "x.io/v1",
        "kind": "AppConfig",
        "metadata": meta("web", annotations={f"{PROJECTOR}/mapping-uid-sb": json.dumps(mapping)}),
        "spec": {
            "app": {"vars": [ROOT, *part["env"]], "mounts": [part["mount"]]},
            "disks": [part["volume"]],
            "notes": part["notes"],
            "template": {"spec": {"containers": [{"name": "app"}]}},
        },
    }
    cluster = world(body)
    workload = {"apiVersion": "x.io/v1", "kind": "AppConfig", "name": "web"}
    binding = resolved(workload=workload)
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    after = cluster.get("appconfigs", "web")
    assert not traces(after)
    assert after["spec"]["app"] == {"vars": [ROOT], "mounts": []}
    assert pod(after)["volumes"] == [{"name": "sb", "secret": {"secretName": "s1"}}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"versions":[{"version":"*","volumes":".a["}]}',
        '{"a":' + "[" * 100_000,
        json.dumps({"versions": [{"version": "*", "containers": [{"path": ".a"}] * 21}]}),
    ],
    ids=["empty", "no JSON", "no object", "no path", "deep", "long"],
)
def test_a_mapping_that_somebody_spoiled_is_none(text: str) -> None:
    part = reference("uid-sb")
    part["mapping"] = {f"{PROJECTOR}/mapping-uid-sb": text}
    cluster, binding = world(projected(part)), resolved()
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    assert not traces(web(cluster))


def test_what_a_version_without_that_annotation_has_projected_is_found() -> None:
    part = reference("uid-sb")
    part["mapping"] = {}
    cluster, binding = world(projected(part)), resolved()
    deleted(binding)
    cluster.reconcile(binding)
    assert not traces(web(cluster))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param({"volume": {"name": "servicebinding-uid-sb", "emptyDir": {}}}, "mount"),
        pytest.param({"notes": {}}, "env"),
    ],
    ids=["another volume of the name", "no note of the Secret"],
)
def test_what_is_not_certain_stays(change: JSON, kept: str) -> None:
    part = {**reference("uid-sb"), **change}
    cluster, binding = world(projected(part)), resolved()
    deleted(binding)
    cluster.reconcile(binding)
    app = pod(web(cluster))["containers"][0]
    assert (app["volumeMounts"] == [part["mount"]]) is (kept == "mount")
    assert (app["env"] == [ROOT, *part["env"]]) is (kept == "env")


def test_a_variable_that_another_binding_has_on_record_stays() -> None:
    """Of the same name and value, in a container which the other one alone is in by its record."""
    cluster = world(deployment(containers=[{"name": "app"}, {"name": "beside"}]))
    other = resolved(workload={"name": "web", "containers": ["beside"]}, name="other")
    del other["status"]
    other["metadata"] |= {"name": "other", "uid": "uid-2"}
    cluster.reconcile(other)
    part, body = reference("uid-sb"), web(cluster)
    body["metadata"]["annotations"] |= part["mapping"]
    body["spec"]["template"]["metadata"] = {"annotations": part["notes"]}
    beside = copy.deepcopy(pod(body)["containers"][1])
    binding = resolved(workload={"name": "web", "containers": ["app"]})
    deleted(binding)
    cluster.reconcile(binding)
    assert not traces(web(cluster))
    assert pod(web(cluster))["containers"][1] == beside


def test_it_stays_as_long_as_there_is_nothing_to_put_in_its_place() -> None:
    body = projected(reference("uid-sb"))
    cluster, binding = FakeCluster(objects=[body]), resolved()
    cluster.reconcile(binding)
    assert conditions(binding)["CollectionReady"][0] == "False"
    assert web(cluster) == body


def test_a_job_that_runs_keeps_what_the_runtime_created_it_with() -> None:
    body = {**projected(reference("uid-sb")), "apiVersion": "batch/v1", "kind": "Job"}
    cluster = world(body)
    workload = {"apiVersion": "batch/v1", "kind": "Job", "name": "web"}
    binding = resolved(workload=workload)
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == BOUND
    assert "keeps what it was created with" in message(binding, "InjectionReady")
    assert cluster.get("jobs", "web") == body
    deleted(binding)
    assert "cannot be changed any more" in cluster.reconcile(binding).flow.error
    body["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    cluster.set(body)
    assert cluster.reconcile(binding).flow.error == ""


def test_bindings_of_the_other_api_have_nothing_of_the_runtimes() -> None:
    cluster = world(projected(reference("uid-sb")))
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    binding = coreos_binding(services=[service])
    binding["status"] = {"secret": "s1", "conditions": []}
    deleted(binding)
    cluster.reconcile(binding)
    assert web(cluster) == projected(reference("uid-sb"))
