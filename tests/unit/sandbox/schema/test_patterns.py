from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_sandbox.schema.effort import Effort, ExhaustedError
from fairlead_sandbox.schema.patterns import compile_pattern


GOLDEN = Path(__file__).parents[3] / "golden" / "patterns.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
WANTED = {
    r"\p{ASCII}": "Go 1.25 has it; RE2 has none of Go's newest names",
    r"\p{Cn}": "the same",
    r"\p{Nag_Mundari}": "RE2's tables of Unicode are newer",
}
INSIDE = "RE2 finds the place between the bytes of a character, which is no boundary of words"


def verdict(pattern: str, text: str, expected: dict[str, Any]) -> dict[str, Any]:
    try:
        compiled = compile_pattern(pattern, Effort())
    except ValueError as error:
        return {"error": str(error)}
    if "found" in expected:
        return {"found": compiled.find(text, Effort())}
    return {"matches": compiled.search(text, Effort())}


def test_go_and_we_agree() -> None:
    differing = {
        case["input"]["pattern"]
        for case in CASES
        if verdict(**case["input"], expected=case["expect"]) != case["expect"]
    }
    assert differing == {*WANTED, r"\B"}, INSIDE


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("(a+)+$", "a" * 40 + "!", False, id="nested repetition"),
        pytest.param("(a|aa)+$", "a" * 60 + "!", False, id="two ways"),
        pytest.param("(.*)*x", "a" * 5000, False, id="stars"),
        pytest.param(r"^(\w+\s?)*$", "a " * 50 + "!", False, id="words"),
        pytest.param("(x?){1000}x{1000}", "x" * 1999, True, id="many optional ones"),
    ],
)
def test_what_hangs_others_is_linear(pattern: str, text: str, *, matches: bool) -> None:
    assert compile_pattern(pattern, Effort()).search(text, Effort()) is matches


def coins(count: int) -> str:
    return "".join(random.Random(1).choices("ab", k=count))


def test_a_match_that_would_take_seconds_is_not_tried() -> None:
    with pytest.raises(ExhaustedError):
        compile_pattern("a[ab]{900}c", Effort()).search(coins(200_000), Effort())


def test_many_long_matches_end_the_effort() -> None:
    pattern, text, effort = (
        compile_pattern("a[ab]{900}c", Effort()),
        coins(90_000),
        Effort(2_000_000),
    )
    searches = (pattern.search(text, effort) for _ in range(100))
    with pytest.raises(ExhaustedError):
        assert any(searches)


def test_a_pattern_that_takes_much_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="error parsing regexp: expression too large"):
        compile_pattern(r"^\p{L}{1,1000}$", Effort())


def test_text_that_is_no_unicode_is_no_error() -> None:
    assert compile_pattern("^.$", Effort()).search("\ud800", Effort())


PIECES = st.sampled_from(
    [*"ab.^$|()*+?[]{}\\-,19", r"\d", r"\pL", "{2}", "{0,9}", "{99}", "[^a]", "(?i)", "(?:", "+?"]
)


@given(
    st.lists(PIECES, max_size=12).map("".join), st.text("ab1\né", max_size=30), st.integers(0, 200)
)
def test_no_pattern_costs_more_than_its_bound(pattern: str, text: str, times: int) -> None:
    try:
        compiled = compile_pattern(pattern, Effort())
    except ValueError:
        return
    effort = Effort(3_000_000)
    try:
        compiled.search(text * times, effort)
        compiled.find(text, effort)
    except ExhaustedError:
        # A match is refused without a try only if its worst case is many steps.
        steps = compiled._size * len((text * times).encode())
        assert effort.left < 0 or steps > 100_000_000
