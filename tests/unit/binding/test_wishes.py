"""What bindings ask for by annotations: the mode of files, variables besides, pods made anew."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    deleted,
    deployment,
    message,
    pod,
    secret,
    spec_binding,
)
from tests.unit.binding.test_required import mapping

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.servicebinding.wishes import Wishes, read_wishes
from fairlead.binding.contexts.base import InvalidBinding
from fairlead.binding.contexts.outcome import secret_body
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.reads import Snapshot


MODE, ROLL, ENV = (
    f"servicebinding.io/{name}" for name in ("default-mode", "roll-on-change", "bind-as-env")
)
MARK = "content.servicebinding.io/uid-sb"
COREOS_SECRET = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}


def bound(*objects: JSON, **annotations: str) -> tuple[FakeCluster, JSON]:
    binding = spec_binding(service=SECRET_SERVICE, annotations=annotations)
    cluster = FakeCluster(objects=[secret(), *(objects or [deployment()])])
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == ("True", "ApplicationsBound")
    assert cluster.reconcile(binding).changed_workloads() == []
    return cluster, binding


def wish(cluster: FakeCluster, binding: JSON, **annotations: str) -> JSON:
    """The workload after the binding asks for this instead."""
    kept = binding["metadata"]["annotations"]
    for name in (MODE, ROLL, ENV):
        kept.pop(name, None)
    kept.update(annotations)
    cluster.reconcile(binding)
    assert cluster.reconcile(binding).changed_workloads() == []
    return cluster.get("deployments", "web")


def marks(workload: JSON) -> JSON:
    found: JSON = workload["spec"]["template"].get("metadata", {}).get("annotations", {})
    return found


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, Wishes(), id="nothing"),
        pytest.param({MODE: "0400"}, Wishes(mode=0o400), id="mode"),
        pytest.param({MODE: "777"}, Wishes(mode=0o777), id="without a zero"),
        pytest.param({MODE: "000"}, Wishes(mode=0), id="no rights at all"),
        pytest.param({MODE: ""}, Wishes(), id="empty"),
        pytest.param({ROLL: "true", ENV: "false"}, Wishes(roll=True), id="roll"),
        pytest.param({ENV: "true"}, Wishes(environment=True), id="environment"),
    ],
)
def test_what_is_asked_for(annotations: dict[str, str], expected: Wishes) -> None:
    assert read_wishes(annotations) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((MODE, text) for text in ("rw", "0o400", "1777", "8", "999", "-400", "400\n", " 400")),
        *((name, text) for name in (ROLL, ENV) for text in ("yes", "True", "1")),
    ],
)
def test_what_cannot_be_asked_for_names_the_annotation(name: str, value: str) -> None:
    body = spec_binding(annotations={name: value})
    with pytest.raises(InvalidBinding, match=name):
        SpecContext(object_from_dict(body), Snapshot(FakeCluster()))
    deleted(body)
    SpecContext(object_from_dict(body), Snapshot(FakeCluster()))


def test_files_have_the_mode_that_is_asked_for_as_long_as_it_is() -> None:
    cluster, binding = bound(**{MODE: "0400"})
    (volume,) = pod(cluster.get("deployments", "web"))["volumes"]
    assert volume["secret"] == {"secretName": "s1", "defaultMode": 0o400}
    (volume,) = pod(wish(cluster, binding, **{MODE: "440"}))["volumes"]
    assert volume["secret"]["defaultMode"] == 0o440
    (volume,) = pod(wish(cluster, binding))["volumes"]
    assert volume["secret"] == {"secretName": "s1"}
    # That which the API server puts there is no business of ours.
    volume["secret"]["defaultMode"] = 0o644
    assert cluster.reconcile(binding).changed_workloads() == []
    wish(cluster, binding, **{MODE: "0400"})
    deleted(binding)
    cluster.reconcile(binding)
    assert pod(cluster.get("deployments", "web"))["volumes"] == []


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
def test_variables_besides_files_as_long_as_they_are_asked_for(coreos: bool) -> None:
    make: Any = coreos_binding if coreos else spec_binding
    more: JSON = {"services": [COREOS_SECRET]} if coreos else {"service": SECRET_SERVICE}
    binding = make(**more)
    binding["metadata"]["annotations"] = {ENV: "true"}
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(binding)
    (container,) = pod(cluster.get("deployments", "web"))["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "s1"}}]
    assert container["volumeMounts"] == [{"name": "sb", "mountPath": "/bindings/sb"}]
    (container,) = pod(wish(cluster, binding))["containers"]
    assert container["envFrom"] == []
    assert len(container["volumeMounts"]) == 1


def test_pods_are_made_anew_with_a_secret_only_where_that_is_asked_for() -> None:
    cluster, binding = bound()
    before = cluster.get("deployments", "web")
    assert marks(before) == {}
    cluster.get("secrets", "s1")["data"]["password"] = base64.b64encode(b"new").decode()
    assert cluster.reconcile(binding).changed_workloads() == []
    first = dict(marks(wish(cluster, binding, **{ROLL: "true"})))
    assert first.keys() == {MARK}
    cluster.get("secrets", "s1")["data"]["password"] = base64.b64encode(b"newer").decode()
    cluster.reconcile(binding)
    assert marks(cluster.get("deployments", "web")) != first
    assert marks(wish(cluster, binding)) == {}
    wish(cluster, binding, **{ROLL: "true"})
    deleted(binding)
    assert cluster.reconcile(binding).flow.error == ""
    assert marks(cluster.get("deployments", "web")) == {}


def test_a_secret_of_our_own_needs_no_mark_for_its_name_is_one() -> None:
    binding = spec_binding(service=SECRET_SERVICE, provider="p", annotations={ROLL: "true"})
    cluster = FakeCluster(objects=[secret(), deployment()])
    cluster.reconcile(binding)
    assert marks(cluster.get("deployments", "web")) == {}


def test_the_mark_is_where_the_mapping_says_and_goes_with_it() -> None:
    notes = mapping({"version": "*", "annotations": ".spec.notes"})
    cluster, binding = bound(deployment(), notes, **{ROLL: "true"})
    assert cluster.get("deployments", "web")["spec"]["notes"].keys() == {MARK}
    cluster.delete(notes)
    cluster.reconcile(binding)
    workload = cluster.get("deployments", "web")
    assert workload["spec"]["notes"] == {}
    assert marks(workload).keys() == {MARK}


def test_annotations_of_pods_that_are_none_are_in_the_way() -> None:
    body = deployment()
    body["spec"]["template"]["metadata"] = {"annotations": "x"}
    binding = spec_binding(service=SECRET_SERVICE, annotations={ROLL: "true"})
    cluster = FakeCluster(objects=[secret(), body])
    cluster.reconcile(binding)
    assert ".spec.template.metadata.annotations is not an object" in message(binding, "Ready")
    assert cluster.get("deployments", "web") == body


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        pytest.param("mysql", "servicebinding.io/mysql", id="of the binding"),
        pytest.param("My.SQL-8_0", "servicebinding.io/My.SQL-8_0", id="any word"),
        pytest.param("a b", None, id="no word"),
        pytest.param("a/b", None, id="a path"),
        pytest.param("x" * 64, None, id="too long"),
    ],
)
def test_a_secret_of_our_own_has_the_type_of_the_specification(
    type_: str, expected: str | None
) -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    context = cluster.reconcile(spec_binding(service=SECRET_SERVICE, type=type_))
    assert context.changes.secret
    assert secret_body(context.changes.secret).get("type") == expected


def test_a_secret_of_the_operators_own_api_has_no_type() -> None:
    cluster = FakeCluster(objects=[secret(), deployment()])
    mappings = [{"name": "x", "value": "y"}]
    context = cluster.reconcile(coreos_binding(services=[COREOS_SECRET], mappings=mappings))
    assert context.changes.secret
    assert "type" not in secret_body(context.changes.secret)
