"""Where chains break, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.graph import Edge, Graph, GraphNode
from fairlead.portal.console.topology.wiring import MOST_COLUMNS, Wired, breaks, chosen, wire


Chain = Callable[..., Graph]


def _roots(wired: Wired) -> list[str]:
    return [wired.nodes[number].id for number in sorted(breaks(wired).roots)]


def _broken(wired: Wired) -> list[tuple[str, str]]:
    return [
        (wired.edges[number].source, wired.edges[number].target)
        for number in sorted(breaks(wired).broken)
    ]


@pytest.mark.parametrize(
    ("states", "roots", "broken"),
    [
        pytest.param(("ok", "ok", "ok"), [], [], id="nothing is wrong"),
        pytest.param(
            ("waiting", "waiting", "failed", "ok"),
            ["Secret"],
            [("binding", "Secret")],
            id="others wait for what failed in the middle",
        ),
        pytest.param(
            ("failed", "ok", "failed", "ok"),
            ["Secret"],
            [("binding", "Secret")],
            id="what fails before it follows from it, also past what stands well",
        ),
        pytest.param(
            ("waiting", "waiting", "ok"),
            ["binding"],
            [("workload", "binding")],
            id="what waits by itself is what others wait for",
        ),
        pytest.param(
            ("failed", "failed", "waiting"),
            ["Secret"],
            [("binding", "Secret")],
            id="what fails while something behind it waits may yet go on",
        ),
        pytest.param(("failed", "ok"), ["workload"], [], id="nothing needs what failed"),
        pytest.param(("unknown", "unknown"), [], [], id="what is not known breaks nothing"),
    ],
)
def test_where_a_chain_breaks(
    chain: Chain, states: tuple[State, ...], roots: list[str], broken: list[tuple[str, str]]
) -> None:
    wired = wire(chain(*states))
    assert _roots(wired) == roots
    assert _broken(wired) == broken


def test_lines_stand_as_what_they_lead_to(chain: Chain) -> None:
    wired = wire(chain("failed", "failed", "failed", "ok", "unknown"))
    assert breaks(wired).states == ("waiting", "failed", "ok", "unknown")


def test_a_way_can_fail_between_two_parts_that_stand_well(chain: Chain) -> None:
    graph = chain("ok", "ok", "ok")
    graph = Graph(
        nodes=graph.nodes,
        edges=(
            Edge(source="workload", target="binding"),
            Edge(source="binding", target="Secret", state="failed", label="Refused"),
        ),
    )
    assert _broken(wire(graph)) == [("binding", "Secret")]
    assert _roots(wire(graph)) == []
    assert len(chosen(wire(graph), "problems").nodes) == 3


def test_a_circle_breaks_at_its_first_part() -> None:
    nodes = tuple(
        GraphNode(id=name, column="service", kind="K", name=name, state="failed") for name in "abc"
    )
    ends = (("a", "b"), ("b", "c"), ("c", "a"))
    edges = tuple(Edge(source=source, target=target) for source, target in ends)
    assert _roots(wire(Graph(nodes=nodes, edges=edges))) == ["a"]


def test_what_is_told_twice_or_leads_nowhere_is_left_out() -> None:
    node = GraphNode(id="a", column="service", kind="K", name="first")
    again = GraphNode(id="a", column="service", kind="K", name="second")
    edges = (Edge(source="a", target="a"), Edge(source="a", target="gone"))
    wired = wire(Graph(nodes=(node, again), edges=edges))
    assert wired.nodes == (node,)
    assert wired.edges == ()


def test_columns_that_are_not_known_stand_last_and_are_bounded() -> None:
    nodes = tuple(GraphNode(id=str(n), column=f"c{n}", kind="K", name="n") for n in range(40))
    wired = wire(Graph(columns=(), nodes=nodes))
    assert len(wired.columns) == MOST_COLUMNS
    assert wired.column[:3] == (0, 1, 2)
    assert set(wired.column[MOST_COLUMNS:]) == {MOST_COLUMNS - 1}


def test_problems_are_shown_with_what_needs_them_and_what_they_need() -> None:
    states: dict[str, State] = {"a1": "ok", "a2": "ok", "b1": "waiting", "b2": "ok", "c": "ok"}
    nodes = tuple(
        GraphNode(id=name, column=name[0], kind="K", name=name, state=state)
        for name, state in states.items()
    )
    ends = (("a1", "b1"), ("a2", "b2"), ("b1", "c"), ("b2", "c"))
    edges = tuple(Edge(source=source, target=target) for source, target in ends)
    wired = wire(Graph(nodes=nodes, edges=edges))
    shown = chosen(wired, "problems")
    assert [node.id for node in shown.nodes] == ["a1", "b1", "c"]
    assert [(edge.source, edge.target) for edge in shown.edges] == [("a1", "b1"), ("b1", "c")]
    assert chosen(wired, "all") == wired
