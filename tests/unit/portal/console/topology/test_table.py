"""The same graph in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.portal.console.topology.graph import Edge, Graph, GraphNode
from fairlead.portal.console.topology.tree import rows


Chain = Callable[..., Graph]
Fleet = Callable[..., Graph]


def test_what_is_broken_comes_first(chain: Chain) -> None:
    told = rows(chain("waiting", "failed", "failed", "ok", "unknown"))
    assert [(row.node.kind, row.node.state) for row in told.rows] == [
        ("Secret", "failed"),
        ("ServiceBinding", "failed"),
        ("Deployment", "waiting"),
        ("APIServiceBinding", "unknown"),
        ("PostgresAccess", "ok"),
    ]
    assert told.rows[0].node.reason == "Reason2"
    assert told.rows[0].needs == ("PostgresAccess shop/orders",)
    assert told.left_out == 0


def test_rows_are_bounded_and_the_rest_is_counted(fleet: Fleet) -> None:
    told = rows(fleet(480, frozenset({470})), most=10)
    assert [row.node.name for row in told.rows][:2] == ["r470", "o470"]
    assert len(told.rows) == 10
    assert told.left_out == 954


def test_what_a_part_needs_is_bounded_too() -> None:
    nodes = tuple(GraphNode(id=str(n), column="role", kind="Role", name=str(n)) for n in range(9))
    edges = tuple(Edge(source="0", target=str(n)) for n in range(1, 9))
    (first, *_) = rows(Graph(nodes=nodes, edges=(*edges, *edges))).rows
    assert first.needs == ("Role 1", "Role 2", "Role 3", "Role 4", "Role 5")
    assert first.more_needs == 3


def test_problems_alone_are_told_when_asked_for(fleet: Fleet) -> None:
    assert len(rows(fleet(480, frozenset({3})), "problems").rows) == 5


@pytest.mark.parametrize(
    ("href", "link"),
    [
        ("/objects/a", "/objects/a"),
        ("/a?b=c", "/a?b=c"),
        ("", ""),
        ("javascript:alert(1)", ""),
        ("//elsewhere.example", ""),
        ("/\\elsewhere.example", ""),
        ("https://elsewhere.example", ""),
    ],
)
def test_addresses_elsewhere_are_no_links(href: str, link: str) -> None:
    node = GraphNode(id="a", column="role", kind="Role", name="a", href=href)
    assert node.link == link
