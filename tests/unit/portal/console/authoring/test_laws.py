"""What holds for every schema: an object that fits it goes through its form unchanged."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.htmlforms import shown

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import Blank, read, start
from fairlead.portal.console.authoring.checking import problems
from fairlead.portal.console.authoring.defaults import without_defaults
from fairlead.portal.console.authoring.facts import encode
from fairlead.portal.console.authoring.printing import as_yaml


class Pair(NamedTuple):
    """A schema and the values that fit it."""

    schema: JSON
    values: st.SearchStrategy[Any]


NAMES = st.sampled_from(
    [*("a", "b.c", "d e", "<i>&amp;", "on", "true", "%2E", "!row", "0", "ü", "name", "x" * 60)]
)
_LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")
lines = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=9)
texts = st.text(_LETTERS, min_size=1, max_size=9) | st.sampled_from(
    ["yes", "null", "1e3", "0o17", " a", "\n", "a\nb\n", "</textarea>", "&lt;", "{{ 7 }}"]
)
full_lines = lines.filter(str.strip)
whole = st.integers(-(2**63), 2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False) | whole
free = st.recursive(
    st.none() | st.booleans() | whole | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
scalars = st.sampled_from(
    [
        Pair({"type": "string", "maxLength": 60}, lines),
        Pair({"type": "string", "format": "x", "default": "d"}, lines),
        Pair({"type": "string"}, texts),
        Pair({"type": "integer", "minimum": 0}, st.integers(0, 2**63 - 1)),
        Pair({"type": "integer", "default": 7}, whole),
        Pair({"type": "number"}, numbers),
        Pair({"type": "boolean"}, st.booleans()),
        Pair({"type": "boolean", "default": True}, st.booleans()),
        Pair({"x-kubernetes-int-or-string": True}, whole | lines | st.sampled_from(["80", '"'])),
        Pair({"enum": ["", "a", 1, True, None, {"b": [2]}]}, st.sampled_from(["", 1, True, None])),
        Pair({"type": "string", "enum": ["b", "a"], "default": "a"}, st.sampled_from("ab")),
    ]
)
flat = st.sampled_from(
    [
        Pair(
            {"type": "array", "items": {"type": "string"}},
            st.lists(full_lines, min_size=1, max_size=3),
        ),
        Pair(
            {"type": "array", "items": {"type": "integer"}, "default": [1, 2]},
            st.lists(whole, max_size=3),
        ),
        Pair(
            {"type": "array", "items": {"enum": ["a", "b", "c"]}},
            st.sampled_from([["a"], ["b", "c"], ["a", "b", "c"]]),
        ),
        Pair({"x-kubernetes-preserve-unknown-fields": True}, free),
        Pair(
            {"type": "object", "additionalProperties": True},
            st.dictionaries(texts, free, max_size=3),
        ),
        Pair({"type": "object"}, st.just({})),
    ]
)


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    item = draw(inner)
    if not {"type", "x-kubernetes-int-or-string", "enum"} & item.schema.keys():
        return item
    if item.schema.get("type") in {"string", "integer", "number"} or "enum" in item.schema:
        found: Pair = draw(flat)
        return found
    # A text or a number of a list stands in one line.
    if "x-kubernetes-int-or-string" in item.schema:
        return Pair({"type": "array", "items": item.schema}, st.lists(whole, min_size=1))
    return Pair(
        {"type": "array", "items": item.schema}, st.lists(item.values, min_size=1, max_size=3)
    )


@st.composite
def maps(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    item = draw(inner)
    keys = lines.map(str.strip).filter(bool)
    values = st.dictionaries(keys, item.values, min_size=1, max_size=3)
    return Pair({"type": "object", "additionalProperties": item.schema}, values)


@st.composite
def groups(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    fields = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=4))
    required = draw(st.lists(st.sampled_from(sorted(fields)), unique=True))
    schema: JSON = {
        "type": "object",
        "properties": {name: one.schema for name, one in fields.items()},
        "required": required,
    }
    values = st.fixed_dictionaries(
        {name: fields[name].values for name in required},
        optional={name: one.values for name, one in fields.items() if name not in required},
    )
    if draw(st.booleans()):
        schema["x-kubernetes-preserve-unknown-fields"] = True
        more = st.dictionaries(st.sampled_from(["more", "yes", "1"]), free, max_size=2)
        values = st.tuples(values, more).map(lambda both: both[0] | both[1])
    return Pair(schema, values)


nested = st.recursive(
    scalars | flat, lambda inner: groups(inner) | lists(inner) | maps(inner), max_leaves=5
)


@given(pair=groups(nested), data=st.data())
def test_an_object_made_at_random_goes_through_its_form_unchanged(
    pair: Pair, data: st.DataObject
) -> None:
    unchanged(pair.schema, data.draw(pair.values))


MIXED: JSON = {"x-kubernetes-int-or-string": True}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *(
            (MIXED, value)
            for value in (80, "80", "-1", "+5", "", '"', '"80"', " a", "a\nb", "25%")
        ),
        *(({"type": "string"}, value) for value in ("\n\na", "a\n", " ", "</textarea>", "&lt;")),
        ({"type": "string", "maxLength": 9}, " \"'&"),
        ({"type": "string", "enum": ["", " ", "a"]}, ""),
        ({"type": "array", "items": MIXED}, ["80", 80, "a b", '"']),
        ({"type": "array", "items": {"type": "number"}}, [1, 1.5, 1e22]),
        ({"enum": [1, True, 1.0, "1", None], "nullable": True}, True),
        ({"enum": [1, True, 1.0, "1", None], "nullable": True}, None),
        ({"properties": {"b.c": {}, "b": {"properties": {"c": {}}}}}, {"b.c": 1, "b": {"c": 2}}),
        ({"properties": {"a": {"type": "boolean", "default": True}}}, {}),
        ({"properties": {"a": {"type": "boolean", "default": True}}}, {"a": False}),
    ],
    ids=repr,
)
def test_values_of_note_go_through_a_form(schema: JSON, value: Any) -> None:
    # Alone, and in a row of a map.
    unchanged(schema, value)
    unchanged({"type": "object", "additionalProperties": schema}, {"on": value})


def unchanged(fields_schema: JSON, fields: Any) -> None:
    metadata = {"name": "one", "namespace": "shop"}
    schema = {"properties": {"spec": fields_schema}}
    wanted: JSON = {"apiVersion": "v1", "kind": "Odd", "metadata": metadata, "spec": fields}
    assert problems(schema, {"spec": fields}) == []
    blank = Blank("v1", "Odd", True, schema)
    form = read(blank, shown(start(blank, wanted)).fields)
    assert form.problems == []
    assert form.object is not None
    assert encode(form.object) == encode(without_defaults(schema, wanted))
    assert yaml.safe_load(form.yaml) == form.object
    again = read(blank, shown(form).fields)
    assert again.object == form.object


@given(pair=groups(nested))
def test_a_blank_form_says_only_what_is_required(pair: Pair) -> None:
    blank = Blank("v1", "Odd", False, {"properties": {"spec": pair.schema}})
    form = read(blank, [("!name", "one"), *shown(start(blank)).fields[1:]])
    assert form.problems == []
    assert form.object == {"apiVersion": "v1", "kind": "Odd", "metadata": {"name": "one"}}


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "properties", "items", "required", "enum", "default", "format"),
                    *("additionalProperties", "description", "minItems", "maxItems", "pattern"),
                    *(
                        "minimum",
                        "maxLength",
                        "multipleOf",
                        "x-kubernetes-validations",
                        "nullable",
                    ),
                    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "spec"),
                    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"),
                ]
            ),
            inner
            | st.sampled_from(["object", "array", "string", "integer", "number", "boolean", True]),
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(schema=odd, extra=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=5))
def test_whatever_stands_in_a_schema(schema: Any, extra: list[tuple[str, str]]) -> None:
    whole = {"type": "object", "properties": {"spec": schema}}
    for one in (schema, whole):
        blank = Blank("v1", "Odd", True, one)
        page = shown(start(blank))
        for button in [*page.buttons, ("", "")]:
            form = read(blank, [*page.fields, *extra, button])
            shown(form)
            assert form.yaml or form.problems or button[0]


@given(schema=odd, value=free)
def test_any_value_can_be_checked(schema: Any, value: Any) -> None:
    if isinstance(schema, dict):
        assert len(problems(schema, value)) <= 100
        without_defaults(schema, value)


@given(value=free)
def test_what_is_printed_is_read_the_same(value: Any) -> None:
    assert yaml.safe_load(as_yaml(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        *("y", "N", "yes", "on", "Off", "true", "null", "~", "", "1", "-1", "+1", "1_000", "1e3"),
        *("1E+3", "0x1F", "0o17", "0b1", "017", ".5", "1.", "12:30:45", "2020-01-01", "=", "<<"),
    ],
)
def test_texts_that_look_like_others_are_in_quotes(text: str) -> None:
    for written in (as_yaml({"a": text}), as_yaml({text: "a"}), as_yaml([text])):
        assert f"'{text}'" in written


def test_texts_that_are_plain_are_without_quotes() -> None:
    value = {"a": "720h", "b": "one two", "c": "üb", "d": "line\nline\n", "e": [{"f": "g" * 300}]}
    assert as_yaml(value) == (
        f"a: 720h\nb: one two\nc: üb\nd: |\n  line\n  line\ne:\n- f: {'g' * 300}\n"
    )
