from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fairlead_sandbox.schema import compile_schema


STRING = {"type": "string"}
SPEC: dict[str, Any] = {
    "d": {"type": "string", "default": "x"},
    "dn": {"type": "string", "default": "x", "nullable": True},
    "o": {"type": "object", "properties": {"a": {"type": "string", "default": "y"}}},
    "od": {
        "type": "object",
        "default": {},
        "properties": {"a": {"type": "string", "default": "y"}, "b": STRING},
    },
    "l": {"type": "array", "items": {"type": "string", "default": "i"}},
    "l2": {
        "type": "array",
        "items": {
            "type": "object",
            "nullable": True,
            "properties": {"a": {"type": "string", "default": "z"}},
        },
    },
    "l3": {"type": "array", "items": STRING},
    "ap": {"type": "object", "additionalProperties": STRING},
    "apd": {"type": "object", "additionalProperties": {"type": "string", "default": "q"}},
    "apn": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
    "apt": {"type": "object", "additionalProperties": True},
    "p": {"x-kubernetes-preserve-unknown-fields": True},
    "po": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": {"type": "object", "properties": {"k": STRING}}},
    },
    "er": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object", "properties": {"a": STRING}}},
    },
    "any": {"type": "object"},
    "ios": {"x-kubernetes-int-or-string": True},
}
SCHEMA = compile_schema(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}}
)
DEFAULTS = {"d": "x", "dn": "x", "od": {"a": "y"}}
RESOURCE = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "zz": 1}}


# Each row was seen on kube-apiserver 1.20.
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="defaults alone"),
        pytest.param({"d": None, "dn": None, "od": None}, {"dn": None}, id="nulls"),
        pytest.param({"o": {}}, {"o": {"a": "y"}}, id="inside"),
        pytest.param({"o": None, "p": None, "ios": None}, {}, id="nulls without default"),
        pytest.param({"l": [None, "a"]}, {"l": ["i", "a"]}, id="null item with default"),
        pytest.param({"l2": [None, {}]}, {"l2": [None, {"a": "z"}]}, id="nullable item"),
        pytest.param({"l3": [None]}, {"l3": [None]}, id="null item stays"),
        pytest.param({"ap": {"x": None}}, {"ap": {}}, id="null value"),
        pytest.param({"apd": {"x": None}}, {"apd": {"x": "q"}}, id="null value with default"),
        pytest.param({"apn": {"x": None}}, {"apn": {"x": None}}, id="nullable value"),
        pytest.param({"zz": 1, "any": {"x": 1}}, {"any": {}}, id="unknown"),
        pytest.param({"apt": {"x": {"y": 1}}}, {"apt": {"x": {}}}, id="any value"),
        pytest.param({"p": {"a": {"b": 1}}}, {"p": {"a": {"b": 1}}}, id="preserved"),
        pytest.param(
            {"po": {"zz": {"q": 1}, "a": {"k": "1", "zz": 2}}},
            {"po": {"zz": {"q": 1}, "a": {"k": "1"}}},
            id="preserved but what is described",
        ),
        pytest.param(
            {"po": {"a": None, "z": None}}, {"po": {"z": None}}, id="nulls beside preserved"
        ),
        pytest.param(
            {"er": RESOURCE | {"foo": 1, "spec": {"a": "b", "c": "d"}}},
            {"er": RESOURCE | {"spec": {"a": "b"}}},
            id="embedded",
        ),
    ],
)
def test_pruned_and_completed(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    obj = {"apiVersion": "e/v1", "kind": "T", "metadata": {"name": "a"}, "spec": deepcopy(spec)}
    SCHEMA.prune(obj)
    SCHEMA.default(obj)
    assert obj["spec"] == DEFAULTS | expected
    assert obj.keys() == {"apiVersion", "kind", "metadata", "spec"}


def test_the_root_keeps_its_envelope_and_drops_the_rest() -> None:
    obj = {"apiVersion": "e/v1", "kind": "T", "metadata": {"x": 1}, "foo": 1}
    SCHEMA.prune(obj)
    assert obj == {"apiVersion": "e/v1", "kind": "T", "metadata": {"x": 1}}


def test_defaults_are_copies() -> None:
    first: dict[str, Any] = {"spec": {}}
    second: dict[str, Any] = {"spec": {}}
    SCHEMA.default(first)
    first["spec"]["od"]["a"] = "changed"
    SCHEMA.default(second)
    assert second["spec"]["od"] == {"a": "y"}
