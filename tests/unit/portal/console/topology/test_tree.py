"""Trees of graphs: each node once, breaks first, and folds where there are many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import pytest

from fairlead.api.reasons.model import State
from fairlead.portal import bounds
from fairlead.portal.console.topology.graph import PROVIDED, Edge, Graph, GraphNode
from fairlead.portal.console.topology.tree import (
    Fold,
    Tree,
    TreeBranch,
    grow,
    rows,
)
from fairlead.portal.model.lists import Counts


Chain = Callable[..., Graph]
Fleet = Callable[..., Graph]


class Row(NamedTuple):
    """A graph by the first letters of its columns, and the lines of its tree."""

    nodes: str
    edges: str
    lines: list[str]


COLUMNS = {"w": "workload", "b": "binding", "s": "Secret", "p": "provider", "r": "role"}
STATES: dict[str, State] = {"!": "failed", "~": "waiting", "?": "unknown"}
"""Signs behind the name of a node."""
ROWS = {
    "each node stands beside the one that needs it": Row(
        "w1 b1 s1", "w1-b1 b1-s1", ["w1", ". b1", ". . s1"]
    ),
    "a node with two parents stands once, and the other links to it": Row(
        "b1 b2 s1", "b1-s1 b2-s1", ["b1", ". s1", "b2 > s1"]
    ),
    "an edge from right to left joins them too": Row(
        "w1 b1 s1", "b1-w1 s1-b1", ["w1", ". b1", ". . s1"]
    ),
    "a cycle of one column is links": Row(
        "b1 b2 b3", "b1-b2 b2-b3 b3-b1", ["b1 > b2", "b2 > b3", "b3 > b1"]
    ),
    "a cycle of columns is opened": Row(
        "w1 b1 s1", "w1-b1 b1-s1 s1-w1", ["w1 > s1", ". b1", ". . s1"]
    ),
    "two nodes that need each other are joined once": Row("w1 b1", "w1-b1 b1-w1", ["w1", ". b1"]),
    "an orphan stands in its own column": Row("w1 b1 s1", "w1-b1", ["w1", ". b1", "__s1"]),
    "a column without nodes takes no room": Row("w1 r1", "w1-r1", ["w1", ". r1"]),
    "a column is left out where others have it": Row(
        "w1 w2 b1 s1 s2", "w1-b1 b1-s1 w2-s2", ["w1", ". b1", ". . s1", "w2", ". _s2"]
    ),
    "the way to a break comes first": Row(
        "w1 w2 b1 b2~ b3 s2! s3",
        "w1-b1 w2-b3 w2-b2 b2-s2 b3-s3",
        ["w2", ". b2~", ". . cut s2! breaks", ". b3", ". . s3", "w1", ". b1"],
    ),
    "a failed node comes before one that waits": Row(
        "w1~ w2! w3", "", ["w2! breaks", "w1~ breaks", "w3"]
    ),
    "a break at a shared node is told at each link to it": Row(
        "b1~ b2~ s1!", "b1-s1 b2-s1", ["b1~", ". cut s1! breaks", "b2~ > s1!"]
    ),
    "a break left of those that need it": Row("w1! b1~", "b1-w1", ["w1! breaks", ". cut b1~"]),
    "an unknown state breaks nothing": Row("w1? b1?", "w1-b1", ["w1?", ". b1?"]),
    "a node of the same id and an edge to a missing node are left out": Row(
        "w1 w1! b1", "w1-b1 w1-w1 w1-s9", ["w1", ". b1"]
    ),
    "a graph without edges is a list": Row("w1 w2", "", ["w1", "w2"]),
}


def _graph(row: Row) -> Graph:
    return Graph(
        nodes=tuple(
            GraphNode(
                id=text[:2],
                column=COLUMNS[text[0]],
                kind="K",
                name=text,
                state=STATES.get(text[2:], "ok"),
            )
            for text in row.nodes.split()
        ),
        edges=tuple(
            Edge(source=source, target=target)
            for source, target in (edge.split("-") for edge in row.edges.split())
        ),
    )


def _lines(branches: tuple[TreeBranch, ...], depth: int = 0) -> Iterator[str]:
    for branch in branches:
        words = [*["."] * depth, *["cut"] * bool(branch.cut)]
        words.append("_" * branch.skipped + branch.node.name)
        words += ["breaks"] * branch.cause
        for link in branch.links:
            words += [">", link.node.name]
        yield " ".join(words)
        yield from _lines(branch.branches, depth + 1)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_tree_of_a_graph(row: Row) -> None:
    tree = grow(_graph(row))
    assert list(_lines(tree.branches)) == row.lines
    assert tree.fold is None


def _names(fold: Fold | None) -> list[str]:
    return [branch.node.name for branch in fold.branches] if fold else []


def _all(tree: Tree) -> Iterator[TreeBranch | Fold]:
    waiting: list[TreeBranch | Fold] = [*tree.branches, *([tree.fold] if tree.fold else [])]
    while waiting:
        item = waiting.pop()
        yield item
        waiting += item.branches
        if isinstance(item, TreeBranch) and item.fold:
            waiting.append(item.fold)


def _standing(branches: tuple[TreeBranch, ...]) -> int:
    return sum(1 + _standing(branch.branches) for branch in branches)


def test_titles_are_those_of_columns_with_nodes(chain: Chain) -> None:
    assert grow(chain("ok", "ok")).titles == ("Workload", "Binding")


def test_few_nodes_have_no_fold(fleet: Fleet) -> None:
    tree = grow(fleet((bounds.UNFOLDED - 4) // 2))
    assert _standing(tree.branches) == bounds.UNFOLDED
    assert not any(isinstance(item, Fold) for item in _all(tree))


def test_many_healthy_siblings_fold_below_their_parent(fleet: Fleet) -> None:
    (cluster,) = grow(fleet(480)).branches
    (export,) = cluster.branches
    for kind in export.branches:
        assert len(kind.branches) == 2
        assert kind.fold is not None
        assert (kind.fold.size, kind.fold.kind) == (238, kind.node.name)
        assert kind.fold.tally == Counts(ok=238)
        assert len(kind.fold.branches) == bounds.IN_FOLD
        assert kind.fold.left_out == 238 - bounds.IN_FOLD
        assert kind.fold.branches[0].branches[0].node.kind == "Role"


def test_what_breaks_stands_unfolded_with_the_way_to_it(fleet: Fleet) -> None:
    (cluster,) = grow(fleet(480, frozenset({471, 477}))).branches
    bucket, database = cluster.branches[0].branches
    assert [branch.node.name for branch in bucket.branches] == ["o471", "o477"]
    assert [branch.branches[0].cause for branch in bucket.branches] == [True, True]
    assert bucket.fold is not None
    assert (bucket.fold.size, bucket.fold.tally) == (238, Counts(ok=238))
    assert "o471" not in _names(bucket.fold)
    assert database.node.name == "Database"


def test_many_breaks_fold_too_and_the_first_are_told(fleet: Fleet) -> None:
    tree = grow(fleet(480, frozenset(range(0, 480, 4))))
    # Two without a problem stand with their only child.
    assert _standing(tree.branches) == bounds.UNFOLDED + 2
    database = tree.branches[0].branches[0].branches[0]
    assert database.fold is not None
    assert database.fold.tally.failed + len(database.branches) == 120
    assert [item.node.name for item in tree.breaks] == ["r0", "r4", "r8", "r12", "r16"]
    assert tree.more_breaks == 120 - bounds.LISTED
    ids = {item.id for item in _all(tree)}
    assert {anchor.id for item in tree.breaks for anchor in item.anchors} <= ids


def test_the_kinds_of_a_fold_are_told_where_they_are_one() -> None:
    nodes = tuple(
        GraphNode(id=str(n), column="role", kind=f"K{n % 2}", name=str(n)) for n in range(90)
    )
    fold = grow(Graph(nodes=nodes)).fold
    assert fold is not None
    assert (fold.size, fold.kind) == (88, "")


def test_a_fold_of_one_stands_unfolded() -> None:
    nodes = [GraphNode(id=f"w{n}", column="workload", kind="K", name="w") for n in range(17)]
    nodes += [GraphNode(id=f"b{n}", column="binding", kind="K", name="b") for n in range(51)]
    edges = tuple(Edge(source=f"w{n // 3}", target=f"b{n}") for n in range(51))
    tree = grow(Graph(nodes=tuple(nodes), edges=edges))
    assert all(item.size > 1 for item in _all(tree) if isinstance(item, Fold))


@pytest.mark.parametrize("consumers", [300, 40])
def test_what_is_listed_is_bounded_and_the_rest_is_counted(consumers: int) -> None:
    nodes = [
        GraphNode(id=f"c{n}", column="cluster", kind="Cluster", name="c") for n in range(consumers)
    ]
    nodes += [GraphNode(id=f"o{n}", column="object", kind="O", name="o") for n in range(4000)]
    edges = tuple(Edge(source=f"o{n}", target=f"c{n % consumers}") for n in range(4000))
    tree = grow(Graph(columns=PROVIDED, nodes=tuple(nodes), edges=edges))
    branches = [item for item in _all(tree) if isinstance(item, TreeBranch)]
    assert len(branches) <= bounds.UNFOLDED + bounds.FOLDED + 1
    assert len({branch.id for branch in branches}) == len(branches)
    assert all(
        item.size == len(item.branches) + item.left_out
        for item in _all(tree)
        if isinstance(item, Fold)
    )


def test_links_are_bounded_and_a_broken_one_comes_first() -> None:
    nodes = [GraphNode(id="a", column="binding", kind="K", name="a")]
    nodes += [GraphNode(id="b", column="binding", kind="K", name="b")]
    nodes += [GraphNode(id=str(n), column="role", kind="K", name=str(n)) for n in range(9)]
    nodes[-1] = GraphNode(id="8", column="role", kind="K", name="8", state="failed")
    edges = tuple(Edge(source=side, target=str(n)) for side in "ab" for n in range(9))
    tree = grow(Graph(nodes=tuple(nodes), edges=edges))
    second = next(branch for branch in tree.branches if branch.node.name == "b")
    assert [link.node.name for link in second.links] == ["8", "0", "1", "2", "3"]
    assert second.more_links == 9 - bounds.LISTED


def test_ids_stay_while_other_nodes_come_and_go(fleet: Fleet) -> None:
    before = {item.id for item in _all(grow(fleet(6)))}
    assert before < {item.id for item in _all(grow(fleet(8)))}


def test_the_summary_counts_states_the_worst_first(fleet: Fleet, chain: Chain) -> None:
    tree = grow(fleet(480, frozenset({3})))
    assert tree.summary == "964 parts: 1 failed, 1 waiting, 962 healthy."
    assert grow(chain("ok")).summary == "1 part: 1 healthy."


def test_problems_alone_are_shown_with_what_leads_to_them(fleet: Fleet) -> None:
    tree = grow(fleet(480, frozenset({3})), "problems")
    assert tree.summary == "5 parts: 1 failed, 1 waiting, 3 healthy."
    assert _standing(tree.branches) == 5


def _steps(work: Callable[[], Any]) -> int:
    """How many instructions of Python run: a count, which no other load changes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("work", [grow, rows], ids=["tree", "rows"])
@pytest.mark.parametrize("each", [7, 1], ids=["some fail", "all fail"])
def test_work_grows_with_the_graph_and_no_faster(
    fleet: Fleet, work: Callable[..., Any], each: int
) -> None:
    graphs = [fleet(size, frozenset(range(0, size, each))) for size in (200, 400, 800)]
    work(graphs[0])
    first, second, third = (_steps(partial(work, graph)) for graph in graphs)
    assert third - second < 2.2 * (second - first)


def _star(size: int) -> Graph:
    """All need one part."""
    hub = GraphNode(id="hub", column="provider", kind="K", name="hub", state="failed")
    others = tuple(
        GraphNode(id=str(n), column="role", kind="K", name="n", state="waiting")
        for n in range(size)
    )
    edges = tuple(Edge(source=node.id, target="hub") for node in others)
    return Graph(nodes=(hub, *others), edges=edges)


def _circles(size: int) -> Graph:
    """Each two need each other."""
    nodes = tuple(GraphNode(id=str(n), column="role", kind="K", name="n") for n in range(size))
    edges = tuple(Edge(source=str(n), target=str(n ^ 1)) for n in range(size))
    return Graph(nodes=nodes, edges=edges)


def _line(size: int) -> Graph:
    """Each needs the next."""
    nodes = tuple(
        GraphNode(id=str(n), column="role", kind="K", name="n", state="failed")
        for n in range(size)
    )
    edges = tuple(Edge(source=str(n), target=str(n + 1)) for n in range(size))
    return Graph(nodes=nodes, edges=edges)


@pytest.mark.parametrize("shape", [_star, _circles, _line])
def test_no_shape_of_a_graph_costs_more_than_its_size(shape: Callable[[int], Graph]) -> None:
    graphs = [shape(size) for size in (200, 400, 800)]
    first, second, third = (_steps(partial(grow, graph)) for graph in graphs)
    assert third - second < 2.2 * (second - first)


def test_parts_that_break_chains_for_one_reason_are_named_together() -> None:
    nodes = tuple(
        GraphNode(
            id=name, column="role", kind="Role", name=name, state="failed", about=f"no {about}"
        )
        for name, about in (
            ("a", "server"),
            ("b", "database"),
            *((f"c{n}", "server") for n in "12"),
        )
    )
    breaks = grow(Graph(nodes=nodes)).breaks
    assert [[anchor.node.name for anchor in item.anchors] for item in breaks] == [
        ["a", "c1", "c2"],
        ["b"],
    ]
