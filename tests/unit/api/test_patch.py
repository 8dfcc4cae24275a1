from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.api.patch import apply_merge_patch, create_json_patch, create_merge_patch
from fairlead_sandbox.patches.jsonpatch import json_patch


scalars = st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)
bodies = st.dictionaries(st.text(max_size=2), values, max_size=5)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="adds"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="replaces"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="removes"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="replaces-lists-whole"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": None}}, {"a": {"b": 1}}, id="absent-is-fine"),
        pytest.param({"a": 1}, {"a": {"b": None}}, {"a": {}}, id="scalar-becomes-object"),
        pytest.param({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="nulls-never-stored"),
        pytest.param({"a": 1}, [1], [1], id="patch-that-is-no-object"),
    ],
)
def test_apply(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy(target)
    assert apply_merge_patch(target, patch) == result
    assert target == before


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param({"a": 1}, {"a": 1}, {}, id="equal"),
        pytest.param({"a": 1}, {}, {"a": None}, id="removed"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}, id="nested"),
        pytest.param({"a": 1}, {"a": True}, {"a": True}, id="true-is-not-1"),
    ],
)
def test_create(old: Any, new: Any, patch: Any) -> None:
    assert create_merge_patch(old, new) == patch


@given(bodies, bodies)
def test_a_patch_turns_the_old_body_into_the_new(old: Any, new: Any) -> None:
    assert apply_merge_patch(old, create_merge_patch(old, new)) == new


@given(bodies)
def test_equal_bodies_need_no_patch(body: Any) -> None:
    assert create_merge_patch(body, copy.deepcopy(body)) == {}


@given(bodies, bodies)
def test_a_json_patch_leads_to_the_other_body(old: JSON, new: JSON) -> None:
    before = copy.deepcopy(old)
    patch = create_json_patch(old, new)
    result = json_patch(copy.deepcopy(old), patch)
    assert old == before
    # 1 and True are equal, but not the same.
    assert json.dumps(result, sort_keys=True) == json.dumps(new, sort_keys=True)


def test_a_json_patch_names_what_differs_alone() -> None:
    old = {"a": {"b/c": [{"d": 1}, {"e": 2}], "f": 3}}
    new = {"a": {"b/c": [{"d": 1}, {"e": 4, "~": 5}]}}
    assert create_json_patch(old, new) == [
        {"op": "remove", "path": "/a/f"},
        {"op": "replace", "path": "/a/b~1c/1/e", "value": 4},
        {"op": "add", "path": "/a/b~1c/1/~0", "value": 5},
    ]
    assert create_json_patch(old, old) == []
