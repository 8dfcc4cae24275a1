from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead_sandbox.schema import compile_schema, summarize


SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "default": "x", "maxLength": 2},
            "b": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "items": {
                    "type": "object",
                    "required": ["a"],
                    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                },
            },
            "c": {"type": "object", "additionalProperties": {"type": "integer", "default": 1}},
            "d": {"x-kubernetes-preserve-unknown-fields": True},
            "e": {"type": "array", "items": {"x-kubernetes-int-or-string": True}},
        },
        "x-kubernetes-validations": [{"rule": "!has(oldSelf.a) || self.a == oldSelf.a"}],
    }
)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcde"), inner, max_size=3)
    ),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from("abcdez"), values, max_size=6)


@given(objects, objects)
def test_anything_can_be_judged(obj: dict[str, Any], old: dict[str, Any]) -> None:
    SCHEMA.prune(obj)
    SCHEMA.default(obj)
    found = SCHEMA.validate(obj, old)
    assert not found or summarize(found)


@given(objects)
def test_pruning_and_completing_twice_changes_nothing(obj: dict[str, Any]) -> None:
    SCHEMA.prune(obj)
    SCHEMA.default(obj)
    once = deepcopy(obj)
    SCHEMA.prune(obj)
    SCHEMA.default(obj)
    assert obj == once
