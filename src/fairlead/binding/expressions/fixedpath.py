"""Fixed JSONPaths: field steps only, along which missing parents can be created."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fairlead.api.jsonpath.nodes import FieldStep, JSONPathError, Path
from fairlead.api.jsonpath.parse import parse
from fairlead.api.meta import JSON


FixedPath = tuple[str, ...]


class ProjectionError(Exception):
    """The binding's place in a workload has another value; the text names the place."""


@lru_cache(maxsize=1024)
def fixed_path(expression: str) -> FixedPath:
    """Parse a fixed JSONPath such as ``.spec.template`` or ``['spec'].a`` to field names.

    Raises:
        JSONPathError: the path is invalid, or has other steps than fields.
    """
    nodes = parse(f"{{{expression}}}")
    steps = nodes[0].steps if len(nodes) == 1 and isinstance(nodes[0], Path) else ()
    names: list[str] = []
    for step in steps:
        # The parser makes a path of its own of each bracket: ['spec'] counts like .spec here.
        fields = step.steps if isinstance(step, Path) else (step,)
        names += [field.name for field in fields if isinstance(field, FieldStep) and field.name]
    if len(names) != sum(len(s.steps) if isinstance(s, Path) else 1 for s in steps) or not names:
        raise JSONPathError(f"{expression} must consist of field steps alone, such as .spec.env")
    return tuple(names)


def read(body: JSON, path: FixedPath) -> Any:
    """Return the value at a path, None if it is missing."""
    value: Any = body
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def read_list(body: JSON, path: FixedPath) -> list[Any]:
    """Return the list at a path; a new empty one if there is no list."""
    value = read(body, path)
    return value if isinstance(value, list) else []


def ensure_list(body: JSON, path: FixedPath) -> list[Any]:
    """Return the list at a path; create it with its parents if it is missing or null.

    Raises:
        ProjectionError: another value is in the path.
    """
    parent = _parent(body, path)
    value = parent.get(path[-1])
    # The specification wants empty values where a fixed JSONPath leads to nothing; null counts as
    # nothing, since typed API servers drop it.
    if value is None:
        value = parent[path[-1]] = []
    if not isinstance(value, list):
        raise ProjectionError(f".{'.'.join(path)} is not a list")
    # The callers compare items by their fields, which only objects have.
    if not all(isinstance(item, dict) for item in value):
        raise ProjectionError(f".{'.'.join(path)} has an item that is not an object")
    return value


def write(body: JSON, path: FixedPath, value: Any) -> None:
    """Set the value at a path, with its parents.

    Raises:
        ProjectionError: a parent is not an object.
    """
    _parent(body, path)[path[-1]] = value


def _parent(body: JSON, path: FixedPath) -> JSON:
    parent = body
    for depth, name in enumerate(path[:-1], 1):
        child = parent.get(name)
        if child is None:
            child = parent[name] = {}
        if not isinstance(child, dict):
            raise ProjectionError(f".{'.'.join(path[:depth])} is not an object")
        parent = child
    return parent
