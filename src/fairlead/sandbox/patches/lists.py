"""Lists of a strategic merge patch, merged and put in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox.patches.errors import PatchError


PATCH = "$patch"
SET_ORDER = "$setElementOrder/"
DELETE_FROM = "$deleteFromPrimitiveList/"


def merge_objects(
    current: list[Any] | None,
    patch: list[Any],
    order: Any,
    key: str,
    merge: Callable[[JSON, JSON], JSON],
) -> list[Any]:
    """A list of objects told apart by ``key``, with those of the patch merged in.

    A list that is not there yet (None) is taken from the patch, in its order.

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
    for item in items:
        _merge_one(result, item[key], item, merge)
    if not isinstance(order, list):
        return in_order(result, [item[key] for item in items], before)
    # As on the real server: a new item that takes the place of a removed one counts as old.
    known = [name for name, _ in result][: len(before)] if removed else before
    return in_order(result, [_name(item, key) for item in order], known)


def _name(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def _merge_one(
    entries: list[tuple[Any, Any]], name: Any, item: JSON, merge: Callable[[JSON, JSON], JSON]
) -> None:
    """Merge an item into the first of its name: lists may hold several (ports of a Service)."""
    for index, (other, old) in enumerate(entries):
        if other == name:
            entries[index] = (name, merge(old, item))
            return
    entries.append((name, merge({}, item)))


def _split(patch: list[Any], key: str) -> tuple[bool, set[Any], list[JSON]]:
    """Whether the list is replaced, the keys to remove, and the items to merge."""
    replace, removed, items = False, set(), []
    for item in patch:
        if not isinstance(item, dict):
            raise PatchError(f"invalid patch item {item!r}: an object is expected", 400)
        directive = item.get(PATCH)
        if directive == "replace":
            replace = True
            continue
        if directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch", 500)
        if key not in item:
            raise PatchError(
                f"map: {go_map(item)} does not contain declared merge key: {key}", 500
            )
        if directive == "delete":
            removed.add(item[key])
        else:
            items.append(item)
    return replace, removed, items


def _check_order(patch: list[Any], items: list[JSON], order: Any, key: str) -> None:
    """Every item stands in the order, and the items follow it."""
    if not isinstance(order, list) or not items:
        return
    wanted = iter([_name(item, key) for item in order])
    if not all(item[key] in wanted for item in items):
        raise PatchError(
            f"The order in patch list:\n{go_map(patch)}\n"
            f" doesn't match $setElementOrder list:\n{go_map(order)}\n",
            500,
        )


def merge_scalars(current: list[Any], patch: list[Any], order: Any) -> list[Any]:
    """A list of scalars as a set, with those of the patch added.

    Raises:
        PatchError: an item of the patch is no scalar.
    """
    for item in patch:
        if isinstance(item, dict | list):
            raise PatchError(f"invalid patch item {go_map(item)}: a scalar is expected", 400)
    merged = [(item, item) for item in dict.fromkeys([*current, *patch])]
    return in_order(merged, order if isinstance(order, list) else patch, current)


def in_order(
    entries: Sequence[tuple[Any, Any]], wanted: Sequence[Any], before: Sequence[Any]
) -> list[Any]:
    """The values of (name, value) pairs in the wanted order of their names.

    The others stand where they stood before relative to them; a wanted name that was not there
    before goes ahead of the others.
    """
    first = [entry for entry in entries if entry[0] in wanted]
    first.sort(key=lambda entry: wanted.index(entry[0]))
    rest = [entry for entry in entries if entry[0] not in wanted]
    result: list[Any] = []
    while first and rest:
        name, other = first[0][0], rest[0][0]
        later = name in before and before.index(name) > before.index(other)
        result.append((rest if later else first).pop(0))
    return [value for _, value in [*result, *first, *rest]]


def go_map(value: Any) -> str:
    """A value as the real server prints it in the texts of patch errors."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_map(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_map, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
