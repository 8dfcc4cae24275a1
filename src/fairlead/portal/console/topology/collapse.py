"""Collapsing of large graphs: parts without a problem are grouped by kind."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.graph import GraphColumn, GraphNode, counted, told
from fairlead.portal.console.topology.wiring import Breaks, Wired
from fairlead.portal.model.states import RANKS


MOST: Final = 50
"""Largest number of drawn parts; larger graphs are collapsed."""
_FEWEST: Final = 4
"""Number of parts that a collapsed column keeps in any case."""


class DrawnPart(msgspec.Struct, frozen=True):
    """A drawn part: one node, or a group of ``size`` nodes.

    ``roots`` is the number of them that others wait for, ``tally`` their numbers by state.
    """

    node: GraphNode
    column: int
    size: int = 1
    roots: int = 0
    tally: dict[State, int] = {}


class Tie(msgspec.Struct, frozen=True):
    """A line between two parts: ``source`` needs ``target``; it stands for ``size`` edges.

    ``label`` says why it is broken, if its target is a root.
    """

    source: int
    target: int
    state: State
    broken: bool = False
    label: str = ""
    size: int = 1


class Picture(msgspec.Struct, frozen=True):
    """A drawing's parts, at most :data:`MOST`, and lines; ``total`` is the number of nodes."""

    columns: tuple[GraphColumn, ...]
    parts: tuple[DrawnPart, ...]
    ties: tuple[Tie, ...]
    total: int


_Group = tuple[str, int]
"""Key of a group: the kind, and the parent part, -1 without one."""


def collapse(wired: Wired, broken: Breaks) -> Picture:
    """Return the picture of a graph, in one pass over its nodes and one over its edges."""
    return _Collapsing(wired, broken).run()


class _Collapsing:
    def __init__(self, wired: Wired, broken: Breaks) -> None:
        self._wired = wired
        self._broken = broken
        self._parts: list[DrawnPart] = []
        self._others: set[int] = set()
        self._near: set[int] = set()
        self._part_of = [-1] * len(wired.nodes)
        self._places: list[list[int]] = [[] for _ in wired.columns]
        for number, column in enumerate(wired.column):
            self._places[column].append(number)

    def run(self) -> Picture:
        allowed = self._allowed()
        self._near = self._waiting(allowed)
        for column, members in enumerate(self._places):
            if len(members) <= allowed[column]:
                for number in members:
                    self._single(number)
            else:
                self._collapsed(column, members, allowed[column])
        total = len(self._wired.nodes)
        return Picture(self._wired.columns, tuple(self._parts), self._ties(), total)

    def _allowed(self) -> list[int]:
        """Return each column's limit of parts; a column below it is not collapsed."""
        sizes = [len(members) for members in self._places]
        if sum(sizes) <= MOST:
            return sizes
        share = MOST // sum(1 for size in sizes if size)
        large = sum(1 for size in sizes if size > share)
        # Small columns keep all their parts, and the large ones share the rest.
        left = MOST - sum(size for size in sizes if size <= share)
        return [size if size <= share else max(left // large, _FEWEST) for size in sizes]

    def _single(self, number: int) -> None:
        self._part_of[number] = len(self._parts)
        self._parts.append(
            DrawnPart(
                self._wired.nodes[number],
                self._wired.column[number],
                roots=1 if number in self._broken.roots else 0,
            )
        )

    def _collapsed(self, column: int, members: Sequence[int], most: int) -> None:
        """Keep nodes with a problem in half of the room, and group the rest."""
        # Half of the room stays for groups, without which the healthy part would be missing.
        shown = set(self._worst(members, most // 2))
        groups: dict[_Group, list[int]] = {}
        for number in members:
            if number in shown:
                self._single(number)
            else:
                key = (self._wired.nodes[number].kind, self._parent(number))
                groups.setdefault(key, []).append(number)
        room = most - len(shown)
        kept = list(groups.values())
        if len(kept) > room:
            largest = heapq.nlargest(room - 1, range(len(kept)), key=lambda one: len(kept[one]))
            chosen = set(largest)
            rest = [
                number
                for place, group in enumerate(kept)
                if place not in chosen
                for number in group
            ]
            kept = [kept[place] for place in sorted(chosen)]
            kept.append(rest)
        beside = {(self._wired.nodes[one].kind, self._parent(one)) for one in shown}
        for group in kept:
            self._group(column, group, beside)

    def _worst(self, members: Iterable[int], most: int) -> list[int]:
        """Return members with a problem, the most important first."""
        ranked: list[list[int]] = [[] for _ in range(5)]
        for number in members:
            rank = self._rank(number)
            if rank is not None and len(ranked[rank]) < most:
                ranked[rank].append(number)
        return [number for rank in ranked for number in rank][:most]

    def _rank(self, number: int) -> int | None:
        """Return a node's rank, 0 for the most important; None without a problem.

        Roots come first, then the nodes that wait for a root, so that a whole chain is visible.
        """
        root, near = number in self._broken.roots, number in self._near
        if not self._wired.problem(number):
            return 1 if near else None
        if self._wired.nodes[number].state == "failed":
            return 0 if root else 1 if near else 3
        return 1 if near else 2 if root else 4

    def _waiting(self, allowed: Sequence[int]) -> set[int]:
        """Return the nodes that wait for a shown root, and both ends of failed edges."""
        wired = self._wired
        shown: list[int] = []
        for column, members in enumerate(self._places):
            failed = (
                number
                for number in members
                if number in self._broken.roots and wired.nodes[number].state == "failed"
            )
            shown += islice(failed, allowed[column] // 2)
        near: set[int] = set()
        for ends, edge in zip(wired.ends, wired.edges, strict=True):
            if edge.state == "failed":
                near.update(ends)
        while shown:
            for edge_number in wired.needed_by[shown.pop()]:
                source = wired.ends[edge_number][0]
                if source not in near and wired.problem(source):
                    near.add(source)
                    shown.append(source)
        return near

    def _parent(self, number: int) -> int:
        """Return the first part further left that a node is joined to, -1 without one."""
        wired, column = self._wired, self._wired.column[number]
        for edges, end in ((wired.needed_by[number], 0), (wired.needs[number], 1)):
            for edge in edges:
                other = wired.ends[edge][end]
                if wired.column[other] < column:
                    return self._part_of[other]
        return -1

    def _group(self, column: int, members: Sequence[int], beside: set[_Group]) -> None:
        if len(members) == 1:
            self._single(members[0])
            return
        place, nodes = len(self._parts), [self._wired.nodes[number] for number in members]
        for number in members:
            self._part_of[number] = place
        tally = counted(node.state for node in nodes)
        kinds = {node.kind for node in nodes}
        wheres = {node.where for node in nodes}
        kind = kinds.pop() if len(kinds) == 1 else f"{len(kinds):,} kinds"
        parent = self._parent(members[0])
        more = not kinds and ((kind, parent) in beside or parent in self._others)
        if more:
            self._others.add(place)
        count = f"{len(nodes):,}"
        worst = min(tally, key=RANKS.__getitem__)
        first = next(node for node in nodes if node.state == worst)
        self._parts.append(
            DrawnPart(
                GraphNode(
                    id=f"{first.id}…",
                    column=first.column,
                    kind=kind,
                    name=f"and {count} more" if more else f"{count} objects",
                    where=wheres.pop() if len(wheres) == 1 else "",
                    state=worst,
                    reason=told(tally),
                ),
                column,
                len(nodes),
                sum(1 for number in members if number in self._broken.roots),
                tally,
            )
        )

    def _ties(self) -> tuple[Tie, ...]:
        found: dict[tuple[int, int], list[int]] = {}
        for edge, (source, target) in enumerate(self._wired.ends):
            ends = (self._part_of[source], self._part_of[target])
            if ends[0] != ends[1]:
                found.setdefault(ends, []).append(edge)
        return tuple(self._tie(ends, edges) for ends, edges in found.items())

    def _tie(self, ends: tuple[int, int], edges: Sequence[int]) -> Tie:
        states, broken = self._broken.states, self._broken.broken
        worst = min((states[edge] for edge in edges), key=RANKS.__getitem__)
        cause = next((edge for edge in edges if edge in broken and states[edge] == worst), None)
        label = ""
        if cause is not None:
            target = self._wired.nodes[self._wired.ends[cause][1]]
            label = self._wired.edges[cause].label or target.reason
        return Tie(*ends, worst, cause is not None, label, len(edges))
