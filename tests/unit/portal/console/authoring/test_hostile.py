"""Schemas and forms that mean ill: they cost no more than honest ones, and run nothing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.support.htmlforms import Fields, shown

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import Blank, read, start
from fairlead.portal.console.authoring.entries import ROWS, WEIGHT
from fairlead.portal.console.authoring.inputs import DEEPEST, MOST, OPTIONS, Input, describe


MARKUP = "\"'><script>alert(1)</script>&amp;<b>{{ 7 * 7 }}{% raw %}"
NAMED: Fields = [("!name", "one"), ("!namespace", "shop")]
TEXT: JSON = {"type": "string"}


def blank(schema: Any) -> Blank:
    return Blank("example.org/v1", "Widget", True, schema)


def fields(**inner: Any) -> JSON:
    return {"type": "object", "properties": inner}


def inputs(one: Input) -> int:
    below = [*one.children, *([one.item] if one.item else [])]
    return 1 + sum(map(inputs, below))


def depth(one: Input) -> int:
    below = [*one.children, *([one.item] if one.item else [])]
    return 1 + max(map(depth, below), default=0)


def deep(levels: int, kind: str) -> JSON:
    schema: JSON = TEXT
    for _ in range(levels):
        schema = {
            "object": fields(inner=schema),
            "list": {"type": "array", "items": schema},
            "map": {"type": "object", "additionalProperties": schema},
        }[kind]
    return schema


def tree(levels: int, width: int) -> JSON:
    below = {f"f{n}": tree(levels - 1, width) if levels else TEXT for n in range(width)}
    return {"type": "object", "properties": below, "required": ["f0"]}


def test_ten_thousand_fields() -> None:
    schema = fields(**{f"f{n}": TEXT for n in range(10_000)})
    found = describe(schema)
    assert len(found.children) == MOST
    form = read(blank(schema), [*NAMED, ("f3", "x"), ("!rest", "f9999: yes it is\n")])
    assert form.object is not None
    assert (form.object["f3"], form.object["f9999"]) == ("x", "yes it is")
    assert "9,600 more fields have no input here" in shown(form).text
    form = read(blank(schema), [*NAMED, ("!rest", "g: 1\nf9999: 2")])
    assert [one.message for one in form.problems] == [
        "g is not a known field",
        "f9999 has to be text",
    ]


@pytest.mark.parametrize("kind", ["object", "list", "map"])
def test_a_hundred_levels(kind: str) -> None:
    schema = fields(spec=deep(100, kind))
    assert depth(describe(schema)) <= DEEPEST + 2
    page = shown(start(blank(schema)))
    for _ in range(2 * DEEPEST):
        added = [one for one in page.buttons if one[0] == "!add"]
        page = shown(read(blank(schema), [*page.fields, *added[:1]]))
    assert len(page.fields) < 4 * DEEPEST * DEEPEST


def test_a_tree_of_a_million_fields_has_inputs_for_the_outer_ones() -> None:
    level = tree(0, 10)
    for _ in range(5):
        # The same schema in many places, as a decoder with references would make it.
        level = {"type": "object", "properties": {f"f{n}": level for n in range(10)}}
    found = describe(fields(spec=level, last=TEXT))
    assert inputs(found) <= MOST + 1
    assert found.children[-1].kind == "long"
    assert {one.kind for one in found.children[0].children} == {"group"}
    shown(start(blank(fields(spec=level, last=TEXT))))


def test_enumerations_are_bounded() -> None:
    many = {"type": "string", "enum": [f"v{n}" for n in range(150)]}
    schema = fields(**{f"f{n}": many for n in range(100)})
    page = shown(start(blank(schema)))
    assert page.html.count("<option") < OPTIONS + 200
    form = read(blank(schema), [*NAMED, ("f99", "v149")])
    assert form.object is not None
    assert form.object["f99"] == "v149"
    assert read(blank(schema), [*NAMED, ("f99", "v150")]).problems
    huge = fields(f={"enum": ["x" * 1000] * 3 + list(range(100_000))})
    shown(start(blank(huge)))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(", "(?P<x>", "[" * 2000, "a{1000}{1000}"])
def test_no_pattern_is_run(pattern: str) -> None:
    schema = fields(f={"type": "string", "pattern": pattern})
    form = read(blank(schema), [*NAMED, ("f", "a" * 5000 + "!")])
    assert form.object is not None
    page = shown(form)
    assert " pattern=" not in page.html
    assert (pattern in page.text) == (len(pattern) < 200)


@pytest.mark.parametrize(
    "default",
    [
        deep(900, "object"),
        "x" * 100_000,
        [[]] * 30_000,
        float("inf"),
        {"a": float("nan")},
        10**400,
        {1: 2},
        b"x",
    ],
    ids=["deep", "long", "wide", "infinite", "nan", "large", "keys", "bytes"],
)
def test_defaults_that_are_no_values(default: Any) -> None:
    for schema in (TEXT, {}, fields(a=TEXT), {"enum": [default]}, {"type": "number"}):
        wanted = blank(fields(f=schema | {"default": default}))
        page = shown(start(wanted))
        assert not dict(page.fields).get("f")
        assert "Default:" not in page.text
        form = read(wanted, [*NAMED, ("!brief", "true")])
        assert form.object is not None


def test_words_of_other_types_count_as_none() -> None:
    wrong: list[Any] = [None, [], {}, "x", -1, True, 1.5, float("nan")]
    names = [
        *("type", "properties", "items", "required", "enum", "format", "description", "pattern"),
        *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "nullable"),
        *("x-kubernetes-validations", "x-kubernetes-list-map-keys", "additionalProperties"),
    ]
    for name in names:
        for value in wrong:
            for base in (
                TEXT,
                {"type": "array", "items": TEXT},
                fields(a=TEXT),
                {"type": "integer"},
            ):
                wanted = blank(fields(f=base | {name: value}))
                shown(read(wanted, [*NAMED, ("f", "1"), ("f.a", "1"), ("f.0!row", "")]))


def test_rows_in_rows_are_bounded() -> None:
    wide = fields(**{f"f{n}": TEXT for n in range(60)})
    inner = {"type": "array", "items": wide}
    schema = fields(outer={"type": "array", "items": fields(inner=inner)})
    rows: Fields = []
    for one in range(70):
        rows.append((f"outer.{one}!row", ""))
        rows += [(f"outer.{one}.inner.{two}!row", "") for two in range(70)]
    form = read(blank(schema), [*NAMED, *rows])
    assert sum(1 for _ in form.root.walk()) < WEIGHT + 1000
    assert form.object is None
    assert "has more than a form can show" in form.problems[0].message
    assert len(form.root.children[0].rows) <= ROWS


def test_names_of_rows_are_anything() -> None:
    schema = fields(f={"type": "array", "items": fields(a=TEXT)})
    odd = ["-1", "x", "", "9" * 500, "a b", "0", MARKUP]
    rows = [(f"f.{name}!row", "") for name in odd] + [(f"f.{name}.a", "v") for name in odd]
    form = read(blank(schema), [*NAMED, *rows])
    assert form.object is not None
    assert form.object["f"] == [{"a": "v"}] * len(odd)
    page = shown(form)
    assert f"f.{len(odd) - 1}.a" in dict(page.fields)
    for button in ("!add", "!remove"):
        for path in (MARKUP, "f", "f.0", "f.x.y", "", ".", "f.0.a", "9"):
            shown(read(blank(schema), [*NAMED, *rows, (button, path)]))


def test_aliases_of_a_schema_are_written_out() -> None:
    shared = {"a": ["b"]}
    free = {"x-kubernetes-preserve-unknown-fields": True, "default": shared}
    wanted = blank(fields(one=free, two=free))
    form = read(wanted, [*NAMED, *shown(start(wanted)).fields[2:]])
    whole = read(wanted, [one for one in shown(form).fields if one[0] != "!brief"])
    assert "&" not in whole.yaml
    assert yaml.safe_load(whole.yaml)["two"] == shared


@pytest.mark.parametrize(
    "text",
    ["x: " + ":".join(["59"] * 400) + ".0", "x: " + "9" * 5000, "x: !!bool maybe", "x: !!int ''"],
    ids=["float", "digits", "bool", "empty"],
)
def test_values_that_are_none_of_their_type(text: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    form = read(blank(schema), [*NAMED, ("!rest", text)])
    assert [one.message for one in form.problems] == [
        "has a value that cannot be read, such as a number of thousands of digits"
    ]


def test_values_in_yaml_are_counted_before_they_are_built() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    form = read(blank(schema), [*NAMED, ("!rest", f"x: [{'a, ' * 6000}]")])
    assert [one.message for one in form.problems] == ["has more than 5,000 values"]


def test_half_a_character() -> None:
    schema = fields(port={"x-kubernetes-int-or-string": True})
    form = read(blank(schema), [*NAMED, ("port", '"\\ud800"')])
    assert [one.message for one in form.problems] == ["has half a character"]


def test_what_is_typed_comes_back_as_it_is() -> None:
    odd = "a\u202eb\u2066c"
    schema = fields(
        text=TEXT | {"maxLength": 9, "description": odd},
        one={"enum": [odd, "a", "b", "c"]},
        free={"x-kubernetes-preserve-unknown-fields": True},
    )
    form = read(blank(schema), [*NAMED, ("text", odd), ("one", f'"{odd}"'), ("free", f"x: {odd}")])
    page = shown(form)
    assert dict(page.fields)["text"] == odd
    assert dict(page.fields)["one"] == f'"{odd}"'
    assert form.object is not None
    assert odd in form.yaml


def test_markup_is_shown_as_text() -> None:
    every: JSON = {"description": MARKUP, "x-kubernetes-validations": [{"message": MARKUP}]}
    schema = fields(
        **{
            MARKUP: TEXT | every | {"default": MARKUP, "pattern": MARKUP, "format": MARKUP},
            "choice": every | {"enum": [MARKUP, "a", "b", "c"], "default": MARKUP},
            "radio": every | {"enum": [MARKUP, "a"]},
            "boxes": every | {"type": "array", "items": {"enum": [MARKUP]}},
            "lines": every | {"type": "array", "items": TEXT, "default": [MARKUP]},
            "free": every | {"default": {MARKUP: MARKUP}},
            "group": every | fields(**{MARKUP: every | {"type": "boolean", "default": True}}),
            "list": every | {"type": "array", "items": every | fields(**{MARKUP: TEXT})},
            "map": every | {"type": "object", "additionalProperties": every | TEXT},
        }
    )
    wanted = Blank(MARKUP, MARKUP, True, schema)
    page = shown(start(wanted))
    typed: Fields = [
        *[(name, MARKUP if name[0] != "!" else value) for name, value in page.fields],
        *(("list.0!row", ""), ("map.0!row", ""), ("map.0!key", MARKUP), ("map.0", MARKUP)),
        ("!name", MARKUP),
    ]
    pages = [
        page,
        shown(read(wanted, typed)),
        shown(read(wanted, [*page.fields, ("!add", "map")])),
    ]
    done = read(wanted, [*NAMED, *[one for one in page.fields if one[0] not in dict(NAMED)]])
    assert done.object is not None
    pages.append(shown(done))
    for one in pages:
        assert {"script", "b"} & one.tags == set()
        assert "49" not in one.text
        assert "<script>alert(1)</script>" in one.text
    assert yaml.safe_load(done.yaml) == done.object
