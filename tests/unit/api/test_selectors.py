from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.api.selectors import FieldSelector, LabelMatcher, LabelSelector, SelectorError


GOLDEN = Path(__file__).parents[2] / "golden" / "selectors.jsonl"
CASES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_label_selectors_are_those_of_the_originals(case: JSON) -> None:
    if "error" in case["expect"]:
        with pytest.raises(SelectorError) as found:
            LabelSelector.from_dict(case["input"]["selector"])
        assert str(found.value) == case["expect"]["error"]
        return
    selector = LabelSelector.from_dict(case["input"]["selector"])
    matches = selector.matches(case["input"]["labels"])
    assert case["expect"] == {"matches": matches, "string": str(selector)}
    assert LabelMatcher(selector).matches(case["input"]["labels"]) == matches


_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2", "3"]))
_TEXTS = st.lists(
    st.sampled_from(
        [
            "a",
            "!a",
            "a=1",
            "a!=1",
            "a in (1,2)",
            "a in (2,3)",
            "a notin (1,3)",
            "b",
            "!b",
            "b!=2",
            "c=",
            "c>1",
            "c<3",
        ]
    )
)


@given(_TEXTS, _LABELS)
def test_a_matcher_selects_what_its_selector_does(
    terms: list[str], labels: dict[str, str]
) -> None:
    selector = LabelSelector.parse(",".join(terms))
    assert LabelMatcher(selector).matches(labels) == selector.matches(labels)


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist", "In", "Exists"])
def test_a_matcher_looks_up_no_more_labels_than_there_are(operator: str) -> None:
    values = ["x"] if operator in {"In", "NotIn"} else []
    terms = [{"key": f"k{n}", "operator": operator, "values": values} for n in range(15_000)]
    matcher = LabelMatcher(LabelSelector.from_dict({"matchExpressions": terms}))

    class Counting(dict[str, str]):
        looked = 0

        def __contains__(self, key: object) -> bool:
            self.looked += 1
            return super().__contains__(key)

    labels = Counting(k1="x", other="y")
    assert not matcher.matches(labels)
    assert labels.looked <= len(labels)


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({"matchLabels": {"a": "1", "b": "1", "c": "1"}}, "it has more than 2 terms"),
        (
            {"matchLabels": {"a": "1", "b": "1"}, "matchExpressions": [{"key": "a"}]},
            "it has more than 2 terms",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2", "3"]}]},
            'the term of "a" has more than 2 values',
        ),
    ],
)
def test_a_selector_may_be_too_long(selector: JSON, said: str) -> None:
    with pytest.raises(SelectorError, match=said):
        LabelSelector.from_dict(selector, most=2)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a", "a"),
        ("!a", "!a"),
        (" b = c , a==d ", "a==d,b=c"),
        ("a!=b", "a!=b"),
        ("a in (c, b,b)", "a in (b,c)"),
        ("a notin (b)", "a notin (b)"),
        ("a=", "a="),
        ("a in (,b)", "a in (,b)"),
        ("example.org/a>5", "example.org/a>5"),
        ("a<5", "a<5"),
        ("in in (in)", "in in (in)"),
    ],
)
def test_label_selectors_are_read_and_written(text: str, shown: str) -> None:
    assert str(LabelSelector.parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>b",
            (
                "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an "
                "integer"
            ),
        ),
    ],
)
def test_wrong_label_selectors_say_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as found:
        LabelSelector.parse(text)
    assert str(found.value) == message


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "x"}, False),
        ("a<5", {}, False),
        ("a!=b", {}, True),
        ("a=", {"a": ""}, True),
    ],
)
def test_labels_match(text: str, labels: dict[str, str], expected: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is expected


_WORD = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)


@given(st.dictionaries(_WORD, _WORD, max_size=4))
def test_a_selector_made_of_labels_matches_them(labels: dict[str, str]) -> None:
    selector = LabelSelector.from_dict({"matchLabels": labels})
    assert selector.matches(labels)
    assert selector.matches({**labels, "other/own": "x"})
    again = LabelSelector.parse(str(selector))
    assert again.matches(labels)


@given(st.dictionaries(_WORD, st.text(max_size=6), max_size=3))
def test_field_selectors_survive_being_written(fields: dict[str, str]) -> None:
    escaped = (
        value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        for value in fields.values()
    )
    text = ",".join(f"{name}={value}" for name, value in zip(fields, escaped, strict=True))
    selector = FieldSelector.parse(text)
    assert selector.matches(fields.get)
    assert FieldSelector.parse(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a.b=x", True), ("a.b==x", True), ("a.b!=x", False), ("c!=x", True), ("c=", True)],
)
def test_fields_match(text: str, expected: bool) -> None:
    assert FieldSelector.parse(text).matches({"a.b": "x"}.get) is expected


def test_a_field_selector_needs_an_operator() -> None:
    with pytest.raises(SelectorError, match="can't understand 'a'"):
        FieldSelector.parse("a")


def test_a_long_selector_of_spaces_is_read_in_time_that_grows_with_it() -> None:
    """A search that starts anew at each space takes minutes here."""
    spaces = " " * 200_000
    assert str(LabelSelector.parse(f"{spaces}a{spaces}={spaces}b{spaces}")) == "a=b"
