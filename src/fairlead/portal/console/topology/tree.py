"""The tree of a graph: each node once, beside its first neighbour in a column further left.

A large tree is collapsed: what fails stands unfolded, with all that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2s
from itertools import islice

import msgspec

from fairlead.api.reasons.model import State
from fairlead.portal import bounds
from fairlead.portal.console.topology.graph import (
    Graph,
    GraphNode,
    Shown,
    Wired,
    causes,
    wire,
)
from fairlead.portal.model.lists import Counts
from fairlead.portal.model.thing import RANKS, STATES, WORDS


class TableRow(msgspec.Struct, frozen=True):
    """A part as a row, with the first of those that it needs."""

    node: GraphNode
    needs: tuple[str, ...]
    more_needs: int = 0


class Rows(msgspec.Struct, frozen=True):
    """Rows, and the number of those left out."""

    rows: tuple[TableRow, ...]
    left_out: int = 0


def rows(graph: Graph, shown: Shown = "all", *, most: int = bounds.TABLE_ROWS) -> Rows:
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
    table = tuple(
        TableRow(
            wired.nodes[number],
            tuple(wired.nodes[other].text for other in wired.needs[number][: bounds.LISTED]),
            max(len(wired.needs[number]) - bounds.LISTED, 0),
        )
        for number in islice(numbers, most)
    )
    return Rows(table, len(numbers) - len(table))


def unfolded(
    parents: Sequence[int], siblings: Iterable[Sequence[int]], problems: Iterable[int]
) -> frozenset[int]:
    """Return the nodes that stand unfolded, each with all its ancestors.

    Args:
        parents: each node's parent, -1 for none.
        siblings: the nodes of each parent, the worst first; parents come before their children.
        problems: the nodes with a problem, the worst first.
    """
    if len(parents) <= bounds.UNFOLDED:
        return frozenset(range(len(parents)))
    chosen: set[int] = set()
    for number in problems:
        if len(chosen) == bounds.UNFOLDED:
            break
        way: list[int] = []
        above = number
        while above >= 0 and above not in chosen:
            way.append(above)
            above = parents[above]
        if len(chosen) + len(way) <= bounds.UNFOLDED:
            chosen.update(way)
    for group in siblings:
        if group and (parents[group[0]] < 0 or parents[group[0]] in chosen):
            fresh = [
                number for number in group[: bounds.UNFOLDED_CHILDREN] if number not in chosen
            ]
            chosen.update(fresh[: bounds.UNFOLDED - len(chosen)])
    return frozenset(chosen)


class Anchor(msgspec.Struct, frozen=True):
    """A node, and its element's id for links to it."""

    node: GraphNode
    id: str


class Break(msgspec.Struct, frozen=True):
    """Nodes at which chains break for one reason; ``left_out`` of them are not listed."""

    anchors: tuple[Anchor, ...]
    left_out: int = 0

    @property
    def node(self) -> GraphNode:
        """The first of them, which says what all say."""
        return self.anchors[0].node


class TreeBranch(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its children; ``skipped`` is the number of empty columns before it.

    ``cause`` says whether chains break here, ``cut`` whether they break between it and its parent,
    and ``links`` has its neighbours that stand beside another parent.
    """

    node: GraphNode
    id: str
    skipped: int
    cause: bool
    cut: State | None
    branches: tuple[TreeBranch, ...] = ()
    fold: Fold | None = None
    links: tuple[Anchor, ...] = ()
    more_links: int = 0


class Fold(msgspec.Struct, frozen=True):
    """Siblings that are folded; ``kind`` is that of all of them, "" if they differ.

    ``tally`` counts them by the worst state in each one's subtree, ``left_out`` those that are not
    listed.
    """

    id: str
    size: int
    kind: str
    tally: Counts
    branches: tuple[TreeBranch, ...]
    left_out: int


class Tree(msgspec.Struct, frozen=True):
    """A graph's tree; ``titles`` are those of its columns."""

    titles: tuple[str, ...]
    branches: tuple[TreeBranch, ...]
    fold: Fold | None
    breaks: tuple[Break, ...]
    more_breaks: int
    tally: Counts

    @property
    def summary(self) -> str:
        """The number of nodes by state, as a sentence."""
        parts = "1 part" if self.tally.total == 1 else f"{self.tally.total:,} parts"
        states = (f"{count:,} {WORDS[state]}" for state, count in self.tally.by_state())
        return f"{parts}: {', '.join(states)}."


def grow(graph: Graph, shown: Shown = "all") -> Tree:
    """Return the tree of a graph, or of its chains with a problem; the worst comes first."""
    wired = wire(graph, shown)
    return _Growing(wired, causes(wired)).run()


class _Growing:
    def __init__(self, wired: Wired, origins: frozenset[int]) -> None:
        self._wired = wired
        self._origins = origins
        self._edges = frozenset(wired.edges)
        numbers = range(len(wired.nodes))
        self._parents = [-1 for _ in numbers]
        self._links: list[dict[int, None]] = [{} for _ in numbers]
        self._join()
        # An even rank is that of a cause, so that it comes before what waits for it.
        self._ranks = [
            2 * RANKS[node.state] + (number not in origins)
            for number, node in enumerate(wired.nodes)
        ]
        self._by_column = sorted(numbers, key=wired.column.__getitem__)
        self._worst = list(self._ranks)
        for number in reversed(self._by_column):
            parent = self._parents[number]
            if parent >= 0:
                self._worst[parent] = min(self._worst[parent], self._worst[number])
        self._children: dict[int, list[int]] = {number: [] for number in (-1, *self._by_column)}
        for number in numbers:
            self._children[self._parents[number]].append(number)
        for group in self._children.values():
            group.sort(key=self._worst.__getitem__)
        problems = sorted(filter(wired.problem, numbers), key=self._ranks.__getitem__)
        self._unfolded = unfolded(self._parents, self._children.values(), problems)
        self._listed = 0

    def run(self) -> Tree:
        wired = self._wired
        branches, fold = self._below(-1)
        broken = self._breaks()
        return Tree(
            wired.columns,
            branches,
            fold,
            tuple(broken[: bounds.LISTED]),
            max(len(broken) - bounds.LISTED, 0),
            Counts.of(node.state for node in wired.nodes),
        )

    def _breaks(self) -> list[Break]:
        """Return where chains break, the worst first; those with one message stand together."""
        groups: dict[object, list[int]] = {}
        for number in sorted(self._origins, key=lambda number: (self._ranks[number], number)):
            node = self._wired.nodes[number]
            said = (node.state, node.reason, node.about, node.helps)
            groups.setdefault(said if node.about else number, []).append(number)
        return [
            Break(
                tuple(map(self._anchor, numbers[: bounds.LISTED])),
                max(len(numbers) - bounds.LISTED, 0),
            )
            for numbers in groups.values()
        ]

    def _anchor(self, number: int) -> Anchor:
        return Anchor(self._wired.nodes[number], self._id(number))

    def _join(self) -> None:
        """Give each node its first parent; other neighbours link to it, as in its own column."""
        column = self._wired.column
        for source, target in self._wired.edges:
            left, right = (source, target)
            if column[source] > column[target]:
                left, right = target, source
            if self._parents[right] < 0 and column[left] < column[right]:
                self._parents[right] = left
            elif self._parents[right] != left:
                self._links[left][right] = None

    def _below(
        self, parent: int, nested: bool = False
    ) -> tuple[tuple[TreeBranch, ...], Fold | None]:
        children = self._children[parent]
        plain = [number for number in children if number in self._unfolded]
        rest = [number for number in children if number not in self._unfolded]
        if len(rest) == 1:
            # A fold would take as much room as what is in it.
            plain, rest = children, []
        branches = tuple(self._branch(number, nested) for number in plain)
        return branches, self._fold(parent, rest, nested) if rest else None

    def _branch(self, number: int, nested: bool) -> TreeBranch:
        wired, parent = self._wired, self._parents[number]
        nested = nested or number not in self._unfolded
        self._listed += nested
        branches, fold = self._below(number, nested)
        links = list(self._links[number])
        links.sort(key=self._ranks.__getitem__)
        return TreeBranch(
            node=wired.nodes[number],
            id=self._id(number),
            skipped=wired.column[number] - (wired.column[parent] if parent >= 0 else -1) - 1,
            cause=number in self._origins,
            cut=self._cut(parent, number),
            branches=branches,
            fold=fold,
            links=tuple(map(self._anchor, links[: bounds.LISTED])),
            more_links=max(len(links) - bounds.LISTED, 0),
        )

    def _fold(self, parent: int, members: Sequence[int], nested: bool) -> Fold:
        branches: list[TreeBranch] = []
        for number in members[: bounds.IN_NESTED_FOLD if nested else bounds.IN_FOLD]:
            if self._listed >= bounds.FOLDED:
                break
            branches.append(self._branch(number, nested=True))
        kinds = {self._wired.nodes[number].kind for number in members}
        return Fold(
            f"more-{self._id(parent)}" if parent >= 0 else "more",
            len(members),
            kinds.pop() if len(kinds) == 1 else "",
            Counts.of(STATES[self._worst[number] // 2] for number in members),
            tuple(branches),
            len(members) - len(branches),
        )

    def _cut(self, left: int, right: int) -> State | None:
        """Return the state of the one that the other needs, if chains break there."""
        for source, target in ((left, right), (right, left)):
            if target in self._origins and (source, target) in self._edges:
                return self._wired.nodes[target].state
        return None

    def _id(self, number: int) -> str:
        # It stays the same while nodes come and go, so that a live page keeps what is unfolded.
        name = self._wired.nodes[number].id.encode("utf-8", "surrogatepass")
        return f"part-{blake2s(name, digest_size=8).hexdigest()}"
