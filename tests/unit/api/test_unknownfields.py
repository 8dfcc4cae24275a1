"""Fields that no schema knows."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.crd import object_schema
from fairlead.api.kubebind import provider_crds
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.unknownfields import refusal, unknown_fields


OPEN = {
    "type": "object",
    "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "deep": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"colour": {}}},
        },
    },
}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param({"labels": {"a": "b"}, "any": {"c": 1}}, [], id="open"),
        pytest.param({"deep": {"a": {"colour": 1}}}, [], id="in-a-map"),
        pytest.param(
            {"deep": {"a": {"color": 1}}},
            ["deep['a'].color: there is no such field; did you mean colour?"],
            id="unknown-in-a-map",
        ),
        pytest.param(
            {"zzz": 1}, ["zzz: there is no such field; there are any, deep, labels"], id="far"
        ),
        pytest.param(
            {"Labels": {}}, ["Labels: there is no such field; did you mean labels?"], id="case"
        ),
        pytest.param({True: 1}, ["True: there is no such field"], id="no-text"),
        pytest.param({"labels": 1, "any": None}, [], id="another-type"),
    ],
)
def test_what_a_schema_does_not_know(body: dict[Any, Any], told: list[str]) -> None:
    found = unknown_fields(body, OPEN)
    assert len(found) == len(told)
    assert all(one.startswith(said) for one, said in zip(found, told, strict=True))


def test_what_servers_write_is_known() -> None:
    body = {
        "apiVersion": "v",
        "kind": "k",
        "metadata": {"name": "a", "managedFields": [], "labels": {"any": "x"}, "selfLink": ""},
        "status": {"whatever": 1},
    }
    assert refusal(body, object_schema(PostgresAccess)) == ""


def test_many_are_told_by_the_first() -> None:
    body = {f"unknown{number}": 1 for number in range(5)}
    text = refusal(body, OPEN)
    assert text.count("there is no such field") == 3
    assert text.endswith("; and 2 more")


def test_every_schema_of_ours_knows_its_own_fields() -> None:
    for crd in provider_crds():
        for version in crd["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            assert unknown_fields({name: {} for name in schema["properties"]}, schema) == []
