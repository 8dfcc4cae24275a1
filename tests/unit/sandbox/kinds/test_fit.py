from __future__ import annotations

from typing import Any

import pytest

from fairlead_sandbox.kinds import Message, load, misfit, prune, unknown


def message(kind: str, version: str = "v1") -> Message:
    found = load().kind(version, kind)
    assert found is not None
    return found


POD = message("Pod")
CRD = message("CustomResourceDefinition", "apiextensions.k8s.io/v1")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 1}]}]}, "", id="fits"
        ),
        pytest.param({"containers": None, "activeDeadlineSeconds": None}, "", id="nulls"),
        pytest.param({"later": {"anything": 1}}, "", id="unknown members"),
        pytest.param(
            {"containers": {}},
            "object into Go struct field PodSpec.spec.containers of type []v1.Container",
            id="list",
        ),
        pytest.param(
            {"containers": [{"tty": "x"}]},
            "string into Go struct field Container.spec.containers.tty of type bool",
            id="bool",
        ),
        pytest.param(
            {"priority": 1 << 31},
            "number into Go struct field PodSpec.spec.priority of type int32",
            id="range",
        ),
        pytest.param(
            {"priority": True},
            "bool into Go struct field PodSpec.spec.priority of type int32",
            id="bool for a number",
        ),
        pytest.param(
            {"priority": 1.5},
            "number 1.5 into Go struct field PodSpec.spec.priority of type int32",
            id="fraction",
        ),
        pytest.param(
            {"nodeSelector": {"a": 1}},
            "number into Go struct field PodSpec.spec.nodeSelector of type string",
            id="map",
        ),
        pytest.param(
            {"volumes": [{"emptyDir": 1}]},
            "number into Go struct field Volume.spec.volumes.emptyDir of type "
            "v1.EmptyDirVolumeSource",
            id="inlined",
        ),
        pytest.param({"overhead": {"cpu": 1, "memory": "1Gi"}}, "", id="quantities"),
    ],
)
def test_wrong_types(spec: Any, text: str) -> None:
    found = misfit(POD, {"metadata": 5, "spec": spec})
    assert found == (f"json: cannot unmarshal {text}" if text else "")


def test_times_are_read() -> None:
    assert 'parsing time "soon"' in misfit(POD, {"status": {"startTime": "soon"}})


@pytest.mark.parametrize(
    ("items", "fits"), [({"type": "string"}, True), ([{"type": "string"}], True), ("x", False)]
)
def test_schemas_have_members_of_several_types(items: Any, *, fits: bool) -> None:
    schema = {"type": "array", "items": items}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    assert (misfit(CRD, {"spec": {"versions": [version]}}) == "") is fits


def test_unknown_members_are_named() -> None:
    spec = {"containers": [{"name": "a"}, {"imagee": "b"}], "replicas": 1}
    found = list(unknown(POD, {"spec": spec, "data": {}}))
    assert found == ["spec.containers[1].imagee", "spec.replicas", "data"]


def test_what_go_leaves_out_is_left_out() -> None:
    container = {"image": "", "env": [], "resources": {}, "tty": False, "stdin": True, "x": 1}
    spec = {"containers": [container], "nodeName": "", "hostUsers": False, "priority": 0}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"x": 1}, "spec": spec, "other": 1}
    assert prune(POD, body) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"x": 1},
        "spec": {
            "containers": [{"name": "", "resources": {}, "stdin": True}],
            "hostUsers": False,
            "priority": 0,
        },
    }


def test_nulls_in_containers_are_empty_values() -> None:
    spec = {"nodeSelector": {"a": None}, "containers": [None]}
    assert prune(POD, {"spec": spec}) == {
        "spec": {"nodeSelector": {"a": ""}, "containers": [{"name": ""}]}
    }
