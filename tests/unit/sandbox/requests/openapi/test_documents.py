from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fairlead.api.resource import Resource
from fairlead_sandbox.builtin import builtin_types
from fairlead_sandbox.requests.openapi import OpenApiDocuments, document, index
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType, Strategy


SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A gadget.",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "metadata": {"type": "object", "description": "Said by the CRD."},
    },
}


class Described(Strategy):
    openapi = SCHEMA


GADGETS = ResourceType(
    resource=Resource("ex.org", "v1", "gadgets", "Gadget"),
    singular="gadget",
    collection="gadgets.ex.org",
    strategy=Described(),
    subresources=["status"],
    custom=True,
)
GVK = {"group": "ex.org", "version": "v1", "kind": "Gadget"}


def test_the_index_names_every_version_once() -> None:
    paths = index([*builtin_types(), GADGETS])["paths"]
    for name in ("api/v1", "apis/ex.org/v1"):
        url, _, digest = paths[name]["serverRelativeURL"].partition("?hash=")
        assert url == f"/openapi/v3/{name}"
        assert digest


def test_the_index_has_a_hash_of_each_document() -> None:
    other = dataclasses.replace(GADGETS, subresources=[])
    hashes = [
        index([type_])["paths"]["apis/ex.org/v1"]["serverRelativeURL"]
        for type_ in (GADGETS, GADGETS, other)
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_patch_says_that_the_server_validates() -> None:
    paths = document([GADGETS])["paths"]
    patch = paths["/apis/ex.org/v1/namespaces/{namespace}/gadgets/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == GVK
    names = {parameter["name"] for parameter in patch["parameters"]}
    assert {"fieldValidation", "dryRun", "fieldManager"} <= names


def test_a_get_leads_to_the_schema() -> None:
    found = document([GADGETS])
    get = found["paths"]["/apis/ex.org/v1/namespaces/{namespace}/gadgets"]["get"]
    assert get["x-kubernetes-group-version-kind"] == GVK
    ref = get["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    schema = found["components"]["schemas"][ref.rpartition("/")[2]]
    assert schema["x-kubernetes-group-version-kind"] == [GVK]
    assert schema["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert schema["properties"]["metadata"]["description"] == "Said by the CRD."
    assert set(SCHEMA["properties"]) == {"spec", "metadata"}


def test_status_has_a_path_of_its_own() -> None:
    path = "/apis/ex.org/v1/namespaces/{namespace}/gadgets/{name}/status"
    assert set(document([GADGETS])["paths"][path]) == {"get", "put", "patch", "parameters"}


def test_every_reference_leads_somewhere() -> None:
    for types in ([GADGETS], builtin_types()):
        found = document(types)
        names = found["components"]["schemas"]
        for part in json.dumps(found).split('"#/components/schemas/')[1:]:
            assert part.partition('"')[0] in names


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/openapi/v3", True),
        ("/openapi/v3/", True),
        ("/openapi/v3/api/v1", True),
        ("/openapi/v3/apis/apps/v1", True),
        ("/openapi/v3/apis/nope/v1", False),
        ("/openapi/v3api/v1", False),
        ("/openapi/v3//api/v1", False),
        ("/openapi/v1", False),
        ("/apis", False),
    ],
)
def test_paths(path: str, there: bool) -> None:
    assert (OpenApiDocuments(ResourceRegistry(builtin_types())).answer(path) is not None) is there


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
def test_slashes_at_the_end_lead_to_one_document_in_memory(path: str) -> None:
    documents = OpenApiDocuments(ResourceRegistry(builtin_types()))
    first = documents.answer(path)
    assert first is not None
    assert documents.answer(f"{path}//") is first


def test_what_comes_later_is_described_too() -> None:
    registry = ResourceRegistry([])
    openapi = OpenApiDocuments(registry)
    assert openapi.answer("/openapi/v3/apis/ex.org/v1") is None
    registry.replace("gadgets.ex.org", [GADGETS])
    first = openapi.answer("/openapi/v3/apis/ex.org/v1")
    assert first is not None
    assert openapi.answer("/openapi/v3/apis/ex.org/v1") is first
