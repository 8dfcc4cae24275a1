from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fairlead_sandbox.patches import PatchError, json_patch


DOC: dict[str, Any] = {"data": {"x": "1", "y/z": "2", "n": 1}, "list": ["a", "b"]}
LONG = "9" * 4301
"""An index with more digits than Python's int() reads."""


@pytest.mark.parametrize(
    ("op", "path", "expected"),
    [
        pytest.param({"op": "add", "path": "/data/k", "value": "v"}, "k", "v", id="add"),
        pytest.param({"op": "add", "path": "/data/k"}, "k", None, id="add without value"),
        pytest.param({"op": "replace", "path": "/data/x", "value": "9"}, "x", "9", id="replace"),
        pytest.param({"op": "copy", "from": "/data/y~1z", "path": "/data/x"}, "x", "2", id="copy"),
        pytest.param({"op": "move", "from": "/list/0", "path": "/data/x"}, "x", "a", id="move"),
        pytest.param({"op": "test", "path": "/data/n", "value": 1.0}, "n", 1, id="test numbers"),
        pytest.param({"op": "test", "path": "/data/no", "value": None}, "x", "1", id="test null"),
    ],
)
def test_members(op: dict[str, Any], path: str, expected: Any) -> None:
    before = deepcopy(DOC)
    assert json_patch(DOC, [op])["data"][path] == expected
    assert before == DOC


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        pytest.param({"op": "add", "path": "/list/0", "value": "z"}, ["z", "a", "b"], id="first"),
        pytest.param({"op": "add", "path": "/list/2", "value": "z"}, ["a", "b", "z"], id="end"),
        pytest.param({"op": "add", "path": "/list/-", "value": "z"}, ["a", "b", "z"], id="append"),
        pytest.param({"op": "remove", "path": "/list/0"}, ["b"], id="remove"),
        pytest.param({"op": "remove", "path": "/list/-1"}, ["a"], id="from the end"),
        pytest.param({"op": "replace", "path": "/list/1", "value": "z"}, ["a", "z"], id="replace"),
    ],
)
def test_lists(op: dict[str, Any], expected: list[str]) -> None:
    assert json_patch(DOC, [op])["list"] == expected


@pytest.mark.parametrize(
    ("op", "detail"),
    [
        pytest.param({"op": "test", "path": "/data/x", "value": "2"}, "testing value", id="test"),
        pytest.param({"op": "test", "path": "/data/n", "value": True}, "testing", id="test bool"),
        pytest.param({"op": "remove", "path": "/data/q"}, "missing path: /data/q", id="remove"),
        pytest.param(
            {"op": "replace", "path": "/q", "value": 1}, "missing path: /q", id="replace"
        ),
        pytest.param({"op": "add", "path": "/q/r", "value": 1}, "missing path: /q", id="parent"),
        pytest.param({"op": "add", "path": "/list/3", "value": 1}, "out of bounds", id="beyond"),
        pytest.param({"op": "remove", "path": f"/list/{LONG}"}, "out of bounds", id="long"),
        pytest.param({"op": "add", "path": f"/list/-{LONG}"}, "out of bounds", id="long negative"),
        pytest.param({"op": "add", "path": "/list/x", "value": 1}, "no index", id="index"),
        pytest.param({"op": "add", "path": "/list/01", "value": 1}, "no index", id="zero"),
        pytest.param({"op": "copy", "from": "/q", "path": "/r"}, "missing path", id="copy"),
        pytest.param({"op": "move", "from": "/q", "path": "/r"}, "missing path", id="move"),
        pytest.param({"op": "move", "from": "/data", "path": "/data/x"}, "itself", id="into"),
        pytest.param({"op": "frob", "path": "/q"}, "unexpected operation", id="op"),
        pytest.param({"op": {}, "path": "/q"}, "unexpected operation", id="op no text"),
        pytest.param({"op": "add", "value": 1}, "JSON pointer", id="no path"),
        pytest.param({"op": "add", "path": "x", "value": 1}, "JSON pointer", id="no slash"),
        pytest.param({"op": "replace", "path": "", "value": 1}, "no object", id="whole"),
    ],
)
def test_a_failing_operation_is_a_422_that_says_which(op: dict[str, Any], detail: str) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch(DOC, [op])
    assert caught.value.code == 422
    assert caught.value.message == (
        "the server rejected our request due to an error in our request"
    )
    assert detail in caught.value.detail


def test_a_body_that_is_no_list_is_a_400() -> None:
    with pytest.raises(PatchError) as caught:
        json_patch(DOC, {"op": "add"})
    assert (caught.value.code, caught.value.message) == (
        400,
        "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
    )


def test_too_many_operations_are_a_413() -> None:
    with pytest.raises(PatchError, match="allowed maximum operations") as caught:
        json_patch(DOC, [{"op": "test", "path": "/data/x", "value": "1"}] * 10_001)
    assert caught.value.code == 413
