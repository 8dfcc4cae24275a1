"""Collapsing of large trees: which nodes stand unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final


MOST: Final = 50
"""Largest number of nodes that stand unfolded beside only children; larger trees are collapsed."""
FEWEST: Final = 2
"""Number of children without a problem that stand unfolded while there is room."""


def unfolded(
    parents: Sequence[int], siblings: Iterable[Sequence[int]], problems: Iterable[int]
) -> frozenset[int]:
    """Return the nodes that stand unfolded, each with all its ancestors.

    Args:
        parents: each node's parent, -1 for none.
        siblings: the nodes of each parent, the worst first; parents come before their children.
        problems: the nodes with a problem, the worst first.
    """
    if len(parents) <= MOST:
        return frozenset(range(len(parents)))
    chosen: set[int] = set()
    for number in problems:
        if len(chosen) == MOST:
            break
        way: list[int] = []
        above = number
        while above >= 0 and above not in chosen:
            way.append(above)
            above = parents[above]
        if len(chosen) + len(way) <= MOST:
            chosen.update(way)
    for group in siblings:
        if group and (parents[group[0]] < 0 or parents[group[0]] in chosen):
            fresh = [number for number in group[:FEWEST] if number not in chosen]
            chosen.update(fresh[: MOST - len(chosen)])
    return frozenset(chosen)
