"""The order of items in a column, with few crossings of lines (barycenter method)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final


_SWEEPS: Final = 6
"""Number of passes over all columns, in alternating directions."""

Layers = list[list[int]]
"""Item numbers of each column, from top to bottom."""


class Neighbours:
    """Each item's neighbours in the column before and in the column after."""

    def __init__(self, layers: Layers, joined: Sequence[tuple[int, int]]) -> None:
        items = [item for layer in layers for item in layer]
        self.before: Mapping[int, list[int]] = {item: [] for item in items}
        self.after: Mapping[int, list[int]] = {item: [] for item in items}
        for left, right in joined:
            self.after[left].append(right)
            self.before[right].append(left)


def ordered(layers: Layers, neighbours: Neighbours) -> Layers:
    """Order each column by the mean place of its items' neighbours, and keep the best order."""
    best, fewest = layers, _crossings(layers, neighbours)
    current = layers
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        current = _swept(current, neighbours, forth=sweep % 2 == 0)
        crossings = _crossings(current, neighbours)
        if crossings < fewest:
            best, fewest = current, crossings
    return best


def _swept(layers: Layers, neighbours: Neighbours, *, forth: bool) -> Layers:
    known = neighbours.before if forth else neighbours.after
    made = list(layers)
    columns = range(1, len(layers)) if forth else range(len(layers) - 2, -1, -1)
    for column in columns:
        beside = made[column - 1 if forth else column + 1]
        made[column] = _by_middle(made[column], beside, known)
    return made


def _by_middle(layer: list[int], beside: list[int], known: Mapping[int, list[int]]) -> list[int]:
    place = {item: number for number, item in enumerate(beside)}
    own = {item: float(number) for number, item in enumerate(layer)}
    middle = {
        item: sum(place[one] for one in known[item]) / len(known[item])
        if known[item]
        else own[item]
        for item in layer
    }
    return sorted(layer, key=lambda item: (middle[item], own[item]))


def _crossings(layers: Layers, neighbours: Neighbours) -> int:
    """Return the number of crossings."""
    total = 0
    for left, right in pairwise(layers):
        place = {item: number for number, item in enumerate(right)}
        seen: list[int] = []
        for item in left:
            ends = sorted(place[one] for one in neighbours.after[item])
            # Each line from an item above that ends further down crosses this one.
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
