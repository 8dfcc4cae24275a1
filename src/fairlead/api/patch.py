"""JSON merge patches (RFC 7386) and JSON patches (RFC 6902) between two bodies."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON


def create_merge_patch(old: JSON, new: JSON) -> JSON:
    """Return the merge patch from ``old`` to ``new``; {} if they are equal.

    A merge patch cannot set a member to null: where ``new`` has one, the member is removed.
    """
    patch: JSON = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        # Python calls 1, 1.0 and True equal; in JSON they are different values.
        elif old[name] != value or type(old[name]) is not type(value):
            before = old[name]
            if isinstance(before, dict) and isinstance(value, dict):
                patch[name] = create_merge_patch(before, value)
            else:
                patch[name] = value
    return patch


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch to the target and return the result; the arguments stay unchanged."""
    # RFC 7386, 2: a patch that is no object replaces the target, lists included.
    if not isinstance(patch, dict):
        return patch
    result: JSON = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def create_json_patch(old: JSON, new: JSON) -> list[JSON]:
    """Return the operations from ``old`` to ``new``, none if they are equal.

    Each operation is on the smallest member that differs. Lists of different length are replaced
    as a whole.
    """
    operations: list[JSON] = []
    _compare(old, new, "", operations)
    return operations


def _compare(old: Any, new: Any, path: str, operations: list[JSON]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        gone = (name for name in old if name not in new)
        operations += ({"op": "remove", "path": f"{path}/{_escaped(name)}"} for name in gone)
        for name, value in new.items():
            where = f"{path}/{_escaped(name)}"
            if name in old:
                _compare(old[name], value, where, operations)
            else:
                operations.append({"op": "add", "path": where, "value": value})
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            _compare(*pair, f"{path}/{index}", operations)
    elif old != new or type(old) is not type(new):
        operations.append({"op": "replace", "path": path, "value": new})


def _escaped(name: str) -> str:
    # The tilde comes first: that of ~1 must not be escaped again (RFC 6901).
    return name.replace("~", "~0").replace("/", "~1")
