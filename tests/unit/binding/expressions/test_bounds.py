"""Templates and paths are a tenant's: each ends, and says which bound it went beyond."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.binding.expressions.test_templates import DATA, rendered

from fairlead.api.jsonpath import JSONPath, JSONPathError, print_results
from fairlead.binding.expressions.gotemplate import TemplateError
from fairlead.binding.expressions.gotemplate.bounds import DEPTH, SOURCE


LARGE: dict[str, Any] = {
    "l": list(range(5_000)),
    "a": "x" * 900_000,
    "u": "é" * 300_000,
    "m": {f"k{number}": number for number in range(5_000)},
    "d": {"x": ["y" * 100] * 5_000},
}
STEPS = "templates take more than 100000 steps"
OUTPUT = "templates render more than 1048576 bytes"
WORK = "functions of templates go through more than 4194304 bytes"
RECURSION = '{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}'


def action(body: str) -> str:
    return "{{ " + body + " }}"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a" * (SOURCE + 1), "template has more than 131072 characters"),
        (action("(" * 51 + "1" + ")" * 51), "parentheses nest deeper than 50"),
        (RECURSION, "exceeded maximum template depth (1000)"),
        ("{{ range 9000000000000000000 }}{{ end }}", STEPS),
        ("{{ range .l }}{{ range $.l }}{{ end }}{{ end }}", STEPS),
        ("{{ range .m }}{{ range $.m }}{{ break }}{{ end }}{{ end }}", WORK),
        ("{{ range .l }}{{ or" + " $.q" * 10 + " }}{{ end }}", STEPS),
        ("{{ .a }}{{ .a }}", OUTPUT),
        ("{{ range .l }}{{ $.d }}{{ end }}", OUTPUT),
        ("{{ $x := .a }}" + "{{ $x = print $x $x }}" * 60, WORK),
        ('{{ $x := printf "%1000000d" 1 }}' * 5, WORK),
        ('{{ $x := printf "%1000000d" .l }}', WORK),
        ('{{ $x := printf "%.1000000f" 1.5 }}' * 5, WORK),
        ('{{ range .l }}{{ $x := printf "" $.d }}{{ end }}', WORK),
        ("{{ range .l }}{{ $x := print $.d }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := json $.d }}{{ end }}", WORK),
        ("{{ $x := js .a }}{{ $x := js .a }}", WORK),
        ('{{ $x := printf "%q" .a }}{{ $x := printf "%q" .a }}', WORK),
        ("{{ range .l }}{{ $x := html $.a }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := urlquery $.a }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := len $.u }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := index $.u 1 }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := slice $.l 1 }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := slice $.u 1 }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := eq $.a $.a }}{{ end }}", WORK),
        ("{{ range .l }}{{ $x := lt $.u $.u }}{{ end }}", WORK),
    ],
    ids=range(26),
)
def test_bounds_of_templates(text: str, bound: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(text, LARGE)
    assert str(caught.value).endswith(bound)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ if .t }}" * 6_000 + "{{ end }}" * 6_000, ""),
        ("{{ if .n }}" + "{{ else if .n }}" * 6_000 + "{{ else }}x{{ end }}", "x"),
        (action("(" * 50 + "1" + ")" * 50), "1"),
        (action("1" + " | print" * 10_000), "1"),
        (action(".q" + ".a" * 50_000), "<no value>"),
        ("{{ $a := 1 }}" * 8_000 + "{{ $a }}" * 2_000, "1" * 2_000),
        (action('printf "' + "%[" * 30_000 + '"'), None),
        (action('"' + "\\xff" * 20_000 + '"'), "\ufffd" * 20_000),
        (action('printf "%' + "0" * 50_000 + '5d" 1'), "00001"),
        ("{{ .s" + " " * 100_000 + "-}}" + " " * 20_000 + "x", "héllox"),
        (action("1" * 100_000), None),
        (action("1_" * 50_000), None),
        ('{{ "' + "a" * 100_000, None),
        ("{{/*" * 20_000, None),
    ],
    ids=range(14),
)
def test_long_and_deep_templates_take_neither_time_nor_stack(
    text: str, expected: str | None
) -> None:
    if expected is not None:
        assert rendered(text) == expected
    else:
        with contextlib.suppress(TemplateError):
            rendered(text)


def test_templates_may_call_one_another_as_deep_as_the_bound_says() -> None:
    nest: dict[str, Any] = {}
    for _ in range(DEPTH - 1):
        nest = {"k": nest}
    walk = '{{ define "w" }}.{{ with .k }}{{ template "w" . }}{{ end }}{{ end }}'
    assert rendered(walk + '{{ template "w" . }}', nest) == "." * (DEPTH - 1)


def test_errors_fit_into_a_condition() -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(action(".s." + "a" * 100_000))
    assert len(str(caught.value)) < 2_000
    with pytest.raises(JSONPathError) as found:
        JSONPath("{.a[?(@.b)]}").find(LARGE)
    assert len(str(found.value)) < 2_000


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("{.a}" + "a" * 65_536, "template has more than 65536 characters"),
        ("{..}" * 10_000, "template looks at more than 200000 values"),
        ("{range @}" * 40, "template looks at more than 200000 values"),
        ("{.l}" * 1_000, "template gives more than 1048576 characters"),
        ("{range @}" * 51, "ranges nest deeper than 50"),
        ("{.l" + "[?(@" * 60 + ")]" * 60 + "}", ""),
        ("{" * 60_000, "unrecognized character in action: U+007B '{'"),
        ("{['" * 20_000, ""),
        ("{." + "a" * 60_000, "unclosed action"),
        ("{'" + "\\a" * 30_000, "unterminated quoted string"),
    ],
    ids=range(10),
)
def test_bounds_of_paths(text: str, bound: str) -> None:
    with pytest.raises(JSONPathError) as caught:
        print_results(JSONPath(text).find(LARGE))
    assert str(caught.value).endswith(bound)


SYNTAX = st.sampled_from(
    [
        *("{{", "}}", "{{-", "-}}", " ", "\n", "|", "(", ")", ",", ":=", "=", '"', "`", "'", "\\"),
        *("if ", "else", "else if ", "else with ", "end", "range ", "with ", "break", "continue"),
        *(
            "define ",
            "template ",
            "block ",
            '"a"',
            "nil",
            "true",
            "$",
            "$x",
            "$x := ",
            "$x, $y := ",
        ),
        *(".", ".s", ".l", ".m", ".n", ".tree.d", ".i", "1", "-1", "0x", "1e9", "1i", "'a'", "_"),
        *("print ", "printf ", '"%[1]*d%v%"', "index ", "slice ", "len ", "eq ", "lt ", "and "),
        *("or ", "not ", "json ", "js ", "html ", "urlquery ", "call ", "/* */", "é", "\udc80"),
    ]
)
ACTIONS = st.lists(SYNTAX, max_size=8).map(" ".join).map(action)


@given(st.lists(SYNTAX | ACTIONS, max_size=12).map("".join) | st.text(max_size=40))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    with contextlib.suppress(TemplateError):
        rendered(text).encode()


VERBS = st.lists(
    st.sampled_from([*"%vTdboOxXcqUeEfFgGstwpz*.#0+- []123é", "[1]", "[2]", "[x]", "\udc80"]),
    max_size=12,
)
VALUES = st.lists(
    st.sampled_from([".s", ".n", ".i", ".f", ".l", ".m", ".big", "1", "-1", "1.5", "1i", "nil"]),
    max_size=3,
)


@given(VERBS.map("%".join), VALUES)
def test_any_layout_is_printed(layout: str, values: list[str]) -> None:
    with contextlib.suppress(TemplateError):
        rendered(action(f"printf `{layout}` {' '.join(values)}")).encode()


WORDS = st.sampled_from(
    [
        *("{", "}", "{range ", "{end}", ".", "..", "*", "@", "$", "[", "]", "[*]", "[0]", "[-1]"),
        *("[1:]", "[::2]", "['s','i']", "[?(", ")]", "==", "<", "!", "'a'", '"', "1", "-", "true"),
        *(".s", ".l", ".m", ".u", ".n", ".tree", "..d", "\\", " ", "\n", "é", ",", ":", "\udc80"),
    ]
)


@given(
    st.lists(WORDS, max_size=14).map("".join)
    | st.lists(WORDS, max_size=8).map(lambda steps: "{" + "".join(steps) + "}")
    | st.text(max_size=30)
)
@example('{"\udc80"..d}')
def test_any_text_is_a_path_or_refused(text: str) -> None:
    with contextlib.suppress(JSONPathError):
        print_results(JSONPath(text).find(DATA))
