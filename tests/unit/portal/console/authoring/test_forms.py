"""Forms made from schemas: kinds of inputs, what is read from them, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.htmlforms import Fields, shown

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import Blank, Form, TooMuchError, fields_of, read, start
from fairlead.portal.console.authoring.inputs import describe


NAMED: Fields = [("!name", "one"), ("!namespace", "shop")]
CRDS = Path(__file__).parents[5] / "config" / "crd"
STRINGS: JSON = {"type": "array", "items": {"type": "string"}}
PART: JSON = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "integer", "default": 3},
    },
}


def blank(field: JSON, *, required: bool = False) -> Blank:
    schema = {"properties": {"f": field}, "required": ["f"] if required else []}
    return Blank("example.org/v1", "Widget", True, schema)


def of_crd(name: str) -> Blank:
    spec = yaml.safe_load((CRDS / f"{name}.yaml").read_text())["spec"]
    version = spec["versions"][-1]
    return Blank(
        f"{spec['group']}/{version['name']}",
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
        version["schema"]["openAPIV3Schema"],
    )


def made(field: JSON, *fields: tuple[str, str], required: bool = False) -> Form:
    return read(blank(field, required=required), [*NAMED, *fields])


def value(form: Form) -> Any:
    assert form.problems == []
    assert form.object is not None
    return form.object.get("f")


def problems(form: Form) -> list[str]:
    assert form.object is None
    assert form.yaml == ""
    page = shown(form)
    assert all(one.id in page.ids for one in form.problems)
    assert "field-error" in page.html
    return [f"{one.place} {one.message}" for one in form.problems]


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ({"type": "string"}, "long"),
        ({"type": "string", "maxLength": 63}, "text"),
        ({"type": "string", "format": "date-time"}, "text"),
        ({"type": "string", "enum": ["a", "b"]}, "choice"),
        ({"type": "string", "enum": [f"v{n}" for n in range(1000)]}, "text"),
        ({"type": "integer"}, "number"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "choice"),
        ({"type": "boolean", "default": False}, "check"),
        ({"x-kubernetes-int-or-string": True}, "mixed"),
        (STRINGS, "lines"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "boxes"),
        ({"type": "array", "items": PART}, "list"),
        ({"type": "array", "items": STRINGS}, "list"),
        ({"type": "array"}, "yaml"),
        ({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, "yaml"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map"),
        ({"type": "object", "additionalProperties": PART}, "map"),
        ({"type": "object", "additionalProperties": True}, "yaml"),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "yaml"),
        (PART, "group"),
        ({"type": "object"}, "group"),
        ({}, "yaml"),
        ({"type": "spaceship"}, "yaml"),
    ],
    ids=str,
)
def test_each_kind_of_schema_has_its_input(field: JSON, kind: str) -> None:
    form = start(blank(field))
    assert form.root.children[0].input.kind == kind
    shown(form)


@pytest.mark.parametrize(
    ("field", "posted", "expected"),
    [
        ({"type": "string"}, [("f", "a\r\nb")], "a\nb"),
        ({"type": "string"}, [("f", "")], None),
        ({"type": "string"}, [("f", "yes")], "yes"),
        ({"type": "integer"}, [("f", " 42 ")], 42),
        ({"type": "number"}, [("f", "1.5")], 1.5),
        ({"type": "number"}, [("f", "2")], 2),
        ({"type": "boolean"}, [("f", "false")], False),
        ({"type": "boolean"}, [("f", "")], None),
        ({"type": "boolean", "default": True}, [], False),
        ({"type": "integer", "enum": [1, 2]}, [("f", "2")], 2),
        ({"type": "string", "enum": ["", "a"]}, [("f", '""')], ""),
        ({"x-kubernetes-int-or-string": True}, [("f", "80")], 80),
        ({"x-kubernetes-int-or-string": True}, [("f", '"80"')], "80"),
        ({"x-kubernetes-int-or-string": True}, [("f", "25%")], "25%"),
        (STRINGS, [("f", "b\r\n\r\na\r\n")], ["b", "a"]),
        ({"type": "array", "items": {"type": "integer"}}, [("f", "1\n2")], [1, 2]),
        (
            {"type": "array", "items": {"enum": ["a", "b", "c"]}},
            [("f", '"c"'), ("f", '"a"')],
            ["a", "c"],
        ),
        (
            {"type": "array", "items": PART},
            [
                *(("f.7!row", ""), ("f.7.name", "x"), ("f.7.size", "")),
                *(("f.2!row", ""), ("f.2.name", "y"), ("f.2.size", "4")),
            ],
            [{"name": "x"}, {"name": "y", "size": 4}],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            [("f.0!row", ""), ("f.0!key", "on"), ("f.0", ""), ("f.1!row", ""), ("f.1!key", "")],
            {"on": ""},
        ),
        (PART, [("f.name", ""), ("f.size", "3")], None),
        (PART, [("f.name", "x"), ("f.size", "3")], {"name": "x"}),
        ({"type": "object"}, [("f!keep", "true")], {}),
        ({"type": "object", "additionalProperties": True}, [("f", "a: {b: [1, '2']}")], None),
    ],
    ids=str,
)
def test_what_is_written_becomes_a_value(field: JSON, posted: Fields, expected: Any) -> None:
    form = made(field, ("!brief", "true"), *posted)
    if field.get("additionalProperties") is True:
        expected = {"a": {"b": [1, "2"]}}
    assert value(form) == expected
    assert type(value(form)) is type(expected)
    assert yaml.safe_load(form.yaml) == form.object


@pytest.mark.parametrize(
    ("field", "posted", "told"),
    [
        ({"type": "string", "maxLength": 2}, [("f", "abc")], "has 3 characters, and may"),
        ({"type": "string", "minLength": 2}, [("f", "a")], "has to have at least 2 characters"),
        ({"type": "integer"}, [("f", "1.5")], "has to be a whole number, such as 3"),
        ({"type": "integer"}, [("f", "9" * 30)], "has to fit into 64 bits"),
        ({"type": "integer", "format": "int32"}, [("f", str(2**31))], "has to fit into 32 bits"),
        ({"type": "integer", "maximum": 7}, [("f", "8")], "has to be at most 7"),
        ({"type": "integer", "minimum": 7}, [("f", "6")], "has to be at least 7"),
        ({"type": "number"}, [("f", "NaN")], "has to be a number, such as 0.5"),
        ({"type": "number"}, [("f", "1e999")], "has to be a number, such as 0.5"),
        ({"type": "string", "enum": ["a"]}, [("f", '"b"')], "has to be one of the values"),
        (
            {"type": "string", "enum": [f"v{n}" for n in range(1000)]},
            [("f", "w")],
            'has to be one of "v0", "v1"',
        ),
        ({"x-kubernetes-int-or-string": True}, [("f", '"80')], "has quotes that do not end"),
        ({"type": "array", "items": {"type": "integer"}}, [("f", "1\nx")], "line 2 has to be a w"),
        ({**STRINGS, "maxItems": 1}, [("f", "a\nb")], "has 2 items, and may have at most 1 item"),
        (
            {"type": "array", "items": {"type": "string", "maxLength": 1}},
            [("f", "a\n\nbb")],
            "line 3 has 2 characters",
        ),
        (
            {"type": "array", "items": {"type": "boolean"}},
            [("f.0!row", ""), ("f.0", "")],
            "[0] is empty: fill it in, or remove it",
        ),
        ({"type": "array", "items": PART}, [("f.0!row", "")], "[0].name is required"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            [("f.0!row", ""), ("f.0", "x")],
            "[0]: name is required",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            [
                *(("f.0!row", ""), ("f.0!key", "a"), ("f.0", "1")),
                *(("f.1!row", ""), ("f.1!key", "a"), ("f.1", "2")),
            ],
            ".a: name is here twice",
        ),
        (PART, [("f.name", ""), ("f.size", "4")], ".name is required"),
        (
            {**STRINGS, "x-kubernetes-list-type": "set"},
            [("f", "a\nb\n\na")],
            "line 4 is in the list twice",
        ),
        (
            {
                "type": "array",
                "items": PART,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "size"],
            },
            [
                *(("f.0!row", ""), ("f.0.name", "a"), ("f.0.size", "3")),
                *(("f.1!row", ""), ("f.1.name", "a"), ("f.1.size", "")),
            ],
            "[1] is in the list twice",
        ),
        ({}, [("f", "a: [")], "is no YAML: "),
        ({}, [("f", "&a [*a]")], "has YAML aliases"),
        ({}, [("f", "[" * 60 + "]" * 60)], "is nested more than 30 levels deep"),
        ({}, [("f", "1: a")], "has values that JSON does not have"),
        ({}, [("f", "!!binary aGk=")], "has values that JSON does not have"),
        ({}, [("f", "!!python/name:os.system")], "is no YAML"),
        ({}, [("f", "9" * 5000)], "has a value that cannot be read"),
        ({"type": "array"}, [("f", "a: 1")], "has to be a list"),
        (
            {**PART, "x-kubernetes-preserve-unknown-fields": True},
            [("f!rest", "name: x")],
            ": other fields has name, which has an input of its own",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_at_its_input(field: JSON, posted: Fields, told: str) -> None:
    form = made(field, *posted)
    found = problems(form)
    assert any(one.removeprefix("f").strip().startswith(told) for one in found), found


def test_a_required_field_is_asked_for() -> None:
    for field in ({"type": "string"}, {"type": "boolean"}, {"x-kubernetes-int-or-string": True}):
        assert problems(made(field, required=True)) == ["f is required"]
    assert value(made(STRINGS, required=True)) == []
    assert value(made({"type": "object"}, required=True)) == {}
    assert problems(made(PART, required=True)) == ["f.name is required"]
    assert value(made({"type": "string", "default": "x"}, required=True)) is None


def test_names_are_those_of_kubernetes() -> None:
    for name, namespace, told in [
        ("", "", ["metadata.name is required", "metadata.namespace is required"]),
        (
            "Orders_db",
            "a.b",
            ["metadata.name has to be lower", "metadata.namespace has to be low"],
        ),
        ("a" * 254, "b" * 64, ["metadata.name has 254 ch", "metadata.namespace has 64 char"]),
        ("-a", "b-", ["metadata.name has to", "metadata.namespace has to"]),
    ]:
        form = read(blank({}), [("!name", name), ("!namespace", namespace)])
        found = problems(form)
        assert [one[: len(start_)] for one, start_ in zip(found, told, strict=True)] == told
    form = read(Blank("v1", "C", False, {}), [("!name", "a.b-1"), ("!namespace", "none")])
    assert form.object == {"apiVersion": "v1", "kind": "C", "metadata": {"name": "a.b-1"}}


def test_rows_are_added_and_removed_without_a_check() -> None:
    wanted = blank({"type": "array", "items": PART})
    page = shown(start(wanted))
    assert page.buttons == [("!add", "f")]
    form = read(wanted, [*page.fields, ("!add", "f")])
    page = shown(form)
    assert (form.problems, form.object) == ([], None)
    assert page.focused == ["f.0.name"]
    assert ("f.0.size", "3") in page.fields
    page = shown(read(wanted, [*page.fields, ("!add", "f")]))
    typed = [
        ("f.1.name", "second") if name == "f.1.name" else (name, one) for name, one in page.fields
    ]
    assert ("!remove", "f.0") in page.buttons
    page = shown(read(wanted, [*typed, ("!remove", "f.0")]))
    assert ("f.0.name", "second") in page.fields
    assert "f.1!row" not in dict(page.fields)
    assert page.focused == ["!addf"]


def test_a_list_that_is_full_takes_no_more() -> None:
    wanted = blank({"type": "array", "maxItems": 1, "items": PART})
    page = shown(read(wanted, [("f.0!row", ""), ("!add", "f")]))
    assert ("!add", "f") not in page.buttons
    assert "f.1!row" not in dict(page.fields)


def test_defaults_are_filled_in_and_left_out() -> None:
    field = {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer", "default": 80},
            "on": {"type": "boolean", "default": True},
            "tags": {**STRINGS, "default": ["a", "b"]},
            "mode": {"enum": ["x", "y"], "default": "y"},
            "deep": {"type": "object", "default": {}, "properties": {"n": {"default": "1"}}},
            "none": {"type": "object", "properties": {"n": {"type": "string", "default": "1"}}},
        },
    }
    page = shown(start(blank(field, required=True)))
    fields = dict(page.fields)
    assert fields["f.port"] == "80"
    assert fields["f.on"] == "true"
    assert fields["f.tags"] == "a\r\nb"
    assert fields["f.mode"] == '"y"'
    named = [(name, one) for name, one in page.fields if name not in {"!name", "!namespace"}]
    assert value(made(field, *named, required=True)) == {}
    whole = [one for one in named if one[0] != "!brief"]
    assert value(made(field, *whole, required=True)) == {
        "port": 80,
        "on": True,
        "tags": ["a", "b"],
        "mode": "y",
        "deep": {"n": "1"},
    }
    cleared = [("f.tags", "") if name == "f.tags" else (name, one) for name, one in named]
    assert value(made(field, *cleared, required=True)) == {"tags": []}


@pytest.mark.parametrize(
    "name",
    [
        "access.k8s.delta10.nl_postgresaccesses",
        "access.k8s.delta10.nl_postgresservers",
        "servicebinding.io_servicebindings",
        "kube-bind.io_apiserviceexporttemplates",
    ],
)
def test_our_own_kinds_have_forms(name: str) -> None:
    wanted = of_crd(name)
    form = start(wanted)
    page = shown(form)
    kinds = {one.input.kind for one in form.root.walk()}
    assert "group" in kinds
    assert all(one.input.kind != "yaml" for one in form.root.children)
    assert "apiVersion" not in dict(page.fields)
    assert not any(field.startswith("status") for field, _ in page.fields)


def test_an_access_is_written() -> None:
    wanted = of_crd("access.k8s.delta10.nl_postgresaccesses")
    page = shown(start(wanted))
    page = shown(read(wanted, [*page.fields, ("!add", "spec.grants")]))
    assert "The API server also checks: set one of serverRef, existingSecret" in page.text
    assert "username cannot be changed" not in page.text
    typed = {
        "!name": "orders",
        "!namespace": "shop",
        "spec.username": "orders",
        "spec.generatedSecret": "orders-login",
        "spec.connection.serverRef.name": "main",
        "spec.passwordPolicy.length": "40",
        "spec.grants.0.database": "orders",
        "spec.grants.0.on": '"Tables"',
    }
    fields = [(name, typed.get(name, one)) for name, one in page.fields]
    form = read(wanted, [*fields, ("spec.grants.0.privileges", '"SELECT"')])
    assert form.problems == []
    assert form.yaml == (
        "apiVersion: access.k8s.delta10.nl/v1\n"
        "kind: PostgresAccess\n"
        "metadata:\n"
        "  name: orders\n"
        "  namespace: shop\n"
        "spec:\n"
        "  generatedSecret: orders-login\n"
        "  username: orders\n"
        "  connection:\n"
        "    serverRef:\n"
        "      name: main\n"
        "  passwordPolicy:\n"
        "    length: 40\n"
        "  grants:\n"
        "  - database: orders\n"
        "    'on': Tables\n"
        "    privileges:\n"
        "    - SELECT\n"
    )
    assert form.yaml in shown(form).html.replace("&#39;", "'")


def test_required_fields_come_first() -> None:
    schema = {"required": ["b"], "properties": {"a": {}, "b": {}, "c": {}}}
    assert [one.name for one in describe(schema).children] == ["b", "a", "c"]


def test_a_root_asks_for_its_own_fields_alone() -> None:
    schema = {"required": ["metadata", "kind", "status", "more"], "properties": {"a": {}}}
    form = read(Blank("v1", "C", False, schema), [("!name", "one")])
    assert problems(form) == [" more is required"]
    free = {"required": ["metadata"], "properties": {}, "additionalProperties": {}}
    form = read(Blank("v1", "C", False, free), [("!name", "one"), ("!rest", "x: 1")])
    assert form.object is not None
    assert form.object["x"] == 1


def test_folded_groups_open_where_there_is_something_to_see() -> None:
    field = {"type": "object", "properties": {"inner": PART}}
    wanted = blank(field)
    assert not start(wanted).root.children[0].opened
    wrong = read(wanted, [("f.inner.size", "x")])
    assert wrong.root.children[0].opened
    assert wrong.root.children[0].children[0].opened
    asked = {"type": "object", "default": {}, "properties": {"inner": PART | {"default": {}}}}
    wrong = read(blank(asked), [*NAMED, ("f.inner.size", "3")])
    assert [one.place for one in wrong.problems] == ["f.inner.name"]
    assert wrong.root.children[0].opened
    listed = blank({"type": "object", "properties": {"l": {"type": "array", "items": PART}}})
    emptied = read(listed, [("f.l.0!row", ""), ("!remove", "f.l.0")])
    assert emptied.focus == "f.l!add"
    assert emptied.root.children[0].opened
    assert start(wanted, {"f": {"inner": {"name": "x"}}}).root.children[0].opened


def test_too_much_is_refused() -> None:
    for fields in ([("f", "")] * 8001, [("f", "x" * 300_000)]):
        with pytest.raises(TooMuchError, match="write the object as YAML"):
            read(blank({}), fields)
    with pytest.raises(TooMuchError):
        fields_of(b"f=&" * 8001)
    assert fields_of(b"a=1+2&b=%C3%BC%FF&c=") == [("a", "1 2"), ("b", "ü\ufffd"), ("c", "")]
