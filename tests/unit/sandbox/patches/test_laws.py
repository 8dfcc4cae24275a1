from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.patch import apply_merge_patch, create_merge_patch
from fairlead_sandbox.patches import json_patch, strategic_merge_patch


names = st.text(alphabet="ab/~.", min_size=1, max_size=3)
scalars = st.booleans() | st.integers(-5, 5) | st.text(max_size=2)
objects: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(names, scalars, max_size=3),
    lambda inner: st.dictionaries(names, scalars | inner, max_size=3),
    max_leaves=8,
)


def same_shape(left: Any, right: Any) -> bool:
    """Whether objects stand only where objects stand."""
    if isinstance(left, dict) is not isinstance(right, dict):
        return False
    if not isinstance(left, dict):
        return True
    return all(same_shape(left[key], right[key]) for key in left.keys() & right.keys())


@given(objects, objects)
def test_without_lists_it_is_a_merge_patch(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = create_merge_patch(old, new)
    if same_shape(old, new):
        assert strategic_merge_patch("ConfigMap", old, patch) == apply_merge_patch(old, patch)


def pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


@given(objects, names, objects)
def test_what_was_added_can_be_tested_moved_and_removed(
    doc: dict[str, Any], name: str, value: dict[str, Any]
) -> None:
    path = pointer(name)
    added = json_patch(doc, [{"op": "add", "path": path, "value": value}])
    assert added == doc | {name: value}
    ops = [
        {"op": "test", "path": path, "value": value},
        {"op": "move", "from": path, "path": "/new"},
        {"op": "copy", "from": "/new", "path": "/copy"},
        {"op": "remove", "path": "/new"},
        {"op": "remove", "path": "/copy"},
    ]
    rest = {key: item for key, item in doc.items() if key not in {name, "new", "copy"}}
    assert json_patch(added, ops) == rest
