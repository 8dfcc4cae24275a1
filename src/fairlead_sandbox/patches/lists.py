"""Lists in a strategic merge patch: merging and ordering."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.errors import PatchError


PATCH = "$patch"
"""Directive of an object: replace, delete or merge."""
SET_ORDER = "$setElementOrder/"
"""Prefix of the directive that orders a list."""
DELETE_FROM = "$deleteFromPrimitiveList/"
"""Prefix of the directive that deletes scalars from a list."""

Entry: TypeAlias = tuple[Hashable, Any]
"""An item of a list after its identity."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def merge_objects(
    current: list[Any] | None,
    patch: list[Any],
    order: Any,
    key: str,
    merge: Callable[[JSON, JSON], JSON],
) -> list[Any]:
    """Return a list of objects with those of the patch merged in; ``key`` identifies an object.

    A missing list (None) becomes the items of the patch, in their order.

    Raises:
        PatchError: an item of the patch has no key, or the order contradicts the patch.
    """
    replace, removed, items = _split(patch, key)
    if current is None:
        return [merge({}, item) for item in items]
    _check_order(patch, items, order, key)
    if replace:
        return [merge({}, item) for item in items]
    before = [_name(item, key) for item in current]
    result = [
        (name, item) for name, item in zip(before, current, strict=True) if name not in removed
    ]
    _merge_items(result, [(_name(item, key), item) for item in items], merge)
    if not isinstance(order, list):
        return in_order(result, [_name(item, key) for item in items], before)
    # As in kube-apiserver, a new item in the place of a removed one counts as an old item.
    names = [name for name, _ in result][: len(before)] if removed else before
    return in_order(result, [_name(item, key) for item in order], names)


def identity(value: Any) -> Hashable:
    """Return the identity of a list's value; 1 and 1.0 share one, 1 and true do not."""
    if isinstance(value, dict | list):
        return "json", _encode(value)
    return (type(value) is bool, value)


def _name(item: Any, key: str) -> Hashable:
    return identity(item.get(key) if isinstance(item, dict) else None)


def _merge_items(
    entries: list[Entry], items: list[tuple[Hashable, JSON]], merge: Callable[[JSON, JSON], JSON]
) -> None:
    """Merge each item into the first of its name; a list may have several (ports of a Service)."""
    places: dict[Hashable, int] = {}
    for index, (name, _) in enumerate(entries):
        places.setdefault(name, index)
    for name, item in items:
        index = places.setdefault(name, len(entries))
        if index == len(entries):
            entries.append((name, merge({}, item)))
        else:
            entries[index] = (name, merge(entries[index][1], item))


def _split(patch: list[Any], key: str) -> tuple[bool, set[Hashable], list[JSON]]:
    """Return whether the list is replaced, the keys to remove, and the items to merge."""
    replace, removed, items = False, set[Hashable](), list[JSON]()
    for item in patch:
        if not isinstance(item, dict):
            raise PatchError(f"invalid patch item {item!r}: an object is expected", 400)
        directive = item.get(PATCH)
        if directive == "replace":
            replace = True
            continue
        # kube-apiserver has no such directive for lists either, and answers 500.
        if directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch", 500)
        if key not in item:
            raise PatchError(
                f"map: {go_map(item)} does not contain declared merge key: {key}", 500
            )
        if directive == "delete":
            removed.add(_name(item, key))
        else:
            items.append(item)
    return replace, removed, items


def _check_order(patch: list[Any], items: list[JSON], order: Any, key: str) -> None:
    """Raise unless the order names every item of the patch, in the same sequence."""
    if not isinstance(order, list) or not items:
        return
    names = iter([_name(item, key) for item in order])
    if not all(_name(item, key) in names for item in items):
        raise PatchError(
            f"The order in patch list:\n{go_map(patch)}\n"
            f" doesn't match $setElementOrder list:\n{go_map(order)}\n",
            500,
        )


def merge_scalars(current: list[Any], patch: list[Any], order: Any) -> list[Any]:
    """Return a list of scalars as a set, with those of the patch added.

    Raises:
        PatchError: an item of the patch is no scalar.
    """
    for item in patch:
        if isinstance(item, dict | list):
            raise PatchError(f"invalid patch item {go_map(item)}: a scalar is expected", 400)
    # Reversed, so that the first of equal values stays: 1 and 1.0 have one identity.
    by_identity = {identity(item): item for item in reversed([*current, *patch])}
    merged = [
        (name, by_identity[name]) for name in dict.fromkeys(map(identity, [*current, *patch]))
    ]
    ranked = order if isinstance(order, list) else patch
    return in_order(merged, list(map(identity, ranked)), list(map(identity, current)))


def in_order(
    entries: Sequence[Entry], ranked: Sequence[Hashable], before: Sequence[Hashable]
) -> list[Any]:
    """Return the values of (name, value) pairs in the wanted order of their names.

    Entries without a wanted place keep their old places relative to the others; a wanted name that
    is new goes before them.
    """
    rank, stood = _places(ranked), _places(before)
    first = sorted(
        (entry for entry in entries if entry[0] in rank), key=lambda item: rank[item[0]]
    )
    rest = [entry for entry in entries if entry[0] not in rank]
    result: list[Any] = []
    ahead, others = deque(first), deque(rest)
    while ahead and others:
        name, other = ahead[0][0], others[0][0]
        later = name in stood and stood[name] > stood.get(other, 0)
        result.append((others if later else ahead).popleft()[1])
    return [*result, *(value for _, value in (*ahead, *others))]


def _places(names: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return the first index of each name."""
    places: dict[Hashable, int] = {}
    for index, name in enumerate(names):
        places.setdefault(name, index)
    return places


def go_map(value: Any) -> str:
    """Return a value as Go prints a map with ``%v``, for the messages of patch errors."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_map(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_map, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
