from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd, structural_schema
from fairlead.api.resource import Resource


class Ref(Struct, rename="camel"):
    """A reference."""

    name: Annotated[str, Meta(min_length=1)]
    port: Annotated[int, Meta(ge=1, extra_json_schema={"x-default": 5432})] = 5432


class Spec(Struct, rename="camel"):
    server_ref: Annotated[
        Ref | None, Meta(description="Which server", extra_json_schema={"x-kubernetes-a": 1})
    ] = None
    mode: Literal["A", "B"] = "A"


class Widget(Struct, rename="camel"):
    """A widget."""

    spec: Spec
    metadata: dict[str, Any] = {}


class Holder(Struct):
    value: Any = None


def schema_of(type_: Any) -> Any:
    return structural_schema(type_)


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        pytest.param(str, {"type": "string"}, id="string"),
        pytest.param(bool | None, {"type": "boolean"}, id="optional"),
        pytest.param(Literal["x", "y"], {"type": "string", "enum": ["x", "y"]}, id="enum"),
        pytest.param(int | str, {"x-kubernetes-int-or-string": True}, id="int-or-string"),
        pytest.param(list[str], {"type": "array", "items": {"type": "string"}}, id="list"),
        pytest.param(
            dict[str, str],
            {"type": "object", "additionalProperties": {"type": "string"}},
            id="map",
        ),
        pytest.param(
            dict[str, Any],
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="free-object",
        ),
        pytest.param(Any, {"x-kubernetes-preserve-unknown-fields": True}, id="anything"),
        pytest.param(
            list[Any],
            {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
            id="list-of-anything",
        ),
    ],
)
def test_structural_schemas(type_: Any, schema: Any) -> None:
    assert schema_of(type_) == schema


def test_references_are_inlined_and_keep_what_the_field_says() -> None:
    server_ref = schema_of(Spec)["properties"]["serverRef"]
    assert server_ref["description"] == "Which server"
    assert server_ref["x-kubernetes-a"] == 1
    assert server_ref["required"] == ["name"]
    assert server_ref["properties"]["port"] == {"type": "integer", "minimum": 1, "default": 5432}


def test_defaults_of_the_types_stay_pythons_own() -> None:
    assert "default" not in schema_of(Spec)["properties"]["mode"]


def test_choices_that_no_structural_schema_has_are_refused() -> None:
    with pytest.raises(TypeError, match="choice"):
        schema_of(int | list[str])


def test_types_that_contain_themselves_are_refused() -> None:
    tree = msgspec.defstruct("Tree", [("children", "list[Tree]")], module=__name__)
    globals()["Tree"] = tree
    with pytest.raises(TypeError, match="contains itself"):
        schema_of(tree)


def test_a_crd_is_ready_to_be_created() -> None:
    column = PrinterColumn("Mode", ".spec.mode", priority=1)
    crd = build_crd(
        Resource("example.org", "v1", "widgets", "Widget", namespaced=False),
        [Version("v1", Widget, columns=[column, AGE]), Version("v1beta1", Widget, storage=False)],
        short_names=["wd"],
        labels={"a": "b"},
    )
    assert crd["metadata"] == {"name": "widgets.example.org", "labels": {"a": "b"}}
    spec = crd["spec"]
    assert spec["scope"] == "Cluster"
    assert spec["names"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    first, second = spec["versions"]
    assert first["additionalPrinterColumns"][0] == {
        "name": "Mode",
        "jsonPath": ".spec.mode",
        "type": "string",
        "priority": 1,
    }
    assert (first["storage"], second["storage"]) == (True, False)
    schema = first["schema"]["openAPIV3Schema"]
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["required"] == ["spec"]


class Empty(Struct):
    """Nothing can be said of it yet."""


def test_an_object_without_fields_is_as_servers_store_it() -> None:
    assert schema_of(Empty) == {"description": Empty.__doc__, "type": "object"}
