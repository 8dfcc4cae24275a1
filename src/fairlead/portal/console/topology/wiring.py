"""A numbered graph for walks, and the places where its chains break."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.graph import Edge, Graph, GraphColumn, GraphNode, Shown


MOST_COLUMNS: Final = 12
"""Largest number of drawn columns; further ones share the last."""


class Wired(msgspec.Struct, frozen=True):
    """A numbered graph: ``needs`` and ``needed_by`` are the edges' numbers of each node.

    Of nodes with the same id the first is kept; edges to missing nodes are dropped.
    """

    columns: tuple[GraphColumn, ...]
    nodes: tuple[GraphNode, ...]
    column: tuple[int, ...]
    edges: tuple[Edge, ...]
    ends: tuple[tuple[int, int], ...]
    needs: tuple[list[int], ...]
    needed_by: tuple[list[int], ...]

    def problem(self, number: int) -> bool:
        """Whether the node of this number failed or waits."""
        return self.nodes[number].state in {"failed", "waiting"}


class Breaks(msgspec.Struct, frozen=True):
    """The places where chains break.

    ``roots`` are nodes with a problem that need no other node with one. ``states`` has each
    edge's state, ``broken`` the edges that lead to a root.
    """

    roots: frozenset[int]
    states: tuple[State, ...]
    broken: frozenset[int]


def wire(graph: Graph) -> Wired:
    """Number the nodes and edges of a graph."""
    columns: dict[str, int] = {}
    known: list[GraphColumn] = []
    for column in graph.columns:
        _place(column, columns, known)
    numbers: dict[str, int] = {}
    nodes: list[GraphNode] = []
    at: list[int] = []
    for node in graph.nodes:
        if node.id in numbers:
            continue
        numbers[node.id] = len(nodes)
        nodes.append(node)
        if node.column not in columns:
            _place(GraphColumn(node.column, node.column), columns, known)
        at.append(columns[node.column])
    return _joined(tuple(known), nodes, at, graph.edges, numbers)


def _place(column: GraphColumn, columns: dict[str, int], known: list[GraphColumn]) -> None:
    if column.name in columns:
        return
    if len(known) < MOST_COLUMNS:
        known.append(column)
    columns[column.name] = len(known) - 1


def _joined(
    columns: tuple[GraphColumn, ...],
    nodes: list[GraphNode],
    at: list[int],
    found: tuple[Edge, ...],
    numbers: dict[str, int],
) -> Wired:
    edges: list[Edge] = []
    ends: list[tuple[int, int]] = []
    needs: tuple[list[int], ...] = tuple([] for _ in nodes)
    needed_by: tuple[list[int], ...] = tuple([] for _ in nodes)
    for edge in found:
        source, target = numbers.get(edge.source), numbers.get(edge.target)
        if source is None or target is None or source == target:
            continue
        needs[source].append(len(edges))
        needed_by[target].append(len(edges))
        edges.append(edge)
        ends.append((source, target))
    return Wired(columns, tuple(nodes), tuple(at), tuple(edges), tuple(ends), needs, needed_by)


def breaks(wired: Wired) -> Breaks:
    """Find the breaks, in one walk from the nodes without needs to those that need them."""
    roots: set[int] = set()
    troubled = [False] * len(wired.nodes)
    for number in _from_the_source(wired):
        held = any(
            troubled[wired.ends[edge][1]] or wired.edges[edge].state == "failed"
            for edge in wired.needs[number]
        )
        if wired.problem(number) and not held:
            roots.add(number)
        troubled[number] = held or wired.problem(number)
    states: list[State] = []
    broken: set[int] = set()
    for number, edge in enumerate(wired.edges):
        target = wired.ends[number][1]
        state = edge.state
        if state is None:
            state = wired.nodes[target].state
            if target in roots:
                broken.add(number)
            elif state == "failed":
                state = "waiting"
        elif state == "failed":
            broken.add(number)
        states.append(state)
    return Breaks(frozenset(roots), tuple(states), frozenset(broken))


def _from_the_source(wired: Wired) -> list[int]:
    """Sort nodes topologically, needed ones first; a cycle is opened at its first node."""
    missing = [len(edges) for edges in wired.needs]
    ready = deque(number for number, count in enumerate(missing) if not count)
    done = [False] * len(missing)
    ordered: list[int] = []
    first = 0
    while len(ordered) < len(missing):
        while ready:
            number = ready.popleft()
            if done[number]:
                continue
            done[number] = True
            ordered.append(number)
            for edge in wired.needed_by[number]:
                source = wired.ends[edge][0]
                missing[source] -= 1
                if not missing[source]:
                    ready.append(source)
        # Here only cycles and the nodes that need them are left, if any.
        while first < len(done) and done[first]:
            first += 1
        if first < len(done):
            ready.append(first)
    return ordered


def chosen(wired: Wired, shown: Shown) -> Wired:
    """Return the graph to show: all of it, or the nodes that lead to a problem or from it."""
    if shown == "all":
        return wired
    seeds = [number for number in range(len(wired.nodes)) if wired.problem(number)]
    for edge, ends in zip(wired.edges, wired.ends, strict=True):
        if edge.state in {"failed", "waiting"}:
            seeds.extend(ends)
    kept = _reached(wired, seeds, wired.needs, 1) | _reached(wired, seeds, wired.needed_by, 0)
    order = [number for number in range(len(wired.nodes)) if number in kept]
    return _joined(
        wired.columns,
        [wired.nodes[number] for number in order],
        [wired.column[number] for number in order],
        wired.edges,
        {wired.nodes[number].id: place for place, number in enumerate(order)},
    )


def _reached(wired: Wired, seeds: list[int], along: tuple[list[int], ...], end: int) -> set[int]:
    reached = set(seeds)
    waiting = list(reached)
    while waiting:
        for edge in along[waiting.pop()]:
            other = wired.ends[edge][end]
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
