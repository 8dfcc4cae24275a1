"""Go templates against what text/template of Go 1.26 answers for the values below."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.binding.golden import cases

from fairlead.api.meta import JSON
from fairlead.binding.expressions.gotemplate import JSON as GO_JSON
from fairlead.binding.expressions.gotemplate import Template, TemplateError, of_string


DATA: dict[str, Any] = {
    "s": "héllo",
    "n": None,
    "i": 5,
    "f": 2.5,
    "l": ["a", 1, None, [2], {"k": "v"}],
    "m": {"a": 1, "b": [1], "c": None},
    "u": [{"n": "al"}, {"n": "bob"}],
    "e": [],
    "tree": {"d": [{"d": [{}]}, {}]},
    "t": True,
    "big": 2**63,
    "html": "<a&'\">\0",
}

OTHERWISE: dict[str, tuple[str, str]] = {
    "otherwise-001": (
        "a value, which may be a password, is not shown",
        "range can't iterate over a value of type string",
    ),
    "otherwise-002": (
        "values that are not comparable are not shown",
        "error calling eq: non-comparable type []interface {}",
    ),
    "otherwise-003": (
        "values that are not comparable are not shown",
        "error calling eq: non-comparable types []interface {}, map[string]interface {}",
    ),
    "otherwise-004": (
        "without the types, as Go 1.19 has it, with which the original was built",
        "error calling lt: incompatible types for comparison",
    ),
    "otherwise-005": (
        "without the name, as Go 1.19 has it",
        "error calling call: non-function of type string",
    ),
    "otherwise-006": (
        "numbers that cannot be read have one error",
        'illegal number syntax: "1+i"',
    ),
}
"""What differs from Go 1.26 on purpose, by id: the reason, and the end of our error."""


def rendered(text: str, data: dict[str, Any] | None = None) -> str:
    template = Template(text, name="mappings", functions={"json": GO_JSON})
    return template.render(DATA if data is None else data)


def outcome(text: str) -> dict[str, str]:
    try:
        return {"text": rendered(text)}
    except TemplateError as error:
        return {"error": str(error)}


@pytest.mark.parametrize("case", cases("go-templates"), ids=lambda case: str(case["id"]))
def test_templates_say_what_go_says(case: JSON) -> None:
    got = outcome(case["input"]["template"])
    if case["id"] in OTHERWISE:
        assert got != case["expect"]
        assert got["error"].endswith(f": {OTHERWISE[case['id']][1]}")
    else:
        assert got == case["expect"]


def test_addresses_are_not_printed() -> None:
    assert rendered('{{ printf "%p" .i }}|{{ printf "%p" .e }}') == (
        "%!p(int64=5)|%!p([]interface {}=[])"
    )


def test_functions_are_those_that_are_given() -> None:
    functions = {"upper": of_string(str.upper)}
    template = Template("{{ .s | upper }}{{ .nope }}", name="t", functions=functions, no_value="")
    assert template.render(DATA) == "HÉLLO"
    with pytest.raises(TemplateError, match='function "json" not defined'):
        Template("{{ json .s }}", name="t", functions=functions)
    with pytest.raises(TemplateError, match="wrong type for value; expected string; got int64"):
        Template("{{ upper .i }}", name="t", functions=functions).render(DATA)


def test_one_template_renders_more_than_once() -> None:
    template = Template("{{ $x := .a }}{{ range .l }}{{ $x }}{{ end }}", name="t")
    assert template.render({"a": 1, "l": [0]}) == "1"
    assert template.render({"a": 2, "l": [0, 0]}) == "22"
