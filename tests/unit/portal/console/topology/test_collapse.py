"""Few parts for many, whatever comes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from fairlead.portal.console.topology.collapse import MOST, Picture, collapse
from fairlead.portal.console.topology.drawing import draw
from fairlead.portal.console.topology.graph import PROVIDED, Edge, Graph, GraphNode
from fairlead.portal.console.topology.table import rows
from fairlead.portal.console.topology.wiring import breaks, wire


Fleet = Callable[..., Graph]


def _picture(graph: Graph) -> Picture:
    wired = wire(graph)
    return collapse(wired, breaks(wired))


def _names(picture: Picture, column: str) -> list[tuple[str, str, str]]:
    return [
        (part.node.kind, part.node.name, part.node.reason)
        for part in picture.parts
        if part.node.column == column
    ]


def test_few_parts_stay_as_they_are(fleet: Fleet) -> None:
    graph = fleet((MOST - 4) // 2)
    picture = _picture(graph)
    assert len(picture.parts) == MOST
    assert {part.node for part in picture.parts} == set(graph.nodes)
    assert len(picture.ties) == len(graph.edges)


def test_many_parts_become_one_of_each_kind_below_what_they_belong_to(fleet: Fleet) -> None:
    picture = _picture(fleet(480))
    assert _names(picture, "kind") == [("Kind", "Database", ""), ("Kind", "Bucket", "")]
    assert _names(picture, "object") == [
        ("Database", "240 objects", "240 in order"),
        ("Bucket", "240 objects", "240 in order"),
    ]
    assert picture.total == 964
    assert {tie.size for tie in picture.ties} == {1, 240}


def test_parts_of_a_kind_stay_apart_that_belong_to_different_parts() -> None:
    nodes = [GraphNode(id=name, column="cluster", kind="Cluster", name=name) for name in "ab"]
    nodes += [GraphNode(id=str(n), column="object", kind="Database", name="d") for n in range(90)]
    edges = tuple(Edge(source=str(n), target="ab"[n % 3 == 0]) for n in range(90))
    picture = _picture(Graph(columns=PROVIDED, nodes=tuple(nodes), edges=edges))
    assert [name for _, name, _ in _names(picture, "object")] == ["30 objects", "60 objects"]


def test_parts_with_a_problem_stay_and_their_chain_with_them(fleet: Fleet) -> None:
    picture = _picture(fleet(480, frozenset({3, 77})))
    assert _names(picture, "object") == [
        ("Bucket", "o3", ""),
        ("Bucket", "o77", ""),
        ("Database", "240 objects", "240 in order"),
        ("Bucket", "and 238 more", "238 in order"),
    ]
    broken = [tie for tie in picture.ties if tie.broken]
    assert [
        (picture.parts[tie.source].node.id, picture.parts[tie.target].node.id, tie.label)
        for tie in broken
    ] == [("o3", "r3", "RoleConflict"), ("o77", "r77", "RoleConflict")]


def test_many_problems_are_bounded_and_counted(fleet: Fleet) -> None:
    picture = _picture(fleet(480, frozenset(range(0, 480, 4))))
    assert len(picture.parts) <= MOST
    failed = [part for part in picture.parts if part.node.state == "failed"]
    assert sum(part.size for part in failed if part.size == 1) > 5
    rest = next(part for part in failed if part.size > 1)
    assert rest.tally["failed"] + len(failed) - 1 == 120
    assert rest.roots == rest.tally["failed"]


@pytest.mark.parametrize("by", ["kind", "column", "parent"])
def test_whatever_is_different_in_each_part_the_drawing_is_bounded(by: str) -> None:
    nodes = [GraphNode(id=str(n), column="service", kind="K", name="n") for n in range(400)]
    edges: list[Edge] = []
    if by == "kind":
        nodes = [GraphNode(id=str(n), column="role", kind=f"K{n}", name="n") for n in range(400)]
    elif by == "column":
        nodes = [GraphNode(id=str(n), column=f"c{n}", kind="K", name="n") for n in range(400)]
    else:
        nodes += [GraphNode(id=f"r{n}", column="role", kind="K", name="n") for n in range(400)]
        edges = [Edge(source=str(n), target=f"r{n}") for n in range(400)]
    picture = _picture(Graph(nodes=tuple(nodes), edges=tuple(edges)))
    assert len(picture.parts) <= MOST
    assert sum(part.size for part in picture.parts) == len(nodes)


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


@pytest.mark.parametrize("work", [draw, rows], ids=["drawing", "rows"])
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
    first, second, third = (_steps(partial(draw, graph)) for graph in graphs)
    assert third - second < 2.2 * (second - first)
