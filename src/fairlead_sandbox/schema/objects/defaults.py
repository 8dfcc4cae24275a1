"""Defaulting by a structural schema, and removal of nulls.

A null in a field that is not nullable is replaced by the default, or removed if there is none
("Defaulting and Nullable" in the CRD documentation).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from fairlead.api.meta import JSON


Defaulter = Callable[[Any], None]
"""Sets the defaults in a value."""


def compile_defaulter(schema: JSON) -> Defaulter | None:
    """Return a function that defaults a value in place; None if the schema has no defaults."""
    for_object = _object_defaulter(schema)
    for_array = _array_defaulter(schema)
    if for_object is None and for_array is None:
        return None

    def default(value: Any) -> None:
        if type(value) is dict:
            if for_object is not None:
                for_object(value)
        elif type(value) is list and for_array is not None:
            for_array(value)

    return default


def _copier(schema: JSON) -> Callable[[], Any] | None:
    """Return a function that makes the default value of a schema; None if it has none."""
    if schema.get("default") is None:
        return None
    value = schema["default"]
    if isinstance(value, dict | list):
        return lambda: deepcopy(value)
    return lambda: value


def _object_defaulter(schema: JSON) -> Callable[[JSON], None] | None:
    properties: JSON = schema.get("properties") or {}
    copiers = {name: make for name, member in properties.items() if (make := _copier(member))}
    members = {
        name: inner for name, member in properties.items() if (inner := compile_defaulter(member))
    }
    strict = frozenset(name for name, member in properties.items() if not _nullable(member))
    other = _additional(schema)
    if not (copiers or members or strict or other):
        return None

    def default(value: JSON) -> None:
        # Before the defaults, so that a null gives way to one. Most objects have no nulls, and
        # this look at the values is fast.
        if None in value.values():
            for name in [name for name, item in value.items() if item is None and name in strict]:
                del value[name]
        for name, make in copiers.items():
            if name not in value:
                value[name] = make()
        for name, inner in members.items():
            if name in value:
                inner(value[name])
        if other is not None:
            other(value)

    return default


def _additional(schema: JSON) -> Callable[[JSON], None] | None:
    additional = schema.get("additionalProperties")
    if not isinstance(additional, dict):
        return None
    declared = frozenset(schema.get("properties") or ())
    make, inner, nullable = (
        _copier(additional),
        compile_defaulter(additional),
        _nullable(additional),
    )

    def default(value: JSON) -> None:
        for name in [name for name in value if name not in declared]:
            if value[name] is None and not nullable:
                if make is None:
                    del value[name]
                    continue
                value[name] = make()
            if inner is not None:
                inner(value[name])

    return default


def _array_defaulter(schema: JSON) -> Callable[[list[Any]], None] | None:
    items = schema.get("items")
    if not isinstance(items, dict):
        return None
    make, inner, nullable = _copier(items), compile_defaulter(items), _nullable(items)
    if make is None and inner is None:
        return None

    def default(value: list[Any]) -> None:
        for index, item in enumerate(value):
            # Nulls are removed from objects, not from lists: a null item without a default stays,
            # and the check of its type refuses it.
            if item is None and make is not None and not nullable:
                value[index] = make()
            if inner is not None:
                inner(value[index])

    return default


def _nullable(schema: JSON) -> bool:
    return bool(schema.get("nullable"))
