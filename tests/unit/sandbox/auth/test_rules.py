from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_sandbox.auth import rules
from fairlead_sandbox.auth.rules import (
    RequestAttributes,
    Rule,
    TooManyPartsError,
    parse_rules,
    uncovered,
)


def rule(verbs: str = "", groups: str = "", resources: str = "", **more: Any) -> Rule:
    body = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    return Rule.parse(body | more)


PODS = rule("get", "core", "pods")


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        pytest.param(PODS, RequestAttributes("get", "", "pods"), True, id="same"),
        pytest.param(PODS, RequestAttributes("list", "", "pods"), False, id="verb"),
        pytest.param(PODS, RequestAttributes("get", "apps", "pods"), False, id="group"),
        pytest.param(PODS, RequestAttributes("get", "", "secrets"), False, id="resource"),
        pytest.param(PODS, RequestAttributes("get", "", "pods/log"), False, id="subresource"),
        pytest.param(PODS, RequestAttributes("get", path="/metrics"), False, id="path"),
        pytest.param(
            rule("*", "*", "*"), RequestAttributes("get", "apps", "x/y"), True, id="all wildcards"
        ),
        pytest.param(
            rule("*", "*", "*"), RequestAttributes("get", path="/x"), False, id="no paths"
        ),
        pytest.param(
            rule("get", "core", "*/log"),
            RequestAttributes("get", "", "pods/log"),
            True,
            id="*/log",
        ),
        pytest.param(
            rule("get", "core", "*/log"),
            RequestAttributes("get", "", "log"),
            False,
            id="*/log alone",
        ),
        pytest.param(
            Rule.parse({"verbs": ["get"], "nonResourceURLs": ["/a/*"]}),
            RequestAttributes("get", path="/a/b/c"),
            True,
            id="path prefix",
        ),
        pytest.param(
            Rule.parse({"verbs": ["get"], "nonResourceURLs": ["/a"]}),
            RequestAttributes("get", path="/a/b"),
            False,
            id="path exactly",
        ),
        pytest.param(
            Rule.parse({"verbs": ["get"], "nonResourceURLs": ["*"]}),
            RequestAttributes("get", path="/a/b"),
            True,
            id="every path",
        ),
    ],
)
def test_matches(held: Rule, asked: RequestAttributes, expected: bool) -> None:
    assert held.matches(asked) is expected


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        pytest.param([PODS], [PODS], [], id="same"),
        pytest.param([rule("*", "*", "*")], [rule("get list", "core apps", "a b")], [], id="all"),
        pytest.param(
            [PODS],
            [rule("get delete", "core", "secrets pods")],
            [
                '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
                '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete"]}',
            ],
            id="parts",
        ),
        pytest.param(
            [PODS],
            [rule("*", "core", "pods")],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}'],
            id="a wildcard needs a wildcard",
        ),
        pytest.param(
            [rule("get", "core", "pods", resourceNames=["a"])],
            [rule("get", "core", "pods", resourceNames=["a", "b"])],
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
            id="names",
        ),
        pytest.param(
            [rule("get", "core", "pods", resourceNames=["a"])],
            [PODS],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
            id="all names",
        ),
        pytest.param(
            [PODS], [rule("get", "core", "pods", resourceNames=["a"])], [], id="fewer names"
        ),
        pytest.param(
            [Rule.parse({"verbs": ["get"], "nonResourceURLs": ["/a/*"]})],
            [Rule.parse({"verbs": ["get"], "nonResourceURLs": ["/a/b", "/c"]})],
            ['{NonResourceURLs:["/c"], Verbs:["get"]}'],
            id="paths",
        ),
        pytest.param(
            [rule("get", "core", "*/log")],
            [rule("get", "core", "pods/log pods/exec")],
            ['{APIGroups:[""], Resources:["pods/exec"], Verbs:["get"]}'],
            id="subresources",
        ),
    ],
)
def test_uncovered(held: list[Rule], wanted: list[Rule], missing: list[str]) -> None:
    assert [str(one) for one in uncovered(held, wanted)] == missing


def some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=3).map(tuple)


RULES = st.builds(
    Rule,
    some("get", "list", "*"),
    some("", "apps", "*"),
    some("pods", "pods/log", "*/log", "*"),
    some("a", "b", ""),
    some("/a", "/a/*", "*"),
)


@given(held=RULES, wanted=RULES)
def test_a_rule_that_covers_another_covers_each_of_its_parts(held: Rule, wanted: Rule) -> None:
    if rules._covers_all(held, wanted):
        assert all(rules._covers(held, part) for part in rules._parts(wanted))


def test_rules_that_are_too_many_to_compare_are_refused() -> None:
    many = " ".join(f"a{number}" for number in range(1000))
    wanted = rule(many, many, many)
    with pytest.raises(TooManyPartsError, match="the rules have 1000000000 combinations"):
        uncovered([PODS], [wanted])
    assert not uncovered([rule("*", "*", "*")], [wanted])


@pytest.mark.parametrize("body", [{}, {"rules": None}, {"rules": ["x"]}, {"rules": []}])
def test_rules_that_are_none(body: dict[str, Any]) -> None:
    assert parse_rules(body) == ()


def test_json() -> None:
    assert PODS.to_json() == {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
