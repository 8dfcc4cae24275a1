"""Every edge of a CRD made of an OpenAPI document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.meta import JSON
from fairlead.konnector import bounds
from fairlead.konnector.v2.schemas.openapi import (
    SchemaDocument,
    SchemaError,
    ServedAPI,
    ServedVersion,
    definition,
)


META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
OPEN = {"type": "object", **PRESERVE}


def ref(name: str) -> JSON:
    return {"$ref": f"#/components/schemas/{name}"}


def document(spec: JSON, **components: JSON) -> bytes:
    """A document of kind Flunder, with types of Go."""
    flunder = {
        "type": "object",
        "description": "A flunder.",
        "properties": {
            "apiVersion": {"type": "string", "description": "The version."},
            "kind": {"type": "string"},
            "metadata": {"default": {}, "allOf": [ref(META)]},
            "spec": spec,
        },
        "x-kubernetes-group-version-kind": [
            {"group": "wardle.io", "version": "v1", "kind": "Flunder"}
        ],
    }
    schemas = {META: {"type": "object"}, "io.Flunder": flunder, **components}
    return msgspec.json.encode({"components": {"schemas": schemas}})


def spec_of(spec: JSON, **components: JSON) -> Any:
    schema = SchemaDocument(document(spec, **components)).schema("wardle.io", "v1", "Flunder")
    return schema["properties"]["spec"]


def test_the_envelope_is_that_of_every_kind() -> None:
    schema = SchemaDocument(document({"type": "string"})).schema("wardle.io", "v1", "Flunder")
    assert schema == {
        "type": "object",
        "description": "A flunder.",
        "properties": {
            "apiVersion": {"type": "string", "description": "The version."},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {"type": "string"},
        },
    }


INT_OR_STRING = {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}
QUANTITY = {"oneOf": [{"type": "string"}, {"type": "number"}]}
KEYED: JSON = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
    },
    "x-kubernetes-list-type": "map",
}


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        pytest.param(
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date-time"},
            id="scalar",
        ),
        pytest.param(INT_OR_STRING, {"x-kubernetes-int-or-string": True}, id="int-or-string"),
        pytest.param(QUANTITY, {"x-kubernetes-int-or-string": True}, id="quantity"),
        pytest.param({"type": "object"}, OPEN, id="raw-extension"),
        pytest.param({}, PRESERVE, id="any-value"),
        pytest.param({"type": "array"}, {"type": "array", "items": PRESERVE}, id="any-items"),
        pytest.param(
            {"type": ["string", "null"]}, {"type": "string", "nullable": True}, id="types-of-3.1"
        ),
        pytest.param({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}, id="enum"),
        pytest.param({"type": "string", "default": ""}, {"type": "string"}, id="default-of-zero"),
        pytest.param(
            {"type": "string", "default": "TCP"},
            {"type": "string", "default": "TCP"},
            id="default-of-somebody",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}},
            id="unique-items",
        ),
        pytest.param(
            {**KEYED, "x-kubernetes-list-map-keys": ["name"]},
            {**KEYED, "x-kubernetes-list-map-keys": ["name"]},
            id="map-by-a-required-key",
        ),
        pytest.param(
            {**KEYED, "x-kubernetes-list-map-keys": ["port"]},
            {key: value for key, value in KEYED.items() if key != "x-kubernetes-list-type"},
            id="map-by-a-key-that-may-be-missing",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
            {"type": "object", "properties": {"a": {"type": "string"}}, **PRESERVE},
            id="fields-and-others",
        ),
        pytest.param(
            {"oneOf": [ref("T"), {"type": "string"}]}, PRESERVE, id="choice-of-references"
        ),
        pytest.param(
            {"type": "object", "properties": {"template": {"allOf": [ref(META)]}}},
            {"type": "object", "properties": {"template": OPEN}},
            id="metadata-of-a-template",
        ),
        pytest.param(
            {"type": "string", "format": "byte", "x-kubernetes-list-type": "atomic"},
            {"type": "string", "format": "byte"},
            id="list-of-bytes",
        ),
        pytest.param(
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-patch-strategy": "merge",
            },
            {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "x-kubernetes-map-type": "atomic",
            },
            id="extensions",
        ),
    ],
)
def test_a_type_of_go(type_: JSON, schema: JSON) -> None:
    assert spec_of({"allOf": [ref("T")], "default": {}}, T=type_) == schema


def test_what_stands_beside_a_reference_stays() -> None:
    spec = {"allOf": [ref("T")], "description": "Mine.", "default": "x", "nullable": True}
    assert spec_of(spec, T={"type": "string", "description": "Its own."}) == {
        "type": "string",
        "description": "Mine.",
        "default": "x",
        "nullable": True,
    }


def test_a_schema_that_was_written_for_a_crd_stays_as_it_is() -> None:
    rule = {"rule": "self.a > 0"}
    written = {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
            "b": {"type": "object"},
            "c": {"type": "boolean", "default": False},
            "d": {"type": "object", "nullable": True, "additionalProperties": True},
        },
        "x-kubernetes-validations": [rule],
        "oneOf": [{"required": ["b"]}, {"required": ["c"]}],
    }
    assert spec_of(written) == written


def test_the_metadata_of_an_embedded_object_is_the_servers() -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        **PRESERVE,
        "properties": {"metadata": ref(META)},
    }
    assert spec_of(embedded)["properties"] == {"metadata": {"type": "object"}}


def test_a_type_that_contains_itself_is_free_there_where_the_original_frees_every_reference() -> (
    None
):
    props = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "not": ref("Props"), "items": ref("List")},
    }
    either = {"type": "array", "items": ref("Props")}
    assert spec_of(ref("Props"), Props=props, List=either)["properties"] == {
        "title": {"type": "string"},
        "not": OPEN,
        "items": {"type": "array", "items": OPEN},
    }
    assert spec_of(ref("List"), List={"type": "array", "items": ref("List")}) == {
        "type": "array",
        "items": PRESERVE,
    }


def test_a_kind_without_described_fields_keeps_all() -> None:
    body = msgspec.json.decode(document({}))
    del body["components"]["schemas"]["io.Flunder"]["properties"]["spec"]
    schema = SchemaDocument(msgspec.json.encode(body)).schema("wardle.io", "v1", "Flunder")
    assert schema["x-kubernetes-preserve-unknown-fields"] is True


def doubling() -> dict[str, JSON]:
    """Types of which each has the next one twice."""
    return {
        f"T{level}": {
            "type": "object",
            "properties": {side: ref(f"T{level + 1}") for side in ("left", "right")},
        }
        for level in range(40)
    } | {"T40": {"type": "string"}}


def repeated() -> dict[str, JSON]:
    """A type with a long text, at several places."""
    text = {"type": "string", "description": "x" * 3000}
    places = {f"f{number}": ref("Text") for number in range(9)}
    return {"T0": {"type": "object", "properties": places}, "Text": text}


def nested(levels: int) -> JSON:
    return {"type": "array", "items": nested(levels - 1)} if levels else {"type": "string"}


@pytest.mark.parametrize(
    ("spec", "components", "text"),
    [
        pytest.param(ref("Absent"), {}, "lacks Absent", id="reference-to-nothing"),
        pytest.param(
            {"$ref": "https://acme.io/schema"}, {}, "outside the document", id="reference-away"
        ),
        pytest.param(ref("T0"), doubling(), "too large", id="references-that-double"),
        pytest.param(ref("T0"), repeated(), "too large", id="text-that-is-repeated"),
        pytest.param(nested(bounds.SCHEMA_LEVELS + 1), {}, "too large", id="nested"),
        pytest.param(ref("Odd"), {"Odd": "text"}, "Odd of the OpenAPI document", id="no-schema"),
    ],
)
def test_a_schema_that_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, spec: JSON, components: dict[str, Any], text: str
) -> None:
    monkeypatch.setattr(bounds, "SCHEMA_NODES", 1000)
    monkeypatch.setattr(bounds, "SCHEMA_BYTES", 20_000)
    read = SchemaDocument(document(spec, **components))
    with pytest.raises(SchemaError, match=text):
        read.schema("wardle.io", "v1", "Flunder")


def test_a_document_that_is_none() -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        SchemaDocument(b"<html>")
    with pytest.raises(SchemaError, match="no schema for Fischer"):
        SchemaDocument(document({})).schema("wardle.io", "v1", "Fischer")


API = ServedAPI(
    group="wardle.io",
    plural="flunders",
    kind="Flunder",
    namespaced=True,
    versions=(ServedVersion("v1", status=True), ServedVersion("v1alpha1")),
    singular="flunder",
    short_names=("fl",),
    categories=("all",),
)


def test_a_crd_has_what_discovery_says() -> None:
    """The original loses short names and categories."""
    crd = definition(API, {"type": "object"})
    assert crd["metadata"] == {"name": "flunders.wardle.io"}
    assert crd["spec"] == {
        "group": "wardle.io",
        "names": {
            "plural": "flunders",
            "kind": "Flunder",
            "singular": "flunder",
            "shortNames": ["fl"],
            "categories": ["all"],
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
            },
            {"name": "v1alpha1", "served": True, "storage": False},
        ],
    }


def test_fields_of_a_kind_of_go_types_are_of_go_too() -> None:
    body = msgspec.json.decode(document(ref("T"), T={"type": "string"}))
    fields = body["components"]["schemas"]["io.Flunder"]["properties"]
    fields["phase"] = {"type": "string", "enum": ["A", "B"], "default": ""}
    schema = SchemaDocument(msgspec.json.encode(body)).schema("wardle.io", "v1", "Flunder")
    assert schema["properties"]["phase"] == {"type": "string", "enum": ["A", "B"]}


def test_selectable_fields_move_to_the_version() -> None:
    """The original loses them."""
    schema = {"type": "object", "x-kubernetes-selectable-fields": [{"fieldPath": "spec.size"}]}
    (version, _) = definition(API, schema)["spec"]["versions"]
    assert version["selectableFields"] == [{"jsonPath": ".spec.size"}]
    assert version["schema"] == {"openAPIV3Schema": {"type": "object"}}


def test_a_protected_group_has_the_word_that_servers_ask_for() -> None:
    crd = definition(msgspec.structs.replace(API, group="csi.kubernetes.io"))
    assert crd["metadata"]["annotations"]["api-approved.kubernetes.io"].startswith("unapproved")
