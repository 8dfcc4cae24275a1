"""JSON merge patches (RFC 7386): made from two bodies, and applied."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON


def create_merge_patch(old: JSON, new: JSON) -> JSON:
    """What turns ``old`` into ``new``; {} when they are equal.

    A merge patch cannot set a member to null: where ``new`` has one, the member is removed.
    """
    patch: JSON = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        elif old[name] != value or type(old[name]) is not type(value):
            before = old[name]
            if isinstance(before, dict) and isinstance(value, dict):
                patch[name] = create_merge_patch(before, value)
            else:
                patch[name] = value
    return patch


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch applied; neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    result: JSON = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result
