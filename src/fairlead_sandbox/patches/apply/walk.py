"""Walks over objects by their shape: fields of one, changes between two, merge and removal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fairlead_sandbox.patches.apply import paths
from fairlead_sandbox.patches.apply.paths import Path, Paths
from fairlead_sandbox.patches.apply.shapes import WHOLE, List, Shape


class ShapeError(ValueError):
    """A value does not fit its kind's shape; the text begins with its path."""


class Changes(NamedTuple):
    """Paths that differ between two objects."""

    added: Paths
    modified: Paths
    removed: Paths


DEEPEST = 64
"""Levels of nesting below which values have no owners of their own.

A path for each leaf, as long as the nesting, would be hundreds of times as large as the object.
"""
_MISSING: Any = object()


def fields(shape: Shape, value: Any) -> Paths:
    """Return every field that the value sets.

    Raises:
        ShapeError: the value has a field that its kind lacks, or an item without a key.
    """
    return frozenset(_fields(shape, value, ()))


def _fields(shape: Shape, value: Any, path: Path) -> Iterator[Path]:
    if value is None:
        return
    if len(path) >= DEEPEST:
        yield path
    elif shape.is_map and isinstance(value, dict):
        for name, inner in value.items():
            here = (*path, paths.member(name))
            child = shape.child(name)
            if child is None:
                raise ShapeError(f"{paths.text(here)}: field not declared in schema")
            yield from _fields(child, inner, here)
            # A declared field with parts is not owned itself, only its leaves are. A key of a map
            # and an item of a list are owned beside their parts.
            if inner is None or inner == {} or not shape.declares(name):
                yield here
    elif isinstance(shape, List) and isinstance(value, list):
        for element, inner in _items(shape, value, path, strict=True).items():
            here = (*path, element)
            yield from _fields(shape.items, inner, here)
            yield here
    elif path:
        yield path


def _items(shape: List, value: list[Any], path: Path, *, strict: bool) -> dict[str, Any]:
    """Return the items of a list by their path elements."""
    items: dict[str, Any] = {}
    for index, inner in enumerate(value):
        element = _element(shape, inner)
        if strict and element is None:
            raise ShapeError(f"{paths.text(path)}: element {index}: {_unfit(shape, inner)}")
        # Only a configuration must have distinct keys. In a stored list, which other writes made,
        # the last item of a key counts.
        if strict and element in items:
            key = paths.text((element,)) if element else ""
            raise ShapeError(f"{paths.text(path)}: duplicate entries for key {key}")
        if element is not None:
            items[element] = inner
    return items


def _unfit(shape: List, value: Any) -> str:
    """Return why an item has no path element, worded as in structured-merge-diff."""
    if not shape.keys:
        return "associative lists as values not supported"
    if not isinstance(value, dict):
        return "associative list with keys may not have non-map elements"
    missing = next(key for key in shape.keys if value.get(key, shape.defaults.get(key)) is None)
    return (
        f'associative list with keys has an element that omits key field "{missing}" (and '
        "doesn't have default value)"
    )


def _element(shape: List, value: Any) -> str | None:
    if not shape.keys:
        return None if isinstance(value, dict | list) else paths.scalar(value)
    if not isinstance(value, dict):
        return None
    keys = {key: value.get(key, shape.defaults.get(key)) for key in shape.keys}
    return None if None in keys.values() else paths.item(keys)


def changes(shape: Shape, old: Any, new: Any) -> Changes:
    """Return the paths that ``new`` adds, modifies and removes, with all paths below them."""
    comparison = _Comparison()
    comparison.parts(shape, old, new, ())
    return Changes(*map(frozenset, (comparison.added, comparison.modified, comparison.removed)))


class _Comparison:
    """Collector of the paths that differ; every write uses one, so it is written for speed."""

    def __init__(self) -> None:
        self.added: list[Path] = []
        self.modified: list[Path] = []
        self.removed: list[Path] = []

    def parts(self, shape: Shape, old: Any, new: Any, path: Path) -> None:
        """Compare the parts of two values that have owners of their own."""
        before, after = _parts(shape, old, path), _parts(shape, new, path)
        for element in {**before, **after}:
            left, right = before.get(element, _MISSING), after.get(element, _MISSING)
            # Most parts of an object are equal in both; their own parts are not walked.
            if left is right or left == right:
                continue
            # No shape gives parts to a scalar, so its shape is not looked up.
            nested = isinstance(left, dict | list) or isinstance(right, dict | list)
            part = _shape_of(shape, element) if nested else WHOLE
            self.value(part, left, right, (*path, element))

    def value(self, shape: Shape, old: Any, new: Any, path: Path) -> None:
        """Compare two values that differ."""
        if old is _MISSING:
            self.added.append(path)
        elif new is _MISSING:
            self.removed.append(path)
        elif len(path) >= DEEPEST or not (_has_parts(shape, old) or _has_parts(shape, new)):
            self.modified.append(path)
            return
        elif not _is_nested(shape, old) or not _is_nested(shape, new):
            self.modified.append(path)
        if shape is not WHOLE and len(path) < DEEPEST:
            self.parts(shape, old, new, path)


def _has_parts(shape: Shape, value: Any) -> bool:
    """Whether the value contains a part that can have an owner of its own."""
    return bool(value) and _is_nested(shape, value)


def _is_nested(shape: Shape, value: Any) -> bool:
    """Whether the value is null or of its shape's type, a map or a list with owned items."""
    if value is None:
        return True
    return isinstance(value, dict) if shape.is_map else isinstance(value, list) and shape.is_list


def _parts(shape: Shape, value: Any, path: Path) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return {f"f:{name}": inner for name, inner in value.items()} if shape.is_map else {}
    if isinstance(value, list) and isinstance(shape, List):
        return _items(shape, value, path, strict=False)
    return {}


def _shape_of(shape: Shape, element: str) -> Shape:
    if isinstance(shape, List):
        return shape.items
    return shape.child(element[2:]) or WHOLE


def merge(shape: Shape, live: Any, config: Any, depth: int = 0) -> Any:
    """Return the live value with every field that the configuration sets.

    ``depth`` is the number of levels above these values.
    """
    if depth >= DEEPEST:
        return config
    if shape.is_map and isinstance(live, dict) and isinstance(config, dict):
        result = dict(live)
        for name, inner in config.items():
            child = shape.child(name) or WHOLE
            result[name] = merge(child, live[name], inner, depth + 1) if name in live else inner
        return result
    if isinstance(shape, List) and isinstance(live, list) and isinstance(config, list):
        return _merge_list(shape, live, config, depth)
    return config


def _merge_list(shape: List, live: list[Any], config: list[Any], depth: int) -> list[Any]:
    """Return the items of both lists: configured ones in their order, others where they stood.

    Live items that share a key stay unless the configuration has an item with that key.
    """
    there = _items(shape, live, (), strict=False)
    configured = _items(shape, config, (), strict=False)
    result: list[Any] = []
    # One iterator for the whole walk: it places each configured item once, in the order of the
    # configuration.
    rest, met = iter(configured), set()
    for inner in live:
        element = _element(shape, inner)
        if element not in configured:
            result.append(inner)
            continue
        if element in met:
            continue
        met.add(element)
        for name in rest:
            if name in there:
                result.append(merge(shape.items, there[name], configured[name], depth + 1))
                break
            result.append(configured[name])
    result += [configured[name] for name in rest]
    return result


def remove(shape: Shape, value: Any, unwanted: Paths) -> Any:
    """Return the value without these fields and all below them."""
    return _remove(shape, value, paths.encode(unwanted))


def _remove(shape: Shape, value: Any, unwanted: Mapping[str, Any]) -> Any:
    if shape.is_map and isinstance(value, dict):
        result = {}
        for name, inner in value.items():
            below = unwanted.get(paths.member(name))
            if below is None:
                result[name] = inner
            # An empty set or one with a dot means the member itself, not only fields below it.
            elif below and "." not in below:
                result[name] = _remove(shape.child(name) or WHOLE, inner, below)
        return result
    if isinstance(shape, List) and isinstance(value, list):
        remaining = []
        for inner in value:
            element = _element(shape, inner)
            below = unwanted.get(element) if element is not None else None
            if below is None:
                remaining.append(inner)
            elif below and "." not in below:
                remaining.append(_remove(shape.items, inner, below))
        return remaining
    return value


def with_parents(shape: Shape, given: Paths) -> Paths:
    """Return the paths and the declared members above them."""
    result = set(given)
    for path in given:
        here = shape
        for depth, element in enumerate(path[:-1], 1):
            if element.startswith("f:") and here.declares(element[2:]):
                result.add(path[:depth])
            here = _shape_of(here, element)
    return frozenset(result)
