from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import gjson


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
