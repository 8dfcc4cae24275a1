"""JSONPath against what client-go 0.26 says, where the original's recording says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.jsonpath import Budget, JSONPath, JSONPathError, print_results


DATA: dict[str, Any] = {
    "s": "text",
    "n": None,
    "i": 5,
    "f": 2.5,
    "l": [3, 1, 2],
    "nl": [None, 1],
    "u": [{"n": "al", "a": 30}, {"n": "bob", "a": 25}],
    "m": {"a": 1},
    "e": [],
    "t": True,
    "ll": [[1, 2], [3]],
    "big": 2**63,
    "x.y": 1,
}


def printed(template: str) -> str:
    try:
        return print_results(JSONPath(template).find(DATA))
    except JSONPathError as error:
        return f"error: {error}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.n[?(@.a)]}", "error: <nil> is not array or slice and cannot be filtered"),
        ("{.nl[*][?(@.a)]}", "error: <nil> is not array or slice and cannot be filtered"),
        ("{.s[?(@.a)]}", "error: text is not array or slice and cannot be filtered"),
        ("{.m[0]}", "error: map[string]interface {} is not array or slice"),
        ("{.m[*]}", "error: map[string]interface {} is not array or slice"),
        ("{.s[1:]}", "error: string is not array or slice"),
        ("{.i[0]}", "error: int64 is not array or slice"),
        ("{.f[0]}", "error: float64 is not array or slice"),
        ("{.t[0]}", "error: bool is not array or slice"),
        ("{.big[0]}", "error: float64 is not array or slice"),
        ("{.n[0]}", ""),
        ("{.n.a}", "error: a is not found"),
        ("{.l[*]} tail", "3 1 2 tail"),
        ("{.l[*]}, {.s}", "3 1 2, text"),
        ("{.l}tail", "[3,1,2]tail"),
        ("{.l[*] 'x'}", "x"),
        ("{.l[*]true}", "true true true"),
        ("{.l[*]2.5}", "2.5 2.5 2.5"),
        ("{['s','i']1}", "1 1"),
        ("{range .l[*]}{@},{end}", "3,1,2,"),
        ("{range .l[*]}{@},{end}after {.i}", "3,1,2,after 5"),
        (
            "{range .l[*]}{@},",
            '3,1,2,{"big":9223372036854776000,"e":[],"f":2.5,"i":5,"l":[3,1,2],"ll":[[1,2],[3]],"m":{"a":1},"n":null,"nl":[null,1],"s":"text","t":true,"u":[{"a":30,"n":"al"},{"a":25,"n":"bob"}],"x.y":1},',
        ),
        ("{range .l[*]}{@},{.i}", "error: i is not found"),
        ("{range .u[*]}{.n}={.a};{end}", "al=30;bob=25;"),
        ("{range .u[*]}{.n}", "albob<nil>"),
        ("{range .ll[*]}<{range @[*]}{@} {end}>{end}", "<1 2 ><3 >"),
        ("{range .ll[*]}<{range @[*]}{@} {end}>", "<1 2 ><3 >>"),
        ("{range .e[*]}{.a}{end}x", "error: a is not found"),
        ("{range .e[*]}{.a[0]}{end}x", "error: a is not found"),
        ("{range .e[*]}x", "x"),
        ("{range .e[*]}x{end}y", "y"),
        ("{range .n}[{@.a}]{end}", "error: a is not found"),
        ("{range .i}t", "tt"),
        ("{end}", "error: not in range, nothing to end"),
        ("{.i end}", "error: not in range, nothing to end"),
        ("{.l range}{@}{end}", "[3,1,2]"),
        ("{range}{.i}{end}", "5"),
        ("{range .l[*]}{end}{end}", "error: not in range, nothing to end"),
        ("{.m...a}", "1"),
        ("{...a}", "30 25 1"),
        ("{....}", "error: invalid multiple recursive descent"),
        ("{.*a}", "error: *a is not found"),
        ("{.x\\.y}", "1"),
        ("{['x\\.y']}", "1"),
        ("{.\\s}", "text"),
        ("{.u[?(@.n=='al')].a}", "30"),
        ('{.u[?(@.n=="al")].a}', "30"),
        ("{.u[?(@.n=='a)l')].a}", ""),
        ("{.u[?('al'==@.n)].a}", "30"),
        ("{.u[?(@.n==''al')].a}", "error: unrecognized identifier al'"),
        ("{.u[?(@.n=='al].a}", "error: unterminated filter"),
        ("{.u[?(@.a>25)].n}", "al"),
        ("{.u[?(@.a>25.0)].n}", "error: incompatible types for comparison"),
        ("{.u[?(@.n==@.n)].a}", "30 25"),
        ("{.u[?(@.n ~ 'al')].a}", "error: unrecognized character in action: U+007E '~'"),
        ("{.u[?(@.n==[?(@.a)])].a}", "error: unterminated filter"),
        ("{.u[?( != }]}", "error: unterminated filter"),
        ("{.u[?(@.n == nil)]}", "error: unrecognized identifier nil"),
        ("{.nl[?(@ == 1)]}", "error: invalid type for comparison"),
        ("{'\\u00e9\\'\"'}", "é'\""),
        ('{"\\q"}', 'error: unquote string "\\q" error invalid syntax'),
        ('{"\\\'"}', 'error: unquote string "\\\'" error invalid syntax'),
        ("{'a", "error: unterminated quoted string"),
        ("{.big}", "9.223372036854776e+18"),
        ("{@.big}{.l}", "9.223372036854776e+18[3,1,2]"),
        ("{.ll[*]} {.m}", '[1,2] [3] {"a":1}'),
        ("{..a}", "30 25 1"),
    ],
)
def test_paths_print_what_client_go_prints(template: str, expected: str) -> None:
    assert printed(template) == expected


def test_a_null_that_a_range_goes_over_is_null() -> None:
    """The original prints ``<no value>``, as for the null document."""
    assert printed("{range .nl[*]}[{@}]{end}") == "[<nil>][1]"


def searched(template: str, value: Any, *, straight: bool) -> tuple[Any, int]:
    """Return the result of a template, or its error, and how many values it looked at."""
    path = JSONPath(template)
    if not straight:
        path._straight = ()
    budget = Budget(1_000, "too many values")
    try:
        return path.find(value, budget), 1_000 - budget.left
    except JSONPathError as error:
        return str(error), 1_000 - budget.left


READY: dict[str, Any] = {"type": "Ready", "status": "True"}
OTHER: dict[str, Any] = {"type": "Synced", "status": "False"}


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param([READY], id="it alone"),
        pytest.param([OTHER, READY], id="among others"),
        pytest.param([OTHER], id="not there"),
        pytest.param([READY, READY], id="there twice"),
        pytest.param([], id="none"),
        pytest.param(None, id="null"),
        pytest.param({"type": "Ready"}, id="not a list"),
        pytest.param([READY, {"status": "True"}], id="one without a type"),
        pytest.param([READY, {"type": 1}], id="one of another type"),
        pytest.param([READY, "Ready"], id="one that is a text"),
        pytest.param([{"type": "Ready"}], id="without the field after it"),
        pytest.param([OTHER] * 200, id="too many values"),
    ],
)
def test_a_condition_that_is_picked_at_once_costs_what_the_search_costs(conditions: Any) -> None:
    template = '{.status.conditions[?(@.type=="Ready")].status}'
    value = {"status": {"conditions": conditions}}
    at_once = searched(template, value, straight=True)
    assert at_once == searched(template, value, straight=False)
