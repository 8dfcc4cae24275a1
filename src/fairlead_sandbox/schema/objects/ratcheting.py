"""Ratcheting: an update is not refused for values that it leaves as they were.

A schema that became stricter would otherwise keep everybody from changing objects of before
("Validation ratcheting" in the CRD documentation). Old and new values meet by the names of fields
and keys, and in lists of type map by the keys of items; another list is one value.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.errors import FieldError


_INDEX = re.compile(r"\[(\d+)\]")


class _Place(NamedTuple):
    path: str
    schema: JSON
    new: Any
    old: Any


class Ratchet:
    """Compares an object with the one that it replaces, each place once."""

    def __init__(self, schema: JSON, new: JSON, old: JSON) -> None:
        self._root = _Place("", schema, new, old)
        self._equal: dict[str, bool] = {}

    def excuses(self, error: FieldError) -> bool:
        """Whether the error is of a value that was so before, or of a part of such a value."""
        place: _Place | None = self._root
        while place is not None:
            if self._is_equal(place):
                return True
            place = _next(place, error.field)
        return False

    def _is_equal(self, place: _Place) -> bool:
        is_equal = self._equal.get(place.path)
        if is_equal is None:
            is_equal = self._equal[place.path] = _is_equal(place.new, place.old)
        return is_equal


def _is_equal(new: Any, old: Any) -> bool:
    # Python takes 1 for True, and its dictionaries are equal in any order.
    return bool(new == old) and _encoded(new) == _encoded(old)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _next(place: _Place, field: str) -> _Place | None:
    """The next place on the way to a field, where old and new value meet; None without one."""
    rest = field[len(place.path) :]
    if isinstance(place.new, dict) and isinstance(place.old, dict):
        return _member(place, rest)
    if isinstance(place.new, list) and isinstance(place.old, list):
        return _item(place, rest)
    return None


def _member(place: _Place, rest: str) -> _Place | None:
    # Names may have dots and brackets themselves: the longest that fits is meant.
    steps = {}
    for name in place.new:
        for step in (f".{name}" if place.path else name, f"[{name}]"):
            if rest.startswith(step) and rest[len(step) : len(step) + 1] in {"", ".", "["}:
                steps[step] = name
    if not steps:
        return None
    step = max(steps, key=len)
    name = steps[step]
    if name not in place.old:
        return None
    properties = place.schema.get("properties") or {}
    schema = properties.get(name, place.schema.get("additionalProperties"))
    path = place.path + step
    return _Place(path, _as_schema(schema), place.new[name], place.old[name])


def _item(place: _Place, rest: str) -> _Place | None:
    index = _INDEX.match(rest)
    keys = place.schema.get("x-kubernetes-list-map-keys")
    if index is None or not keys or int(index[1]) >= len(place.new):
        return None
    new = place.new[int(index[1])]
    if not isinstance(new, dict):
        return None
    for old in place.old:
        if isinstance(old, dict) and all(new.get(key) == old.get(key) for key in keys):
            schema = _as_schema(place.schema.get("items"))
            return _Place(place.path + index[0], schema, new, old)
    return None


def _as_schema(schema: Any) -> JSON:
    return schema if isinstance(schema, dict) else {}
