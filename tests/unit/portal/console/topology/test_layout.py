"""Places of what is drawn."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.portal.console.topology.collapse import collapse
from fairlead.portal.console.topology.graph import Edge, Graph, GraphColumn, GraphNode
from fairlead.portal.console.topology.layout import LABEL, Layout, _LayingOut, lay_out
from fairlead.portal.console.topology.ordering import Neighbours, ordered
from fairlead.portal.console.topology.wiring import breaks, wire


Chain = Callable[..., Graph]


def _layout(graph: Graph) -> Layout:
    wired = wire(graph)
    return lay_out(collapse(wired, breaks(wired)), 92)


def test_a_chain_is_one_straight_line(chain: Chain) -> None:
    layout = _layout(chain("ok", "ok", "ok", "ok", "ok", "ok"))
    assert len({box.y for box in layout.boxes}) == 1
    assert [box.x for box in layout.boxes] == sorted(box.x for box in layout.boxes)
    assert [title.text for title in layout.titles][:3] == ["Workload", "Binding", "Secret"]


def test_columns_without_parts_take_no_room(chain: Chain) -> None:
    assert [title.text for title in _layout(chain("ok", "ok")).titles] == ["Workload", "Binding"]


def test_a_broken_line_has_room_for_what_is_written_beside_it(chain: Chain) -> None:
    well = _layout(chain("ok", "ok", "ok"))
    broken = _layout(chain("ok", "waiting", "failed"))
    assert broken.boxes[1].x == well.boxes[1].x
    assert broken.boxes[2].x == well.boxes[2].x + LABEL


def test_a_line_past_a_column_does_not_cross_its_parts(chain: Chain) -> None:
    graph = chain("ok", "ok", "ok")
    past = Edge(source="workload", target="Secret")
    layout = _layout(Graph(nodes=graph.nodes, edges=(*graph.edges, past)))
    middle = layout.boxes[1]
    level = next(
        int(part.split()[-1])
        for part in layout.paths[2].split("H")
        if part.startswith(str(middle.x - 40)) or f" {middle.x} " in part
    )
    assert not middle.y <= level <= middle.y + 92


def test_lines_that_need_not_cross_do_not() -> None:
    layers = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    neighbours = Neighbours(layers, [(0, 5), (1, 4), (2, 3), (5, 7), (4, 8), (3, 6)])
    first, second, third = ordered(layers, neighbours)
    assert [neighbours.after[item] for item in first] == [[item] for item in second]
    assert [neighbours.after[item] for item in second] == [[item] for item in third]


def test_columns_of_one_cluster_share_a_title() -> None:
    columns = (
        GraphColumn("a", "A", "Yours"),
        GraphColumn("b", "B", "Theirs"),
        GraphColumn("c", "C", "Theirs"),
    )
    nodes = tuple(GraphNode(id=name, column=name, kind="K", name=name) for name in "abc")
    layout = _layout(Graph(columns=columns, nodes=nodes))
    assert [side.text for side in layout.sides] == ["Yours", "Theirs"]
    assert layout.sides[1].end == layout.boxes[2].x + (layout.sides[0].end - layout.sides[0].x)


def test_what_would_overlap_moves_apart_to_both_sides(chain: Chain) -> None:
    wired = wire(chain("ok", "ok"))
    laying = _LayingOut(collapse(wired, breaks(wired)), 92)
    first, second, third = laying._stacked([0, 1, 0], [5.0, 5.0, 5.0])
    assert (first + third) / 2 == second == 5
    assert third - second == second - first > 92
    assert laying._stacked([0, 1, 0], [0.0, 500.0, 510.0])[0] == 0
