from __future__ import annotations

from typing import Any

import pytest

from fairlead.sandbox.schema import compile_schema, summarize


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
        pytest.param("b", "a", 'x: Invalid value: "string": is immutable', id="changed"),
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
    assert check(MAP_LIST, new, old) == 'x[1].v: Invalid value: "string": is immutable'


def test_map_values_meet_their_former_selves() -> None:
    schema = {"type": "object", "additionalProperties": IMMUTABLE}
    assert check(schema, {"a": "1", "b": "2"}, {"a": "1", "b": "1"}) == (
        'x.b: Invalid value: "string": is immutable'
    )


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param(
            {"rule": "self.n > 3"},
            'x: Invalid value: "object": failed rule: self.n > 3',
            id="no message",
        ),
        pytest.param(
            {"rule": "self.n > 3", "messageExpression": "'n is ' + string(self.n)"},
            'x: Invalid value: "object": n is 1',
            id="expression",
        ),
        pytest.param(
            {"rule": "self.n > 3", "messageExpression": "self.s", "message": "m"},
            'x: Invalid value: "object": m',
            id="expression that fails",
        ),
        pytest.param(
            {"rule": "self.n > 3", "message": "m", "fieldPath": ".n"},
            'x.n: Invalid value: "object": m',
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
            'x: Duplicate value: "object"',
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
        '<nil>: Invalid value: "object": failed rule'
    )


def test_rules_wait_for_a_sound_object() -> None:
    text = check(ruled(NUMBER, {"rule": "self.n > 3"}), {"n": "x"})
    assert text.endswith(
        '<nil>: Invalid value: "null": some validation rules were not checked because the '
        "object was invalid; correct the existing errors to complete validation]"
    )
