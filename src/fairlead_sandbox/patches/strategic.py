"""Strategic merge patch: a merge patch that knows how the lists of built-in kinds merge.

Directives: ``$patch`` (replace, delete, merge), ``$retainKeys``, ``$setElementOrder/<list>`` and
``$deleteFromPrimitiveList/<list>``. Sources: "Strategic Merge Patch" in sig-api-machinery's notes,
and answers of kube-apiserver 1.20.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.errors import PatchError
from fairlead_sandbox.patches.lists import (
    DELETE_FROM,
    PATCH,
    SET_ORDER,
    go_map,
    identity,
    merge_objects,
    merge_scalars,
)
from fairlead_sandbox.patches.mergekeys import NO_FIELDS, MergeRule, fields_of


_RETAIN = "$retainKeys"
_DEFAULT = MergeRule()


def strategic_merge_patch(kind: str, current: JSON, patch: Any) -> JSON:
    """Return a copy of the object with the patch applied.

    Args:
        kind: the kind of a built-in resource.
        current: the object as stored.
        patch: the decoded body of the request.

    Raises:
        PatchError: 400 for a body that is no object or breaks ``$retainKeys``, 422 for a value
            of the wrong type, 500 (as kube-apiserver answers) for invalid directives.
    """
    if not isinstance(patch, dict):
        name = "array" if isinstance(patch, list) else type(patch).__name__
        text = f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
        raise PatchError(text, 400)
    try:
        return _merge(current, patch, fields_of(kind))
    except _TypeMismatchError as error:
        detail = f'Invalid value: "{go_map(patch)}": {error}'
        text = f' "" is invalid: patch: {detail}'
        raise PatchError(text, 422, detail, "FieldValueInvalid") from None


class _TypeMismatchError(Exception):
    """The patch has a list for an object or the reverse; in Go's words a slice and a map."""


def _merge(current: JSON, patch: JSON, fields: Mapping[str, MergeRule]) -> JSON:
    directive = patch.get(PATCH)
    if directive == "replace":
        return {name: deepcopy(value) for name, value in patch.items() if name != PATCH}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise PatchError(f"unknown patch type: {directive} in map: {go_map(patch)}", 500)
    result = _retained(current, patch)
    for name in _field_names(patch):
        field = fields.get(name, _DEFAULT)
        # As in a merge patch (RFC 7386), null removes the field.
        if name in patch and patch[name] is None:
            result.pop(name, None)
        elif name in patch or name in result:
            result[name] = _merge_field(name, result.get(name), patch, field)
    return result


def _field_names(patch: JSON) -> list[str]:
    """Return the fields that a patch changes, directives counted for their lists."""
    names = dict.fromkeys(
        name.split("/", 1)[1] if name.startswith((SET_ORDER, DELETE_FROM)) else name
        for name in patch
        if name not in {PATCH, _RETAIN}
    )
    return list(names)


def _retained(current: JSON, patch: JSON) -> JSON:
    if _RETAIN not in patch:
        return dict(current)
    given = patch[_RETAIN]
    keep = {name for name in given if isinstance(name, str)} if isinstance(given, list) else set()
    named = {name for name in patch if not name.startswith("$")}
    if not isinstance(given, list) or not named <= keep:
        raise PatchError("invalid patch format of retainKeys", 400)
    return {name: value for name, value in current.items() if name in keep}


def _merge_field(name: str, current: Any, patch: JSON, field: MergeRule) -> Any:
    value = patch.get(name)
    if isinstance(value, dict):
        if isinstance(current, list) or field.merge:
            raise _TypeMismatchError("cannot restore slice from map")
        return _merge(current if isinstance(current, dict) else {}, value, field.fields)
    if name in patch and not isinstance(value, list):
        if isinstance(current, dict | list):
            expected = "map" if isinstance(current, dict) else "slice"
            raise _TypeMismatchError(f"cannot restore {expected} from {_go_type(value)}")
        return value
    if isinstance(current, dict):
        raise _TypeMismatchError("cannot restore map from slice")
    return _merge_list(name, current, patch, field)


def _merge_list(name: str, current: list[Any] | None, patch: JSON, field: MergeRule) -> list[Any]:
    order = patch.get(f"{SET_ORDER}{name}")
    items = patch.get(name)
    if not field.merge:
        # Without items the patch has only directives for the list, which need a merge rule.
        return deepcopy(current or [] if items is None else items)
    if field.key:
        return merge_objects(
            current,
            items or [],
            order,
            field.key,
            lambda old, new: _merge(old, new, field.fields or NO_FIELDS),
        )
    given = patch.get(f"{DELETE_FROM}{name}")
    removed = {identity(item) for item in given} if isinstance(given, list) else set()
    remaining = [item for item in current or [] if identity(item) not in removed]
    return merge_scalars(remaining, items or [], order)


def _go_type(value: Any) -> str:
    return {"str": "string", "int": "int64", "float": "float64"}.get(
        type(value).__name__, type(value).__name__
    )
