"""Examples made from schemas, whatever a CRD may hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.portal import bounds
from fairlead.portal.console.examples import example


TEXT: JSON = {"type": "string"}
INTEGER: JSON = {"type": "integer"}


def text(schema: Any, kind: str = "Widget", *, namespaced: bool = True) -> str:
    return example(schema, api_version="example.org/v1", kind=kind, namespaced=namespaced)


def spec(**fields: JSON) -> JSON:
    """A schema whose spec requires all these fields."""
    below = {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "object", "properties": {"spec": below}}


def of(schema: JSON) -> tuple[Any, list[str]]:
    """The placeholder of a field, and the comments of the example."""
    written = text(spec(field=schema))
    lines = (line.strip() for line in written.splitlines())
    comments = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    return yaml.safe_load(written)["spec"]["field"], comments


def test_an_example_has_the_required_fields_in_their_order() -> None:
    schema = spec(size=INTEGER, part={"type": "object", "properties": {"a": TEXT}})
    schema["properties"]["spec"]["properties"]["more"] = {"type": "string", "default": "x"}
    assert (
        text(schema)
        == """\
apiVersion: example.org/v1
kind: Widget
metadata:
  name: example
  namespace: default
spec:
  size: 1
  part: {}
"""
    )


@pytest.mark.parametrize(
    ("schema", "value", "comments"),
    [
        pytest.param(TEXT, "example", [], id="text"),
        pytest.param(INTEGER, 1, [], id="integer"),
        pytest.param({"type": "number"}, 1, [], id="number"),
        pytest.param({"type": "boolean"}, False, [], id="boolean"),
        pytest.param({**TEXT, "default": "d", "example": "e"}, "d", [], id="default"),
        pytest.param({**TEXT, "example": "e"}, "e", [], id="example"),
        pytest.param({**INTEGER, "example": "e"}, 1, [], id="example of another type"),
        pytest.param({**INTEGER, "default": True}, 1, [], id="true is no integer"),
        pytest.param({**TEXT, "enum": ["b", "a"]}, "b", ["One of b, a"], id="enum"),
        pytest.param({**TEXT, "enum": ["b"]}, "b", [], id="enum of one"),
        pytest.param(
            {**TEXT, "enum": ["b", "a"], "default": "a"}, "a", ["One of b, a"], id="enum, default"
        ),
        pytest.param(
            {**TEXT, "enum": ["b", "a"], "example": "c"}, "b", ["One of b, a"], id="not of enum"
        ),
        pytest.param(
            {**TEXT, "enum": list("abcdefghij")},
            "a",
            ["One of a, b, c, d, e, f, g, h, …"],
            id="long enum",
        ),
        pytest.param({**INTEGER, "minimum": 3}, 3, [], id="minimum"),
        pytest.param({**INTEGER, "minimum": 3, "exclusiveMinimum": True}, 4, [], id="above"),
        pytest.param({**INTEGER, "maximum": -3}, -3, [], id="maximum"),
        pytest.param({**INTEGER, "maximum": 1, "exclusiveMaximum": True}, 0, [], id="below"),
        pytest.param({**INTEGER, "minimum": 3, "multipleOf": 5}, 5, [], id="multiple"),
        pytest.param({**INTEGER, "minimum": 2.5}, 3, [], id="rounded"),
        pytest.param(
            {
                "type": "number",
                "minimum": 2,
                "maximum": 3,
                "exclusiveMinimum": True,
                "exclusiveMaximum": True,
            },
            2.5,
            [],
            id="between",
        ),
        pytest.param({**TEXT, "minLength": 9}, "exampleex", [], id="minLength"),
        pytest.param({**TEXT, "maxLength": 3}, "exa", [], id="maxLength"),
        pytest.param({**TEXT, "format": "date"}, "2030-01-01", [], id="format"),
        pytest.param({**TEXT, "format": "unknown"}, "example", [], id="unknown format"),
        pytest.param(
            {**TEXT, "pattern": "^[0-9]+Gi$"},
            "example",
            ["It has to match ^[0-9]+Gi$"],
            id="pattern",
        ),
        pytest.param({"type": "array", "items": TEXT}, ["example"], [], id="list"),
        pytest.param({"type": "array", "items": TEXT, "maxItems": 0}, [], [], id="empty list"),
        pytest.param(
            {"type": "array", "items": INTEGER, "minItems": 2},
            [1, 1],
            ["At least 2 items."],
            id="minItems",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "minItems": 9, "maxItems": 9},
            ["example"] * 5,
            ["At least 9 items."],
            id="more items than shown",
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": TEXT, "a": TEXT}},
            },
            [{"name": "example"}],
            [],
            id="keys of a list",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": INTEGER}, {"example": 1}, [], id="map"
        ),
        pytest.param({"x-kubernetes-int-or-string": True, "pattern": "x"}, 1, [], id="mixed"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, {}, [], id="any"),
        pytest.param(
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "example"}},
            [],
            id="embedded",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": TEXT, "b": TEXT},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"a": "example"},
            ["Exactly one of: a; b"],
            id="oneOf",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"a": TEXT, "b": TEXT},
                "anyOf": [{"required": ["b"], "properties": {"b": {"enum": ["x"]}}}],
                "allOf": [{"required": ["a"]}],
            },
            {"a": "example", "b": "x"},
            [],
            id="allOf and anyOf",
        ),
        pytest.param(
            {
                **TEXT,
                "x-kubernetes-validations": [
                    {"rule": "self == oldSelf", "message": "never changes"},
                    {"rule": "self != 'x'", "message": "is not x"},
                    {"rule": "true"},
                ],
            },
            "example",
            ["is not x"],
            id="rules",
        ),
        pytest.param(
            {"type": "object", "required": ["z"]}, {"z": "example"}, [], id="unexplained"
        ),
        pytest.param({**TEXT, "default": "x" * 3000}, "example", [], id="large default"),
        pytest.param({**INTEGER, "minimum": 10**400}, 1, [], id="huge minimum"),
        pytest.param({**INTEGER, "default": 10**9000}, 1, [], id="huge default"),
    ],
)
def test_a_placeholder_fits_its_schema(schema: JSON, value: Any, comments: list[str]) -> None:
    placeholder, lines = of(schema)
    # As JSON, for in Python true is 1.
    assert json.dumps(placeholder) == json.dumps(value)
    assert lines == comments


def test_what_no_field_requires_says_so() -> None:
    assert text({"properties": {"spec": {"type": "object"}}}).endswith(
        "# No field is required.\nspec: {}\n"
    )


def test_what_no_field_requires_names_the_fields() -> None:
    names = [f"f{number}" for number in range(9)]
    below = {"type": "object", "properties": dict.fromkeys(names, TEXT)}
    assert "# No field is required. There are f0, f1, f2, f3, f4, f5, f6, f7, …\n" in text(
        {"properties": {"spec": below}}
    )


def test_the_author_of_a_kind_gives_the_example_of_its_spec() -> None:
    below = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "example": {"b": "x"}}
    assert text({"properties": {"spec": below}}).endswith("spec:\n  b: x\n")


def test_fields_beside_the_spec() -> None:
    schema = {"properties": {"data": TEXT, "status": TEXT}, "required": ["data", "status", "kind"]}
    body = yaml.safe_load(text(schema, namespaced=False))
    assert body["metadata"] == {"name": "example"}
    assert body["data"] == "example"
    assert "status" not in body


@pytest.mark.parametrize("resource", [POSTGRESACCESSES, SERVICEBINDINGS], ids=lambda one: one.kind)
def test_fairleads_own_kinds_have_examples_of_their_own(resource: Any) -> None:
    written = example(
        {}, api_version=resource.api_version, kind=resource.kind, namespaced=resource.namespaced
    )
    body = yaml.safe_load(written)
    assert body["kind"] == resource.kind
    assert body["spec"]


@pytest.mark.parametrize("gap", ["\n", "\r", "\x85", "\u2028", "\x0b", "\x1c"], ids=ascii)
def test_a_comment_of_a_crd_stays_a_comment(gap: str) -> None:
    pattern = f"a{gap}evil: true{gap}\u202e# b\x00"
    for field in ({**TEXT, "pattern": pattern}, {**TEXT, "enum": [pattern, "b"], "default": "b"}):
        written = text(spec(first=TEXT, second=field))
        assert list(yaml.safe_load(written)["spec"]) == ["first", "second"]
        (comment,) = [line for line in written.split("\n") if "#" in line]
        assert comment.isprintable()
        assert "evil: true" in comment


def test_comments_stand_above_their_fields() -> None:
    inner = {"type": "object", "properties": {"b": {**TEXT, "pattern": "x"}}, "required": ["b"]}
    text_of_lines = {**TEXT, "default": "# not\n\n  a: comment\n"}
    written = text(spec(a=text_of_lines, items={"type": "array", "items": inner}))
    assert written.endswith(
        "  a: |\n    # not\n\n      a: comment\n  items:\n  # It has to match x\n  - b: example\n"
    )


def grown(levels: int) -> JSON:
    below = {f"f{n}": grown(levels - 1) if levels else TEXT for n in range(6)}
    return {"type": "object", "properties": below, "required": list(below)}


def deep(word: str) -> JSON:
    schema = TEXT
    for _ in range(5000):
        below = {"x": schema} if word == "properties" else schema
        kind = "array" if word == "items" else "object"
        schema = {"type": kind, word: below, "required": ["x"], "minItems": 1}
    return schema


def branched() -> JSON:
    schema: JSON = {"required": ["x"]}
    for _ in range(5000):
        schema = {"allOf": [schema], "oneOf": [{"properties": {"x": schema}}], "required": ["x"]}
    return {"type": "object", **schema}


WIDE = {f"f{n}": {"type": "string", "default": "x" * 1000} for n in range(9999)}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(grown(5), id="tree"),
        pytest.param({"properties": WIDE, "required": list(WIDE)}, id="wide"),
        pytest.param(
            {"properties": {"x" * 999_999: TEXT}, "required": ["x" * 999_999]}, id="name"
        ),
        pytest.param({"required": ["x" * 999_999, *map(str, range(99_999))]}, id="names"),
        pytest.param({"type": "array", "items": TEXT, "minItems": 10**9}, id="list"),
        pytest.param({**TEXT, "minLength": 10**9}, id="text"),
        pytest.param({"type": "array", "default": ["x"] * 9999}, id="default"),
        pytest.param({"enum": [["x"] * 9999, "x" * 999_999, *range(9999)]}, id="choices"),
        pytest.param({**TEXT, "pattern": "x" * 999_999}, id="pattern"),
        pytest.param(deep("properties"), id="deep fields"),
        pytest.param(deep("items"), id="deep lists"),
        pytest.param(deep("additionalProperties"), id="deep maps"),
        pytest.param({"default": deep("items")}, id="deep default"),
        pytest.param({"default": json.loads('{"a":' * 60 + "1" + "}" * 60)}, id="nested default"),
        pytest.param(branched(), id="deep branches"),
        pytest.param({"allOf": [{"anyOf": [{"required": ["x"]}] * 999}] * 999}, id="branches"),
    ],
)
def test_a_hostile_schema_ends(schema: JSON) -> None:
    written = text(spec(field=schema))
    assert len(written) < 5 * bounds.EXAMPLE_CHARACTERS
    assert (
        max(len(line) - len(line.lstrip()) for line in written.split("\n"))
        <= 2 * bounds.EXAMPLE_LEVELS + 2
    )
    yaml.safe_load(written)


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "properties",
                        "items",
                        "required",
                        "enum",
                        "default",
                        "format",
                        "spec",
                    ),
                    *(
                        "additionalProperties",
                        "pattern",
                        "minItems",
                        "maxItems",
                        "minLength",
                        "allOf",
                    ),
                    *("minimum", "multipleOf", "oneOf", "anyOf", "x-kubernetes-validations"),
                    *("x-kubernetes-list-map-keys", "message", "example", "maxLength"),
                ]
            ),
            inner | st.sampled_from(["object", "array", "string", "integer", "number"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(schema=odd, field=odd)
def test_whatever_stands_in_a_schema(schema: Any, field: Any) -> None:
    assert yaml.safe_load(text(schema))["kind"] == "Widget"
    assert "field" in yaml.safe_load(text(spec(field=field)))["spec"]


@pytest.mark.parametrize("schema", [None, {}, [], "x", {"properties": None}], ids=repr)
def test_no_schema(schema: Any) -> None:
    assert yaml.safe_load(text(schema))["kind"] == "Widget"
