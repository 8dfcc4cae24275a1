"""When two values of a schema are equal: sets and maps of lists know no order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.sandbox.schema.cel.types import Type


def equal(left: Any, right: Any, type_: Type) -> bool:
    """CEL equality of two values; numbers are equal by value, never to booleans."""
    return _equal(left, right, type_.schema)


def _equal(left: Any, right: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return _objects(left, right, schema)
    if isinstance(left, list) and isinstance(right, list):
        return _lists(left, right, schema)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _objects(left: dict[str, Any], right: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    if left.keys() != right.keys():
        return False
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    other = additional if isinstance(additional, dict) else {}
    return all(_equal(left[name], right[name], properties.get(name, other)) for name in left)


def _lists(left: list[Any], right: list[Any], schema: Mapping[str, Any]) -> bool:
    if len(left) != len(right):
        return False
    items = schema.get("items") or {}
    if schema.get("x-kubernetes-list-type") in {"set", "map"}:
        return all(any(_equal(one, other, items) for other in right) for one in left)
    return all(_equal(one, other, items) for one, other in zip(left, right, strict=True))
