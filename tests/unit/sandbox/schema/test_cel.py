from __future__ import annotations

from typing import Any

import pytest

from fairlead.sandbox.schema.cel import CelError, CompileError, compile_rule
from fairlead.sandbox.schema.cel.types import of_schema


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "t": {"type": "string"},
        "i": {"type": "integer"},
        "n": {"type": "number"},
        "b": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": True},
        "l": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"a": {"type": "string"}}},
        "a.b": {"type": "string"},
        "os": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    },
}
VALUE: dict[str, Any] = {
    "s": "abc",
    "t": "x",
    "i": 3,
    "n": 1.5,
    "b": True,
    "ios": "80%",
    "l": ["a", "b"],
    "set": [1, 2],
    "m": {"k": 1},
    "o": {"a": "x"},
    "a.b": "dot",
    "os": [{"a": "x"}, {}],
}


def run(rule: str, value: Any = None, old: Any = None) -> Any:
    program = compile_rule(rule, of_schema(SCHEMA))
    return program.run(VALUE if value is None else value, old)


@pytest.mark.parametrize(
    "rule",
    [
        "self.s == 'abc'",
        'self.s == "abc"',
        "self.s != self.t",
        "self.i == 3 && self.b",
        "has(self.s) && has(self.o.a)",
        "self.i > 2 && self.i >= 3 && self.i < 4 && self.i <= 3",
        "self.n > 1.0",
        "self.i + 1 == 4 && self.i - 1 == 2 && self.i * 2 == 6 && self.i / 2 == 1",
        "self.i % 2 == 1 && -self.i == -3 && -7 / 2 == -3 && -7 % 2 == -1",
        "self.s in ['abc', 'def']",
        "'k' in self.m",
        "1 in self.set",
        "size(self.s) == 3 && self.l.size() == 2 && size(self.m) == 1",
        "self.s + '-' + self.t == 'abc-x'",
        "self.s.matches('^[a-z]+$')",
        "self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b')",
        "self.s.upperAscii() == 'ABC' && self.s.replace('b', 'd') == 'adc'",
        "self.l.all(x, x.size() == 1)",
        "self.l.exists(x, x == 'b')",
        "self.l.exists_one(x, x == 'b')",
        "self.l.filter(x, x != 'a') == ['b']",
        "self.l.map(x, x + '!') == ['a!', 'b!']",
        "self.l[0] == 'a' && self.m['k'] == 1 && self.m.k == 1",
        "self.m.all(k, self.m[k] > 0)",
        "self.b ? self.i == 3 : false",
        "self.a__dot__b == 'dot'",
        "self.ios == '80%'",
        "string(self.i) == '3' && int('3') == self.i",
        "self.os.all(o, !has(o.a) || o.a == 'x')",
        "self.os.exists(o, o.a == 'x')",
        "false || self.os[1].a == 'x' || true",
        "self.l.join(',') == 'a,b' && 'a,b'.split(',') == self.l",
        r"'a\tb' == 'a\x09b' && r'\d' == '\\d'",
        "self.i == 0x3 // three",
        "self.o != null",
    ],
)
def test_rules_that_hold(rule: str) -> None:
    assert run(rule) is True


@pytest.mark.parametrize(
    ("rule", "old", "holds"),
    [
        pytest.param("self == oldSelf", VALUE, True, id="same"),
        pytest.param("self == oldSelf", VALUE | {"i": 4}, False, id="changed"),
        pytest.param("self == oldSelf", VALUE | {"set": [2, 1]}, True, id="sets have no order"),
        pytest.param("self == oldSelf", VALUE | {"l": ["b", "a"]}, False, id="lists have"),
        pytest.param("self.i >= oldSelf.i", VALUE | {"i": 2}, True, id="grows"),
        pytest.param("self.b == oldSelf.b", VALUE | {"b": 1}, False, id="true is not 1"),
        pytest.param("self.set.all(x, x in oldSelf.set)", VALUE | {"set": [1]}, False, id="kept"),
        pytest.param("!has(oldSelf.s) || self.s == oldSelf.s", VALUE, True, id="once set"),
    ],
)
def test_transition_rules(rule: str, old: Any, *, holds: bool) -> None:
    program = compile_rule(rule, of_schema(SCHEMA))
    assert program.transition
    assert program.run(VALUE, old) is holds


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        pytest.param("self.os[1].a == 'x'", "no such key: a", id="key"),
        pytest.param("self.m['z'] == 1", "no such key: z", id="map key"),
        pytest.param("self.l[5] == 'x'", "index out of bounds: 5", id="index"),
        pytest.param("1 / (self.i - 3) == 1", "division by zero", id="division"),
        pytest.param("self.ios > 3", "no such overload", id="overload"),
        pytest.param("9223372036854775807 + self.i > 0", "integer overflow", id="overflow"),
        pytest.param("self.os.all(o, o.a == 'x')", "no such key: a", id="in a macro"),
    ],
)
def test_rules_that_fail_to_run(rule: str, message: str) -> None:
    with pytest.raises(CelError, match=message):
        run(rule)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        pytest.param("self.zzz", "1:6: undefined field 'zzz'", id="field"),
        pytest.param("foo == 1", "undeclared reference to 'foo'", id="name"),
        pytest.param("self.s == 1", r"found no matching overload for '_==_' applied to", id="=="),
        pytest.param("self.s > 1", "found no matching overload for '>'", id="compare"),
        pytest.param("self.n == 1", "found no matching overload", id="double and int"),
        pytest.param("self.s", "must evaluate to a bool", id="not a bool"),
        pytest.param("self.s.foo()", "'foo' is not supported by this server", id="method"),
        pytest.param("url(self.s) == ''", "'url' is not supported by this server", id="function"),
        pytest.param("self.l.sum() == 1", "not supported by this server", id="library"),
        pytest.param("self.?s.orValue('') == ''", "Syntax error", id="optional"),
        pytest.param("{'a': 1} == self.m", "map literals are not supported", id="map literal"),
        pytest.param("self.s ==", "Syntax error", id="end"),
        pytest.param("self.s == 'a' 'b'", "Syntax error: unexpected", id="rest"),
        pytest.param("(self.b", "Syntax error", id="parenthesis"),
        pytest.param("self.i == 3u", "Syntax error", id="unsigned"),
        pytest.param("has(self)", r"invalid argument to has\(\) macro", id="has"),
        pytest.param("self.s.matches('[')", "invalid matches argument", id="pattern"),
        pytest.param("self.l.all(x, y, true)", "takes a variable", id="two variables"),
        pytest.param("self.s.all(x, true)", "cannot be range of a comprehension", id="range"),
        pytest.param("self.l.all(x, x)", "needs a bool", id="macro body"),
        pytest.param("self.s.x == 'a'", "does not support field selection", id="select"),
        pytest.param("self.s[0] == 'a'", r"'_\[_\]'", id="index"),
        pytest.param("self.s && true", "'_&&_'", id="logic"),
        pytest.param("(self.b ? 1 : 'a') == 1", r"_\?_:_", id="ternary"),
        pytest.param("'a' in self.set", "found no matching overload", id="in"),
        pytest.param("self.s == null", "found no matching overload", id="null"),
        pytest.param("(" * 2000, "recursion limit", id="open"),
        pytest.param("!" * 2000 + "self.b", "recursion limit", id="signs"),
        pytest.param("true" + " && true" * 2000, "recursion limit", id="chain"),
        pytest.param("self" + ".o" * 2000, "recursion limit", id="path"),
        pytest.param("size(self.i) == 1", "found no matching overload for 'size'", id="size"),
    ],
)
def test_rules_that_are_refused(rule: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_rule(rule, of_schema(SCHEMA))
