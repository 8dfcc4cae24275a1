from __future__ import annotations

from typing import Any

import pytest

from fairlead_sandbox.schema import compile_schema, summarize


def check(schema: dict[str, Any], value: Any) -> str:
    compiled = compile_schema({"type": "object", "properties": {"x": schema}})
    return summarize(found) if (found := compiled.validate({"x": value})) else ""


def wrong_type(wanted: str, got: str) -> str:
    return f'x: Invalid value: "{got}": x in body must be of type {wanted}: "{got}"'


STRING = {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"}
BOUNDS = {"type": "integer", "minimum": 2, "maximum": 4}
EXCLUSIVE = BOUNDS | {"exclusiveMinimum": True, "exclusiveMaximum": True}
PAIR = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
MAP = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["a", "b"],
    "items": {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "default": 1}},
    },
}


# Texts of kube-apiserver 1.20, but for the indices in paths, which came later.
@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        pytest.param(STRING, "abc", "", id="string"),
        pytest.param(
            STRING,
            "a",
            'x: Invalid value: "a": x in body should be at least 2 chars long',
            id="minLength",
        ),
        pytest.param(
            STRING,
            "abcde",
            "x: Too long: may not be more than 4 bytes",
            id="maxLength",
        ),
        pytest.param(
            STRING,
            "A1",
            "x: Invalid value: \"A1\": x in body should match '^[a-z]+$'",
            id="pattern",
        ),
        pytest.param(STRING, 5, wrong_type("string", "integer"), id="integer"),
        pytest.param(STRING, True, wrong_type("string", "boolean"), id="boolean"),
        pytest.param(STRING, {}, wrong_type("string", "object"), id="object"),
        pytest.param(STRING, [], wrong_type("string", "array"), id="array"),
        pytest.param(STRING, None, wrong_type("string", "null"), id="null"),
        pytest.param(STRING | {"nullable": True}, None, "", id="nullable"),
        pytest.param(
            {"type": "integer"},
            2.5,
            f"[{wrong_type('integer', 'number')}, "
            '<nil>: Invalid value: "": Checked value must be of type integer '
            "(default format) in x]",
            id="float",
        ),
        pytest.param({"type": "integer"}, 2.0, "", id="whole float"),
        pytest.param({"type": "number"}, 2, "", id="number"),
        pytest.param(
            {"type": "string", "enum": ["a", "b"]},
            "c",
            'x: Unsupported value: "c": supported values: "a", "b"',
            id="enum",
        ),
        pytest.param(
            {"type": "integer", "enum": [1, 2]},
            7,
            'x: Unsupported value: 7: supported values: "1", "2"',
            id="enum of integers",
        ),
        pytest.param(
            {"type": "string", "nullable": True, "enum": ["a"]},
            None,
            'x: Unsupported value: null: supported values: "a"',
            id="enum without null",
        ),
        pytest.param(
            {"type": "string", "enum": ["a"]},
            'c"\\\n',
            'x: Unsupported value: "c\\"\\\\\\n": supported values: "a"',
            id="quoting",
        ),
        pytest.param(
            BOUNDS,
            1,
            "x: Invalid value: 1: x in body should be greater than or equal to 2",
            id="minimum",
        ),
        pytest.param(
            BOUNDS, 9, "x: Invalid value: 9: x in body should be less than or equal to 4", id="max"
        ),
        pytest.param(
            EXCLUSIVE, 2, "x: Invalid value: 2: x in body should be greater than 2", id="ex min"
        ),
        pytest.param(
            EXCLUSIVE, 4, "x: Invalid value: 4: x in body should be less than 4", id="ex max"
        ),
        pytest.param(
            {"type": "number", "multipleOf": 0.5},
            2.7,
            "x: Invalid value: 2.7: x in body should be a multiple of 0.5",
            id="multipleOf",
        ),
        pytest.param({"type": "number", "multipleOf": 0.1}, 0.3, "", id="multiple of a tenth"),
        pytest.param(
            PAIR | {"required": ["a", "b"]},
            {},
            "[x.a: Required value, x.b: Required value]",
            id="required",
        ),
        pytest.param(
            {"type": "array", "minItems": 2, "items": {"type": "string"}},
            ["a"],
            "x: Invalid value: 1: x in body should have at least 2 items",
            id="minItems",
        ),
        pytest.param(
            {"type": "array", "maxItems": 1, "items": {"type": "string"}},
            ["a", "b"],
            "x: Too many: 2: must have at most 1 item",
            id="maxItems",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}},
            ["a", 3],
            'x[1]: Invalid value: "integer": x[1] in body must be of type string: "integer"',
            id="items",
        ),
        pytest.param(
            {"type": "object", "minProperties": 1, "x-kubernetes-preserve-unknown-fields": True},
            {},
            "x: Invalid value: 0: x in body should have at least 1 properties",
            id="minProperties",
        ),
        pytest.param(
            {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}},
            {"a": 1, "b": 2},
            "x: Too many: 2: must have at most 1 item",
            id="maxProperties",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"a.b/c": "y"},
            'x.a.b/c: Invalid value: "string": x.a.b/c in body must be of type integer: "string"',
            id="additionalProperties",
        ),
        pytest.param(INT_OR_STRING, 5, "", id="int"),
        pytest.param(INT_OR_STRING, "5%", "", id="or string"),
        pytest.param(INT_OR_STRING, True, wrong_type("integer,string", "boolean"), id="or not"),
        pytest.param(
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            ["a", "b", "a", "a"],
            'x[2]: Duplicate value: "a"',
            id="set",
        ),
        pytest.param(
            MAP,
            [{"a": "x"}, {"a": "y", "b": 1}, {"a": "x", "b": 1}],
            'x[2]: Duplicate value: {"a":"x","b":1}',
            id="map list",
        ),
        pytest.param(MAP, [{"b": 1}], "x[0].a: Required value", id="map list without key"),
        pytest.param(
            MAP,
            ["y"],
            '[x[0]: Invalid value: "string": x[0] in body must be of type object: "string", '
            'x[0]: Invalid value: "y": must be an object for an array of list-type map]',
            id="map list of strings",
        ),
        pytest.param(
            PAIR | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            '[<nil>: Invalid value: "": "x" must validate at least one schema (anyOf), '
            "x.a: Required value]",
            id="anyOf",
        ),
        pytest.param(
            PAIR | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            '[<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). '
            "Found none valid, x.a: Required value]",
            id="oneOf none",
        ),
        pytest.param(
            PAIR | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "1", "b": "2"},
            '<nil>: Invalid value: "": "x" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives",
            id="oneOf two",
        ),
        pytest.param(
            PAIR | {"allOf": [{"required": ["a"]}, {"properties": {"b": {"minLength": 3}}}]},
            {"b": "x"},
            '[x.a: Required value, x.b: Invalid value: "x": '
            "x.b in body should be at least 3 chars long, "
            '<nil>: Invalid value: "": "x" must validate all the schemas (allOf). '
            "None validated]",
            id="allOf",
        ),
        pytest.param(
            PAIR | {"not": {"required": ["a"]}},
            {"a": "b"},
            '<nil>: Invalid value: "": "x" must not validate the schema (not)',
            id="not",
        ),
    ],
)
def test_messages(schema: dict[str, Any], value: Any, text: str) -> None:
    assert check(schema, value) == text


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        pytest.param(STRING, 5, "FieldValueTypeInvalid", id="type"),
        pytest.param(STRING, "abcde", "FieldValueTooLong", id="too long"),
        pytest.param(STRING, "A1", "FieldValueInvalid", id="invalid"),
        pytest.param(STRING | {"enum": ["aa"]}, "bb", "FieldValueNotSupported", id="enum"),
        pytest.param(PAIR | {"required": ["a"]}, {}, "FieldValueRequired", id="required"),
        pytest.param(MAP | {"maxItems": 0}, [{"a": "x"}], "FieldValueTooMany", id="too many"),
        pytest.param(MAP, [{"a": "x"}, {"a": "x"}], "FieldValueDuplicate", id="duplicate"),
    ],
)
def test_reasons(schema: dict[str, Any], value: Any, reason: str) -> None:
    compiled = compile_schema({"type": "object", "properties": {"x": schema}})
    (error,) = compiled.validate({"x": value})
    assert error.reason == reason
    assert error.cause().field == error.field


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2020-01-01T00:00:00+01:00", "2020-01-01T00:00:00"),
        ("date-time", "2020-01-01T00:00:00.123Z", "2020-01-01 00:00:00Z"),
        ("date-time", "2020-02-29T00:00:00Z", "2021-02-29T00:00:00Z"),
        ("date", "2020-01-01", "2020-13-01"),
        ("uri", "https://a.b/c", "::x"),
        ("email", "a@b.c", "x"),
        ("hostname", "a-b.c", "a b!"),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:11:22:aa:bb:cc", "00:11"),
        ("uuid", "f3b0ea93-f578-4269-aa2e-5991acedbe17", "f3b0"),
        ("uuid4", "f3b0ea93-f578-4269-aa2e-5991acedbe17", "f3b0ea93-f578-5269-aa2e-5991acedbe17"),
        ("byte", "YWJj", "!!"),
        ("duration", "3h2m", "x"),
        ("duration", "3 days", "3 stones"),
        ("hexcolor", "#fff", "#ff"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    schema = {"type": "string", "format": name}
    assert check(schema, good) == ""
    expected = f'x: Invalid value: "{bad}": x in body must be of type {name}: "{bad}"'
    assert check(schema, bad) == expected


def test_an_unknown_format_is_documentation() -> None:
    assert check({"type": "string", "format": "foo"}, "x") == ""


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        pytest.param("a$", "a", "a\n", id="end of text"),
        pytest.param(r"^\$[$]$", "$$", "$a", id="dollars"),
        pytest.param("^[[:alpha:]]+$", "ab", "a1", id="class"),
        pytest.param(r"^(?P<x>a)\z", "a", "b", id="named"),
        pytest.param(r"^\d+$", "1", "\u0661", id="ascii digits"),
    ],
)
def test_patterns_are_those_of_go(pattern: str, good: str, bad: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    assert check(schema, good) == ""
    assert check(schema, bad) != ""


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "["])
def test_patterns_that_go_refuses(pattern: str) -> None:
    with pytest.raises(ValueError, match="error parsing regexp"):
        check({"type": "string", "pattern": pattern}, "x")


EMBEDDED = {
    "type": "object",
    "x-kubernetes-embedded-resource": True,
    "x-kubernetes-preserve-unknown-fields": True,
}


def test_embedded_resources_name_themselves() -> None:
    assert check(EMBEDDED, {"apiVersion": "v1", "kind": "X"}) == ""
    assert check(EMBEDDED, {}) == ("[x.apiVersion: Required value, x.kind: Required value]")
    assert "must be a string" in check({"type": "array", "items": EMBEDDED}, [{"apiVersion": 1}])


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        pytest.param(
            {"apiVersion": "a/b/c"},
            'x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            id="apiVersion",
        ),
        pytest.param(
            {"kind": "x y"},
            'x.kind: Invalid value: "x y": may have mixed case, but should otherwise match: ',
            id="kind",
        ),
        pytest.param(
            {"metadata": {"labels": {"a b": "c"}}},
            'x.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric',
            id="label",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "b c"}}},
            'x.metadata.labels: Invalid value: "b c": a valid label must be an empty string',
            id="label value",
        ),
        pytest.param(
            {"metadata": 5}, 'x.metadata: Invalid value: "integer": must be an object', id="meta"
        ),
    ],
)
def test_embedded_resources_are_named_well(resource: dict[str, Any], text: str) -> None:
    found = check(EMBEDDED, {"apiVersion": "v1", "kind": "X", **resource})
    assert found.startswith(text)


def test_metadata_is_checked_for_its_name_alone() -> None:
    schema = {
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"name": {"maxLength": 2}}}},
    }
    compiled = compile_schema(schema)
    assert compiled.validate({"metadata": {"name": "ab", "labels": {"a": "b"}}}) == []
    assert [error.field for error in compiled.validate({"metadata": {"name": "abc"}})] == [
        "metadata.name"
    ]


STOPPED = "the check of this object was stopped because it takes too long"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param(
            {"type": "string", "pattern": "a[ab]{900}c"}, "ab" * 100_000, id="one long match"
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string", "pattern": "a[ab]{900}c"}},
            [f"{number:b}".translate({48: "a", 49: "b"}) * 40 for number in range(3000)],
            id="many matches",
        ),
        pytest.param(
            {
                "type": "array",
                "anyOf": [{"items": {"minimum": number}} for number in range(1, 200)],
                "items": {"type": "integer"},
            },
            [0] * 20_000,
            id="alternatives",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "object", "required": [f"r{at}" for at in range(2000)]},
            },
            [{}] * 5000,
            id="required",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "string", "enum": [f"e{at}" for at in range(2000)]},
            },
            ["x"] * 5000,
            id="enum",
        ),
    ],
)
def test_a_check_that_grows_too_fast_stops(schema: dict[str, Any], value: Any) -> None:
    compiled = compile_schema({"type": "object", "properties": {"x": schema}})
    assert STOPPED in compiled.validate({"x": value})[-1].message


def test_a_large_object_is_checked_to_its_end() -> None:
    schema = {
        "type": "array",
        "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63},
    }
    assert check(schema, [f"name-{at}" for at in range(100_000)]) == ""


@pytest.mark.parametrize("name", ["duration", "hostname", "email", "uri", "byte", "cidr", "mac"])
def test_long_texts_are_no_trouble_for_formats(name: str) -> None:
    schema = {"type": "string", "format": name}
    for text in ("1" * 300_000, "1h" * 150_000 + "!", "a." * 150_000 + "!", "-" * 300_000):
        assert "must be of type" in check(schema, text) or name in {"email", "uri", "byte"}
