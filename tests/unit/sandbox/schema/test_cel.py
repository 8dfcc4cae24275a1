"""What rules mean and cost: what the code of kube-apiserver 1.34 was recorded to say of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.meta import JSON
from fairlead_sandbox.schema import compile_schema
from fairlead_sandbox.schema.cel import (
    CompileError,
    CostError,
    Program,
    compile_rule,
    converter,
    declare,
)
from fairlead_sandbox.schema.cel.program import Evaluation
from fairlead_sandbox.schema.effort import Effort, ExhaustedError


GOLDEN = Path(__file__).parents[3] / "golden" / "cel.jsonl"
HEAD, *CASES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
SCHEMA: JSON = HEAD["schema"]
VALUE: JSON = HEAD["value"]
LINES = "Kubernetes' reader goes on after its first complaint"
LATER = "a failed operand costs one unit less, since the call around it is not made"
WANTED = {
    "self.s == 'abc": LINES,
    "#": LINES,
    'self.s == "a': LINES,
    r"'\q' == ''": LINES,
    "has(self.null)": LINES,
    "self.?null.hasValue()": LINES,
    "1/0 == 1 || true": LATER,
    "self.os[1].a == 'x' || true": LATER,
    "self.os[1].a == 'x' && false": LATER,
    "dyn({1: 2}) == dyn({1.0: 2})": "keys of maps are equal by value, as other numbers are",
    "quantity('1.5Gi').asInteger() == 1610612736": "what is whole is an integer",
}


def compiled(rule: str, schema: JSON = SCHEMA, **options: Any) -> Program:
    declared = declare(schema)
    assert declared is not None
    return compile_rule(rule, declared, **options)


def run(rule: str, value: Any, schema: JSON = SCHEMA, *, gives: str = "bool") -> Evaluation:
    declared = declare(schema)
    assert declared is not None
    convert = converter(declared) or (lambda same: same)
    return compiled(rule, schema, gives=gives).run(convert(value), None, Effort())


def verdict(given: JSON, expected: JSON) -> JSON:
    schema = {
        "type": "object",
        "properties": {"x": SCHEMA | {"x-kubernetes-validations": [given]}},
    }
    try:
        program = compiled(given["rule"])
        found: JSON = {"estimate": program.cost, "cardinality": program.cardinality}
        if "messageExpression" in given:
            compiled(given["messageExpression"], gives="string")
        checked = compile_schema(schema).validate({"x": VALUE})
    except CompileError as error:
        return {"error": str(error)}
    found["says"] = [untyped(str(one).replace("x: ", "<nil>: ", 1)) for one in checked]
    if "cost" in expected:
        found["cost"] = cost_of(given)
    return found


def untyped(text: str) -> str:
    """The message without the type of an object, which 1.34 had and 1.37 leaves out."""
    return text.replace('Invalid value: "object": ', "Invalid value: ")


def cost_of(given: JSON) -> int:
    cost = run(given["rule"], VALUE).cost
    if "messageExpression" in given:
        cost += run(given["messageExpression"], VALUE, gives="string").cost
    return cost


def test_kubernetes_and_we_agree() -> None:
    differing = set()
    for case in CASES:
        expected = case["expect"]
        if "messageExpression" in case["input"] and "error" in expected:
            expected["error"] = expected["error"].removeprefix("messageExpression ")
        if "says" in expected:
            expected["says"] = [*map(untyped, expected["says"])]
        if verdict(case["input"], expected) != expected:
            differing.add(case["input"]["rule"])
    assert differing == WANTED.keys()


SETS = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}
PAST: JSON = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "string"}},
        "set": SETS,
    },
}
NOW = {"i": 3, "s": "a", "l": ["a", "b"], "set": [1, 2]}


@pytest.mark.parametrize(
    ("rule", "old", "holds"),
    [
        pytest.param("self == oldSelf", NOW, True, id="same"),
        pytest.param("self == oldSelf", NOW | {"i": 4}, False, id="changed"),
        pytest.param("self == oldSelf", NOW | {"l": ["b", "a"]}, False, id="lists have an order"),
        pytest.param("self.i >= oldSelf.i", NOW | {"i": 2}, True, id="grows"),
        pytest.param("self.set.all(x, x in oldSelf.set)", NOW | {"set": [1]}, False, id="kept"),
        pytest.param("!has(oldSelf.s) || self.s == oldSelf.s", {}, True, id="once set"),
    ],
)
def test_transition_rules(rule: str, old: Any, *, holds: bool) -> None:
    program = compiled(rule, PAST)
    assert program.transition
    assert program.run(NOW, old, Effort()).value is holds


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("(" * 2000, id="open"),
        pytest.param("!" * 2000 + "self.b", id="signs"),
        pytest.param("self.i" + " + self.i" * 2000 + " > 0", id="sum"),
        pytest.param("self" + ".o" * 2000, id="path"),
        pytest.param("[" * 200 + "]" * 200 + " == []", id="lists"),
        pytest.param("self.s." + "trim()." * 200 + "size() > 1", id="calls"),
        pytest.param("self.l.all(x, " * 110 + "true" + ")" * 110, id="loops"),
    ],
)
def test_what_nests_too_deep_is_refused(rule: str) -> None:
    with pytest.raises(CompileError, match="recursion limit"):
        compiled(rule)


def test_a_chain_of_alternatives_is_not_deep() -> None:
    assert run(" || ".join(f"self.i == {number}" for number in range(1000)), VALUE).value is True


def test_an_endless_rule_is_refused() -> None:
    with pytest.raises(CompileError, match="code point size exceeds limit"):
        compiled("true" + " && true" * 20_000)


BIG: JSON = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "o": {
            "type": "object",
            "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        },
    },
}
NUMBERS = {"l": list(range(60))}
LETTERS = {"s": "a" * 1_000_000, "l": list(range(1000))}
LONG = {"l": list(range(300_000))}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        pytest.param(
            "self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a + b + c + d >= 0))))",
            NUMBERS,
            id="four loops",
        ),
        pytest.param("self.l.map(a, self.l.map(b, self.l)).size() > 0", LETTERS, id="lists"),
        pytest.param(
            "self.l.transformMap(a, v, self.l.transformMap(b, w, b)).size() > 0", LONG, id="maps"
        ),
        pytest.param("self.l.exists_one(a, self.l.exists(b, b < 0))", LETTERS, id="exists one"),
        pytest.param("self.l.all(x, self.s.split('').size() > 0)", LETTERS, id="split"),
        pytest.param("self.l.all(x, self.s.upperAscii() != '')", LETTERS, id="upper case"),
        pytest.param("self.l.all(x, (self.s + self.s) != '')", LETTERS, id="sum of texts"),
        pytest.param("self.s.contains(self.s)", LETTERS, id="contains"),
        pytest.param("self.l.all(x, !self.s.matches('^b'))", LETTERS, id="matches"),
        pytest.param("self.l.all(x, x in self.l)", LONG, id="in"),
        pytest.param("sets.equivalent(self.l, self.l)", LONG, id="sets"),
        pytest.param("self.l.all(x, self.l.isSorted())", LONG, id="sorted"),
        pytest.param("self.l.map(x, self.s).join('') != ''", LETTERS, id="join"),
    ],
)
def test_what_costs_too_much_stops(rule: str, value: Any) -> None:
    result = run(rule, value, BIG)
    assert isinstance(result.error, CostError)
    assert str(result.error) == "operation cancelled: actual cost limit exceeded"


def coins(count: int) -> str:
    return "".join(random.Random(1).choices("ab", k=count))


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        pytest.param("self.s.replace('', self.s).size() > 0", LETTERS, id="replace"),
        pytest.param(
            f"'{'%s' * 1000}'.format([{', '.join(['self.s'] * 1000)}]) != ''", LETTERS, id="format"
        ),
        pytest.param("self.l.all(x, (self.l + self.l).size() > 0)", LONG, id="sum of lists"),
        pytest.param("self.l.all(x, self.o == self.o)", LETTERS | {"o": LONG}, id="equality"),
        pytest.param("self.s.find('b[ab]{900}c') == ''", LETTERS, id="find"),
        pytest.param("matches(self.s, '(a?){900}b')", LETTERS, id="matches"),
        pytest.param(
            "self.l.all(x, !matches(self.s, 'a[ab]{900}c'))",
            LETTERS | {"s": coins(20_000)},
            id="many matches",
        ),
    ],
)
def test_what_kubernetes_does_not_count_stops_too(rule: str, value: Any) -> None:
    with pytest.raises(ExhaustedError):
        run(rule, value, BIG)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        pytest.param("self.s.split('').size() == 1000000", True, id="split"),
        pytest.param("int(self.s) == 1", "type conversion error", id="int"),
        pytest.param("double(self.s) == 1.0", "type conversion error", id="double"),
        pytest.param("duration(self.s) == duration('1s')", "type conversion error", id="duration"),
        pytest.param("timestamp(self.s) == timestamp(0)", "type conversion error", id="timestamp"),
        pytest.param("isQuantity(self.s) || isSemver(self.s)", False, id="quantity"),
        pytest.param("isIP(self.s) || isCIDR(self.s)", False, id="address"),
        pytest.param(
            "format.labelValue().validate(self.s.substring(0, 500000)).hasValue()", True, id="name"
        ),
        pytest.param("self.s.matches('(a+)+$')", True, id="pattern"),
        pytest.param("self.s.lastIndexOf('b') == -1", True, id="last index"),
    ],
)
def test_a_long_text_is_no_trouble(rule: str, says: Any) -> None:
    result = run(rule, {"s": "1" * 1_000_000 if "double" in rule else "a" * 1_000_000}, BIG)
    if isinstance(says, str):
        assert result.error is None or str(result.error).startswith(says)
    else:
        assert result.value is says


def test_constants_are_free_however_many_rules_have_them() -> None:
    rule = f"string(bytes('{'a' * 90_000}')) != ''"
    for _ in range(70):
        assert run(rule, VALUE).value is True


def test_lists_that_are_written_down_may_hold_lists() -> None:
    assert run("self.li in [[1, 2], [1, 2, 3]]", VALUE).value is True
