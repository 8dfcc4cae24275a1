"""Schemas as people read them, whatever a CRD may hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.portal import bounds
from fairlead.portal.console.offers.catalogue import fields


SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size", "kind"],
            "properties": {
                "size": {"type": "integer", "format": "int32", "description": "How large."},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "port": {"x-kubernetes-int-or-string": True, "default": 80},
                "parts": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
            },
        }
    },
}


def test_fields_are_told_in_their_order() -> None:
    told = [(one.name, one.depth, one.type, one.required) for one in fields(SCHEMA)]
    assert told == [
        ("spec", 0, "object", False),
        ("size", 1, "integer (int32)", True),
        ("kind", 1, "string", True),
        ("tags", 1, "list of string", False),
        ("labels", 1, "map of string", False),
        ("port", 1, "integer or string", False),
        ("parts", 1, "list of object", False),
        ("name", 2, "string", False),
    ]
    assert fields(SCHEMA)[2].values == ("a", "b")
    assert fields(SCHEMA)[5].default == "80"


def test_a_deep_and_a_wide_schema_end() -> None:
    deep: JSON = {"type": "object", "properties": {"end": {"type": "string"}}}
    for _ in range(3 * bounds.SCHEMA_LEVELS):
        deep = {"type": "object", "properties": {"inner": deep}}
    shown = fields(deep)
    assert len(shown) == bounds.SCHEMA_LEVELS
    assert shown[-1].more
    wide = {"properties": {f"f{n}": {"type": "string"} for n in range(2 * bounds.SCHEMA_ROWS)}}
    assert len(fields(wide)) == bounds.SCHEMA_ROWS


@pytest.mark.parametrize("word", ["items", "additionalProperties"])
def test_lists_of_lists_end(word: str) -> None:
    inner: JSON = {"type": "object", "properties": {"end": {"type": "string"}}}
    for _ in range(5000):
        inner = {"type": "array" if word == "items" else "object", word: inner}
    found = fields({"properties": {"x": inner}})
    assert [one.name for one in found] == ["x", "end"]
    told = "list of " if word == "items" else "map of "
    assert found[0].type == told * bounds.SCHEMA_LEVELS + "…"


def test_defaults_and_values_are_cut() -> None:
    long = ["x" * 10_000]
    (found,) = fields({"properties": {"x": {"default": long, "enum": long}}})
    assert len(found.default) < 500
    assert len(found.values[0]) < 500


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "properties", "items", "required", "enum", "default", "format"),
                    *("additionalProperties", "description", "minItems", "spec"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(schema=odd)
def test_whatever_stands_in_a_schema(schema: Any) -> None:
    assert len(fields(schema)) <= bounds.SCHEMA_ROWS


@pytest.mark.parametrize("schema", [None, {}, [], "x", {"properties": None}], ids=repr)
def test_no_schema(schema: Any) -> None:
    assert fields(schema) == []
