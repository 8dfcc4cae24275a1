from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fairlead_sandbox.patches import PatchError, strategic_merge_patch


POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "c1",
            "image": "i1",
            "args": ["1", "2"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        },
        {"name": "c2", "image": "i2"},
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
}


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": deepcopy(POD_SPEC)}}}
    before = deepcopy(deployment)
    result = strategic_merge_patch(
        "Deployment", deployment, {"spec": {"template": {"spec": patch}}}
    )
    assert deployment == before
    spec = result["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


# Each row was seen on kube-apiserver 1.20.
@pytest.mark.parametrize(
    ("patch", "names"),
    [
        pytest.param({"containers": [{"name": "c2", "image": "n"}]}, ["c1", "c2"], id="merge"),
        pytest.param({"containers": [{"name": "c0", "image": "n"}]}, ["c0", "c1", "c2"], id="add"),
        pytest.param({"containers": [{"name": "c1", "$patch": "delete"}]}, ["c2"], id="delete"),
        pytest.param(
            {"containers": [{"name": "z", "image": "z"}, {"$patch": "replace"}]},
            ["z"],
            id="replace",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}]},
            ["c2", "c1"],
            id="order",
        ),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "c2"}, {"name": "c0"}, {"name": "c1"}],
                "containers": [{"name": "c0", "image": "n"}],
            },
            ["c2", "c0", "c1"],
            id="order with a new one",
        ),
        pytest.param({"containers": None}, [], id="null removes"),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "c0"}],
                "containers": [{"name": "c1", "$patch": "delete"}, {"name": "c0", "image": "n"}],
            },
            ["c2", "c0"],
            id="new in the place of a removed one",
        ),
    ],
)
def test_containers_merge_by_name(patch: dict[str, Any], names: list[str]) -> None:
    assert [item["name"] for item in patched(patch).get("containers", [])] == names


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param(
            [{"name": "B", "value": None}, {"name": "C", "value": "3"}],
            [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "C", "value": "3"}],
            id="null value",
        ),
        pytest.param([{"name": "A", "$patch": "delete"}], [{"name": "B", "value": "2"}], id="del"),
        pytest.param(None, None, id="null list"),
    ],
)
def test_env_merges_by_name(env: Any, expected: Any) -> None:
    container = patched({"containers": [{"name": "c1", "env": env}]})["containers"][0]
    assert container.get("env") == expected
    assert container["image"] == "i1"


def test_lists_without_a_merge_key_are_replaced() -> None:
    result = patched(
        {"tolerations": [{"key": "b"}], "containers": [{"name": "c1", "args": ["9"]}]}
    )
    assert result["tolerations"] == [{"key": "b"}]
    assert result["containers"][0]["args"] == ["9"]


def test_retain_keys_drops_the_others() -> None:
    volume = {"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}
    assert patched({"volumes": [volume]})["volumes"] == [{"name": "v", "configMap": {"name": "x"}}]


def test_a_new_list_is_taken_in_its_own_order() -> None:
    env = [{"name": "D", "value": None}, {"name": "A", "value": "3"}]
    patch = {"name": "c2", "env": env, "$setElementOrder/env": [{"name": "A"}, {"name": "D"}]}
    assert patched({"containers": [patch]})["containers"][1]["env"] == [
        {"name": "D"},
        {"name": "A", "value": "3"},
    ]


def test_a_new_list_carries_no_directives() -> None:
    new = [{"name": "i", "image": "x"}, {"name": "j", "$patch": "delete"}]
    assert patched({"initContainers": new})["initContainers"] == [{"name": "i", "image": "x"}]


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({"finalizers": ["c"]}, ["c", "a", "b"], id="add"),
        pytest.param({"$deleteFromPrimitiveList/finalizers": ["a"]}, ["b"], id="delete"),
        pytest.param({"$setElementOrder/finalizers": ["b", "a"]}, ["b", "a"], id="order"),
        pytest.param({"finalizers": None}, None, id="null"),
    ],
)
def test_finalizers_are_a_set(patch: dict[str, Any], expected: list[str] | None) -> None:
    current = {"metadata": {"finalizers": ["a", "b"]}}
    result = strategic_merge_patch("ConfigMap", current, {"metadata": patch})
    assert result["metadata"].get("finalizers") == expected


def test_ports_of_equal_number_all_stay() -> None:
    ports = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]
    service = {"spec": {"ports": ports}}
    result = strategic_merge_patch("Service", service, {"spec": {"ports": [{"port": 80}]}})
    assert result["spec"]["ports"] == [{"port": 80}, *ports]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param(
            {"$retainKeys": ["type"], "type": "Recreate"}, {"type": "Recreate"}, id="retain"
        ),
        pytest.param({"$patch": "replace", "type": "R"}, {"type": "R"}, id="replace"),
        pytest.param({"$patch": "delete"}, {}, id="delete"),
        pytest.param({"type": "R"}, {"type": "R", "rollingUpdate": {}}, id="merge"),
    ],
)
def test_objects_know_directives(strategy: dict[str, Any], expected: dict[str, Any]) -> None:
    current = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}}
    result = strategic_merge_patch("Deployment", current, {"spec": {"strategy": strategy}})
    assert result["spec"]["strategy"] == expected


@pytest.mark.parametrize(
    ("patch", "code", "text"),
    [
        pytest.param(
            {"containers": [{"image": "x"}]},
            500,
            "map: map[image:x] does not contain declared merge key: name",
            id="no key",
        ),
        pytest.param(
            {"containers": [{"name": "c1", "$patch": "foo"}]},
            500,
            "unknown patch type: foo in map: map[$patch:foo name:c1]",
            id="unknown directive",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "$retainKeys": ["name"], "configMap": {"name": "x"}}]},
            400,
            "invalid patch format of retainKeys",
            id="retainKeys",
        ),
        pytest.param(
            {
                "$setElementOrder/containers": [{"name": "c2"}],
                "containers": [{"name": "c0", "image": "n"}],
            },
            500,
            "The order in patch list:\n[map[image:n name:c0]]\n"
            " doesn't match $setElementOrder list:\n[map[name:c2]]\n",
            id="order",
        ),
        pytest.param(
            {"containers": [{"name": "c1", "$patch": "merge"}]},
            500,
            "merging lists cannot yet be specified in the patch",
            id="merge a list",
        ),
        pytest.param(
            {"containers": {"a": "b"}},
            422,
            ' "" is invalid: patch: Invalid value: '
            '"map[spec:map[template:map[spec:map[containers:map[a:b]]]]]": '
            "cannot restore slice from map",
            id="map for a list",
        ),
    ],
)
def test_mistakes_get_the_real_texts(patch: dict[str, Any], code: int, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        patched(patch)
    assert (caught.value.code, caught.value.message) == (code, text)


def test_a_string_for_an_object_is_refused() -> None:
    with pytest.raises(PatchError, match="cannot restore map from string"):
        strategic_merge_patch("ConfigMap", {"data": {"a": "b"}}, {"data": "x"})


def test_objects_are_no_finalizers() -> None:
    with pytest.raises(PatchError, match="a scalar is expected") as caught:
        strategic_merge_patch("ConfigMap", {}, {"metadata": {"finalizers": [{}]}})
    assert caught.value.code == 400


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(PatchError, match="cannot unmarshal array") as caught:
        strategic_merge_patch("ConfigMap", {}, [1])
    assert caught.value.code == 400
