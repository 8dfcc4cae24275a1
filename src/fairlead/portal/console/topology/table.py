"""The graph as rows of a table, for screen readers and search."""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from fairlead.portal.console.topology.graph import Graph, GraphNode, Shown, causes, wire
from fairlead.portal.model.states import RANKS


MOST_ROWS: Final = 500
"""Default number of rows."""
MOST_NEEDS: Final = 5
"""Largest number of listed needs of a part."""


class TableRow(msgspec.Struct, frozen=True):
    """A part as a row, with the first of those that it needs."""

    node: GraphNode
    needs: tuple[str, ...]
    more_needs: int = 0


class Rows(msgspec.Struct, frozen=True):
    """Rows, and the number of those left out."""

    rows: tuple[TableRow, ...]
    left_out: int = 0


def rows(graph: Graph, shown: Shown = "all", *, most: int = MOST_ROWS) -> Rows:
    """Return a graph's rows: roots of breaks, failed, waiting, and then other parts.

    Args:
        graph: the graph.
        shown: which chains.
        most: largest number of rows; the others are counted.
    """
    wired = wire(graph, shown)
    roots = causes(wired)
    numbers = sorted(
        range(len(wired.nodes)),
        key=lambda number: (number not in roots, RANKS[wired.nodes[number].state]),
    )
    made = tuple(
        TableRow(
            wired.nodes[number],
            tuple(wired.nodes[other].text for other in wired.needs[number][:MOST_NEEDS]),
            max(len(wired.needs[number]) - MOST_NEEDS, 0),
        )
        for number in islice(numbers, most)
    )
    return Rows(made, len(numbers) - len(made))
