"""The graph as rows of a table, for screen readers and search."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.graph import Graph, Shown, Wired, causes, wire
from fairlead.portal.model.states import WORDS


MOST_ROWS: Final = 500
"""Default number of rows."""
MOST_NEEDS: Final = 5
"""Largest number of listed needs of a part."""


class TableRow(msgspec.Struct, frozen=True):
    """A part as a row."""

    kind: str
    name: str
    where: str
    state: State
    reason: str
    about: str
    since: str
    helps: str
    href: str
    needs: tuple[str, ...]
    more_needs: int = 0

    @property
    def word(self) -> str:
        """The word for the state."""
        return WORDS[self.state]


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
    made = tuple(_row(wired, number) for number in islice(_order(wired), most))
    return Rows(made, len(wired.nodes) - len(made))


def _order(wired: Wired) -> Iterator[int]:
    roots = causes(wired)
    ranked: dict[tuple[bool, State], list[int]] = {
        (root, state): [] for root in (True, False) for state in WORDS
    }
    for number, node in enumerate(wired.nodes):
        ranked[number in roots, node.state].append(number)
    for numbers in ranked.values():
        yield from numbers


def _row(wired: Wired, number: int) -> TableRow:
    node = wired.nodes[number]
    needs = wired.needs[number]
    return TableRow(
        kind=node.kind,
        name=node.name,
        where=node.where,
        state=node.state,
        reason=node.reason,
        about=node.about,
        since=node.since,
        helps=node.helps,
        href=node.link,
        needs=tuple(wired.nodes[other].text for other in needs[:MOST_NEEDS]),
        more_needs=max(len(needs) - MOST_NEEDS, 0),
    )
