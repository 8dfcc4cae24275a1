from __future__ import annotations

import pytest
import yaml
from hack.chart.files import ROOT, chart_version, files
from hack.chart.templating import Each, Expression, Given, Items, Tree, When, Writer, each, when


def written(tree: Tree, **placeholders: str) -> str:
    return "\n".join(Writer(placeholders).document(tree))


@pytest.mark.parametrize("path", files())
def test_what_is_made_is_as_it_would_be_made_now(path: str) -> None:
    assert (ROOT / path).read_text() == files()[path], "python -m hack.chart"


def test_what_one_call_prints_beyond_the_other_is_there_on_a_condition() -> None:
    without = {"args": ["run"], "kind": "A", "policy": "Fail"}
    having = {"args": ["run", "--more"], "kind": "A", "policy": "Ignore", "env": ["x"]}
    assert when("$.t", without, having) == {
        "args": ["run", When("$.t", "--more")],
        "kind": "A",
        "policy": Expression('ternary "Ignore" "Fail" (not (not ($.t)))'),
        "env": When("$.t", ["x"]),
    }


def test_what_is_lost_on_a_condition_is_there_without_it() -> None:
    assert when("$.t", {"a": 1, "b": 2}, {"a": 1}) == {"a": 1, "b": When("not ($.t)", 2)}
    with pytest.raises(ValueError, match="only without"):
        when("$.t", ["a", "b"], ["a"])


def test_objects_of_a_list_are_known_by_kind_and_name() -> None:
    one = {"kind": "Role", "metadata": {"name": "a"}, "rules": [1]}
    more = {**one, "rules": [1, 2]}
    other = {"kind": "Role", "metadata": {"name": "b"}}
    (first, second) = when("$.t", [one], [other, more])
    assert first == When("$.t", other)
    assert second["rules"] == [1, When("$.t", 2)]


def test_items_are_repeated_for_each_value_and_nothing_else_may_differ() -> None:
    found = each("$.l", "$one", {"args": ["a"]}, {"args": ["a", "--x=PH"]})
    assert found == {"args": ["a", Each("$.l", "$one", "--x=PH")]}
    with pytest.raises(ValueError, match="differ in more than items"):
        each("$.l", "$one", {"a": 1}, {"a": 2})


def test_trees_are_written_as_templates() -> None:
    tree = {
        "name": "PH",
        "args": ["--a=100%-PH", Each("$.l", "$x", "--b"), Items("$.more")],
        "on": When("$.t", {"a": 1}),
        "given": Given("$.given"),
        "no": "no",
        "empty": [],
        "list": [{"a": [1], "b": ""}],
    }
    assert written(tree, PH="$.Values.name") == (
        """---
name: {{ $.Values.name | quote }}
args:
- {{ printf "--a=100%%-%s" $.Values.name | quote }}
{{- range $x := $.l }}
- --b
{{- end }}
{{- with $.more }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- if $.t }}
'on':
  a: 1
{{- end }}
{{- with $.given }}
given:
  {{- toYaml . | nindent 2 }}
{{- end }}
'no': 'no'
empty: []
list:
- a:
  - 1
  b: ''"""
    )


def test_an_item_that_begins_with_a_condition_stands_below_its_dash() -> None:
    text = written({"l": [{"a": When("$.t", 1), "b": 2}]})
    lines = [line for line in text.splitlines() if "{{-" not in line]
    assert yaml.safe_load("\n".join(lines)) == {"l": [{"a": 1, "b": 2}]}


@pytest.mark.parametrize(
    ("package", "chart"),
    [("0.2.0", "0.2.0"), ("0.1.0.dev0", "0.1.0-dev0"), ("1.0.0rc1+local", "1.0.0-rc1")],
)
def test_a_charts_version_is_semver(package: str, chart: str) -> None:
    assert chart_version(package) == chart


def test_a_version_that_semver_has_no_word_for_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.0 cannot be written"):
        chart_version("1.0")
