from __future__ import annotations

from typing import Any

import pytest

from fairlead_sandbox.schema import compile_schema, summarize


def ruled(schema: dict[str, Any], *rules: dict[str, Any]) -> dict[str, Any]:
    return schema | {"x-kubernetes-validations": list(rules)}


def check(schema: dict[str, Any], new: Any, old: Any = None) -> str:
    compiled = compile_schema({"type": "object", "properties": {"x": schema}})
    found = compiled.validate({"x": new}, None if old is None else {"x": old})
    return summarize(found) if found else ""


IMMUTABLE = ruled({"type": "string"}, {"rule": "self == oldSelf", "message": "is immutable"})


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        pytest.param("a", None, "", id="create"),
        pytest.param("a", "a", "", id="same"),
        pytest.param("b", "a", 'x: Invalid value: "b": is immutable', id="changed"),
    ],
)
def test_immutable(new: str, old: str | None, text: str) -> None:
    assert check(IMMUTABLE, new, old) == text


def test_a_value_that_was_not_there_may_be_set() -> None:
    compiled = compile_schema({"type": "object", "properties": {"x": IMMUTABLE}})
    assert compiled.validate({"x": "a"}, {}) == []


MAP_LIST = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": IMMUTABLE}},
}


def test_map_list_items_meet_their_former_selves() -> None:
    old = [{"name": "a", "v": "1"}, {"name": "b", "v": "2"}]
    new = [{"name": "b", "v": "2"}, {"name": "a", "v": "9"}, {"name": "c", "v": "3"}]
    assert check(MAP_LIST, new, old) == 'x[1].v: Invalid value: "9": is immutable'


def test_map_values_meet_their_former_selves() -> None:
    schema = {"type": "object", "additionalProperties": IMMUTABLE}
    assert check(schema, {"a": "1", "b": "2"}, {"a": "1", "b": "1"}) == (
        'x[b]: Invalid value: "2": is immutable'
    )


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(
            {"rule": "self.n > 3"},
            "x: Invalid value: failed rule: self.n > 3",
            id="no message",
        ),
        pytest.param(
            {"rule": "self.n > 3", "messageExpression": "'n is ' + string(self.n)"},
            "x: Invalid value: n is 1",
            id="expression",
        ),
        pytest.param(
            {"rule": "self.n > 3", "messageExpression": "self.s", "message": "m"},
            "x: Invalid value: m",
            id="expression that fails",
        ),
        pytest.param(
            {"rule": "self.n > 3", "message": "m", "fieldPath": ".n"},
            "x.n: Invalid value: m",
            id="fieldPath",
        ),
        pytest.param(
            {"rule": "self.n > 3", "message": "m", "reason": "FieldValueForbidden"},
            "x: Forbidden: m",
            id="forbidden",
        ),
        pytest.param(
            {"rule": "self.n > 3", "message": "m", "reason": "FieldValueRequired"},
            "x: Required value: m",
            id="required",
        ),
        pytest.param(
            {"rule": "self.n > 3", "message": "m", "reason": "FieldValueDuplicate"},
            "x: Duplicate value",
            id="duplicate",
        ),
        pytest.param(
            {"rule": "self.s == 'a'", "message": "m"},
            'x: Invalid value: "object": no such key: s evaluating rule: m',
            id="error",
        ),
    ],
)
def test_reports(rule: dict[str, Any], text: str) -> None:
    assert check(ruled(NUMBER, rule), {"n": 1}) == text


def test_the_root_has_its_envelope() -> None:
    schema = ruled({"type": "object"}, {"rule": "self.metadata.name.startsWith('a')"})
    compiled = compile_schema(schema)
    assert compiled.validate({"metadata": {"name": "ab"}}) == []
    assert str(compiled.validate({"metadata": {"name": "b"}})[0]).startswith(
        "<nil>: Invalid value: failed rule"
    )


def test_rules_wait_for_a_sound_object() -> None:
    text = check(ruled(NUMBER, {"rule": "self.n > 3"}), {"n": "x"})
    assert text.endswith(
        "<nil>: Invalid value: null: some validation rules were not checked because the "
        "object was invalid; correct the existing errors to complete validation]"
    )


ONCE = {"rule": "oldSelf.hasValue() || self == 'a'", "optionalOldSelf": True}


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        pytest.param("a", None, "", id="first"),
        pytest.param("b", None, 'x: Invalid value: "b": must begin with a', id="else"),
        pytest.param("b", "a", "", id="later"),
    ],
)
def test_a_rule_that_does_without_an_old_value(new: str, old: str | None, text: str) -> None:
    schema = ruled({"type": "string"}, ONCE | {"message": "must begin with a"})
    assert check(schema, new, old) == text


def test_a_path_leads_into_maps() -> None:
    schema = {
        "type": "object",
        "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}},
    }
    rule = {"rule": "'a.b' in self.m", "message": "m", "fieldPath": ".m['a.b']"}
    assert check(ruled(schema, rule), {"m": {}}) == "x.m[a.b]: Invalid value: m"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param("'  spaced  '", "spaced", id="trimmed"),
        pytest.param("''", "default", id="empty"),
        pytest.param(r"'a\nb'", "default", id="lines"),
        pytest.param("'x'.split('x')[7]", "default", id="fails"),
        pytest.param(
            "[0, 1].map(i, 'abcdefghij').join('') + '!'", "abcdefghijabcdefghij!", id="made"
        ),
        pytest.param(f"'{'long' * 1300}'", "default", id="over 5 KiB"),
    ],
)
def test_expressions_of_messages(expression: str, text: str) -> None:
    rule = {"rule": "false", "message": "default", "messageExpression": expression}
    assert check(ruled(NUMBER, rule), {}) == f"x: Invalid value: {text}"


LOOPS = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))"
LIST = {"type": "array", "items": {"type": "integer"}}
SIXTY = list(range(60))


def test_a_rule_that_costs_too_much_ends_all_rules() -> None:
    found = check(ruled(LIST, {"rule": LOOPS}, {"rule": "false"}), SIXTY)
    assert found == (
        "x: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no "
        f"further validation rules will be run due to call cost exceeds limit for rule: {LOOPS}"
    )


def test_a_message_that_costs_too_much_ends_all_rules() -> None:
    expression = f"string({LOOPS})"
    rule = {"rule": "false", "messageExpression": expression}
    assert check(ruled(LIST, rule, {"rule": "false"}), SIXTY) == (
        'x: Invalid value: "array": no further validation rules will be run due to call cost '
        f'exceeds limit for messageExpression: "{expression}"'
    )


def test_all_rules_together_have_a_limit() -> None:
    items = ruled(LIST, {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"})
    found = check({"type": "array", "items": items}, [list(range(40))] * 30)
    assert found == (
        'x[17]: Invalid value: "array": validation failed due to running out of cost budget, no '
        "further validation rules will be run"
    )


def test_messages_count_as_well() -> None:
    made = "string(self.all(a, self.all(b, self.all(c, a + b + c >= 0))))"
    items = ruled(LIST, {"rule": "size(self) == 0", "messageExpression": made})
    found = check({"type": "array", "items": items}, [list(range(40))] * 30)
    assert found.endswith(
        'x[17]: Invalid value: "array": messageExpression evaluation failed due to running out of '
        "cost budget, no further validation rules will be run]"
    )


def test_a_check_that_takes_too_long_names_its_place() -> None:
    schema = ruled({"type": "string"}, {"rule": "self.replace('', self) != ''"})
    assert check(schema, "a" * 100_000) == (
        "x: Forbidden: the check of this object was stopped because it takes too long; shorten "
        "its texts and lists, or simplify the patterns, alternatives and rules of its schema"
    )


def test_values_are_those_of_their_formats() -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "for": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"},
            "n": {"type": "number"},
            "ns": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
    rule = (
        "self.at + self.__for__ == timestamp('2024-01-01T01:30:00Z') && self.raw == b'hi' && "
        "self.n / 2.0 == 1.5 && self.ns.all(k, v, v > 0.5)"
    )
    value = {"at": "2024-01-01T00:00:00Z", "for": "1h30m", "raw": "aGk=", "n": 3, "ns": {"a": 1}}
    assert check(ruled(schema, {"rule": rule}), value) == ""


def test_rules_inside_what_rules_cannot_see() -> None:
    inner = ruled({"type": "string"}, {"rule": "self == 'a'"})
    schema = {"type": "object", "properties": {"1x": inner}}
    assert check(ruled(schema, {"rule": "self == self"}), {"1x": "b"}) == (
        "x.1x: Invalid value: \"b\": failed rule: self == 'a'"
    )
