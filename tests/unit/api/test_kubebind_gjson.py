from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.kubebind import gjson


DATA: dict[str, Any] = {
    "spec": {
        "secret": " db ",
        "empty": "",
        "none": None,
        "port": 5432,
        "on": True,
        "list": ["a", "b", None],
        "refs": [{"name": "one"}, {"other": 1}, {"name": "two", "deep": [{"x": "1"}, {"x": "2"}]}],
        "dotted.key": "dot",
        "object": {"k": "v"},
    }
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("spec.secret", ["db"], id="scalar is trimmed"),
        pytest.param("spec.port", ["5432"], id="number"),
        pytest.param("spec.on", ["true"], id="boolean"),
        pytest.param("spec.empty", [], id="empty"),
        pytest.param("spec.none", [], id="null"),
        pytest.param("spec.list", ["a", "b"], id="array of scalars"),
        pytest.param("spec.list.1", ["b"], id="index"),
        pytest.param("spec.list.7", [], id="index beyond the end"),
        pytest.param("spec.refs.#.name", ["one", "two"], id="through an array"),
        pytest.param("spec.refs.#.deep.#.x", ["1", "2"], id="array in array"),
        pytest.param("spec.refs.#", ["3"], id="count"),
        pytest.param(r"spec.dotted\.key", ["dot"], id="escaped dot"),
        pytest.param("spec.secr?t", ["db"], id="question mark"),
        pytest.param("spec.sec*", ["db"], id="star"),
        pytest.param("spec.object", ['{"k":"v"}'], id="object as text"),
        pytest.param("spec.missing.name", [], id="missing"),
        pytest.param("spec.secret.name", [], id="through a scalar"),
        pytest.param("spec.refs[*].name", [], id="JSONPath brackets never match"),
        pytest.param('spec.refs.#(name=="one").name', [], id="queries never match"),
        pytest.param("spec.secret|@reverse", [], id="modifiers never match"),
        pytest.param("", [], id="no path"),
    ],
)
def test_values_at_a_path(path: str, expected: list[str]) -> None:
    assert gjson.values(DATA, path) == expected


@given(path=st.text(alphabet="spec.lit#*?\\[]()=|@!07 ", max_size=30))
def test_no_path_does_harm(path: str) -> None:
    assert all(text == text.strip() and text for text in gjson.values(DATA, path))


DEEP = {"a": [{"b": [{"n": "x", "s": "y"}, {"n": "z"}]}, {"b": []}, {"n": "q"}], "n": "top"}


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        pytest.param("a.#.b.#.n", "a.#.b.#.s", [(["x"], ["y"]), (["z"], [])], id="innermost"),
        pytest.param(
            "a.#.b.#.n", "a.#.n", [(["x", "z"], []), ([], []), ([], ["q"])], id="outer-array"
        ),
        pytest.param("a.#.n", "n", None, id="not-of-one-array"),
        pytest.param("n", "n", None, id="no-array"),
        pytest.param("a.#", "a.#", None, id="counts"),
        pytest.param("c.#.n", "c.#.s", [], id="absent"),
        pytest.param("a.#(n==1).n", "a.#.n", None, id="unsupported"),
    ],
)
def test_pairs(first: str, second: str, found: Any) -> None:
    assert gjson.paired(DEEP, first, second) == found
