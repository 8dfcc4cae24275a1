"""Where chains break, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.graph import Edge, Graph, GraphNode, causes, wire


Chain = Callable[..., Graph]


def _roots(graph: Graph) -> list[str]:
    wired = wire(graph)
    return [wired.nodes[number].id for number in sorted(causes(wired))]


@pytest.mark.parametrize(
    ("states", "roots"),
    [
        pytest.param(("ok", "ok", "ok"), [], id="nothing is wrong"),
        pytest.param(
            ("waiting", "waiting", "failed", "ok"),
            ["Secret"],
            id="others wait for what failed in the middle",
        ),
        pytest.param(
            ("failed", "ok", "failed", "ok"),
            ["Secret"],
            id="what fails before it follows from it, also past what stands well",
        ),
        pytest.param(
            ("waiting", "waiting", "ok"),
            ["binding"],
            id="what waits by itself is what others wait for",
        ),
        pytest.param(
            ("failed", "failed", "waiting"),
            ["Secret"],
            id="what fails while something behind it waits may yet go on",
        ),
        pytest.param(("failed", "ok"), ["workload"], id="nothing needs what failed"),
        pytest.param(("unknown", "unknown"), [], id="what is not known breaks nothing"),
    ],
)
def test_where_a_chain_breaks(chain: Chain, states: tuple[State, ...], roots: list[str]) -> None:
    assert _roots(chain(*states)) == roots


def test_a_circle_breaks_at_its_first_part() -> None:
    nodes = tuple(
        GraphNode(id=name, column="service", kind="K", name=name, state="failed") for name in "abc"
    )
    ends = (("a", "b"), ("b", "c"), ("c", "a"))
    edges = tuple(Edge(source=source, target=target) for source, target in ends)
    assert _roots(Graph(nodes=nodes, edges=edges)) == ["a"]


def test_what_is_told_twice_or_leads_nowhere_is_left_out() -> None:
    node = GraphNode(id="a", column="service", kind="K", name="first")
    again = GraphNode(id="a", column="service", kind="K", name="second")
    edges = (Edge(source="a", target="a"), Edge(source="a", target="gone"))
    wired = wire(Graph(nodes=(node, again), edges=edges))
    assert wired.nodes == (node,)
    assert wired.edges == ()


def test_a_column_that_is_not_known_counts_as_the_last() -> None:
    nodes = tuple(
        GraphNode(id=name, column=name, kind="K", name="n") for name in ("role", "elsewhere")
    )
    wired = wire(Graph(nodes=nodes))
    assert wired.columns == ("Role",)
    assert wired.column == (0, 0)


def test_problems_are_shown_with_what_needs_them_and_what_they_need() -> None:
    states: dict[str, State] = {"a1": "ok", "a2": "ok", "b1": "waiting", "b2": "ok", "c": "ok"}
    nodes = tuple(
        GraphNode(id=name, column=name[0], kind="K", name=name, state=state)
        for name, state in states.items()
    )
    ends = (("a1", "b1"), ("a2", "b2"), ("b1", "c"), ("b2", "c"))
    edges = tuple(Edge(source=source, target=target) for source, target in ends)
    graph = Graph(nodes=nodes, edges=edges)
    shown = wire(graph, "problems")
    assert [node.id for node in shown.nodes] == ["a1", "b1", "c"]
    assert shown.edges == ((0, 1), (1, 2))
    assert len(wire(graph).nodes) == 5
