"""Whatever a rule says: it is compiled or refused, and costs no more than it may."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead_sandbox.schema import compile_schema, summarize
from fairlead_sandbox.schema.cel import PER_EXPRESSION, CompileError, compile_rule, declare
from fairlead_sandbox.schema.effort import Effort, ExhaustedError


SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "t": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "x": {"x-kubernetes-int-or-string": True},
    },
}
DECLARED = declare(SCHEMA)
assert DECLARED is not None
VALUE = {
    "s": "ab" * 400,
    "i": 7,
    "l": list(range(80)),
    "t": ["ab" * 20] * 60,
    "m": {f"k{number}": "v" * number for number in range(50)},
    "x": "80%",
}
WORDS = st.sampled_from(
    [
        *("self", ".", "s", "i", "l", "t", "m", "x", "v", "k", "oldSelf", "in", "true", "null"),
        *("(", ")", "[", "]", "{", "}", ",", ":", "?", "&&", "||", "!", "-", "+", "*", "/", "%"),
        *("==", "!=", "<", ">=", "1", "2u", "0.5", "'a'", '"b"', "r'\\'", "b'\\x00'", "//", "\n"),
        *("has(", ".all(v,", ".map(v,", ".filter(v,", ".exists(v,", ".transformMap(k,v,", "dyn("),
        *("size(", ".size()", ".split('')", ".join('')", ".matches('a+')", ".replace('a','bb')"),
        *("string(", "int(", "[?0]", ".?s", ".orValue(", "optional.of(", "duration('1h')"),
        *("timestamp(0)", ".format([", "quantity('1')", "ip('::1')", "'%s %d'", "type(", " "),
    ]
)


@given(st.lists(WORDS, max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    assert DECLARED is not None
    with contextlib.suppress(CompileError):
        program = compile_rule(text, DECLARED)
        assert program.run(VALUE, VALUE, Effort()).cost <= 2 * PER_EXPRESSION


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    loops = st.sampled_from(["self.l", "self.t", "self.m", "self.s.split('')", "[1, 2, 3]"])
    heads = st.sampled_from(["{0}.all(v, {1})", "{0}.exists(v, !({1}))", "{0}.exists_one(v, {1})"])
    grown = st.sampled_from(
        [
            "{0}.map(v, {1}).size() >= 0",
            "[{0}, {0}].filter(v, {1}).size() >= 0",
            "{0} == {0} && ({1})",
            "{0}.transformList(a, b, {1}).size() >= 0",
        ]
    )
    return st.builds(str.format, heads | grown, loops, inner)


LEAVES = st.sampled_from(
    [
        "true",
        "self.s.matches('(a|b)*c')",
        "(self.s + self.s + self.s).size() > 0",
        "self.s.replace('', self.s).size() > 0",
        "self.t.join(self.s) != ''",
        "self.l.sum() + self.l.max() > 0",
        "self.t == self.t && self.m == self.m",
        "'%s%s'.format([self.t, self.m]) != ''",
        "self.s.find('a.*b.*a') != self.x",
        "sets.equivalent(self.l, self.l)",
    ]
)


@settings(max_examples=30)
@given(st.recursive(LEAVES, wrapped, max_leaves=6))
def test_no_rule_costs_more_than_it_may(rule: str) -> None:
    assert DECLARED is not None
    program = compile_rule(rule, DECLARED)
    effort = Effort(2_000_000)
    with contextlib.suppress(ExhaustedError):
        result = program.run(VALUE, None, effort)
        assert result.cost <= PER_EXPRESSION or result.error is not None
        # One call alone is paid for before it is made.
        assert result.cost <= 20 * PER_EXPRESSION


@settings(max_examples=15)
@given(st.lists(st.recursive(LEAVES, wrapped, max_leaves=4), min_size=1, max_size=4))
def test_an_object_is_judged_whatever_its_rules_are(rules: list[str]) -> None:
    given_rules = [{"rule": rule, "messageExpression": "self.s"} for rule in rules]
    schema = {
        "type": "object",
        "properties": {"v": SCHEMA | {"x-kubernetes-validations": given_rules}},
    }
    found: list[Any] = compile_schema(schema).validate({"v": VALUE})
    assert not found or summarize(found)
