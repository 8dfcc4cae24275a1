"""Arbitrary graphs: all of them can be drawn, in the same way each time, as text alone."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import combinations
from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.portal.console.topology.collapse import MOST, collapse
from fairlead.portal.console.topology.drawing import draw
from fairlead.portal.console.topology.graph import CHAIN, Edge, Graph, GraphColumn, GraphNode
from fairlead.portal.console.topology.layout import MARGIN, WIDTH, lay_out
from fairlead.portal.console.topology.table import rows
from fairlead.portal.console.topology.text import cut, lines, plain, width
from fairlead.portal.console.topology.wiring import breaks, wire


HEIGHT = 92
ELEMENTS = {
    *("figure", "figcaption", "p", "ul", "li", "br", "span", "time", "div", "a"),
    *("svg", "g", "title", "text", "path", "rect", "circle"),
}
IDS = st.sampled_from([str(number) for number in range(80)])
STATES = st.sampled_from(["ok", "failed", "waiting", "unknown"])
TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["<script>x</script>", '"><img src=x onerror=y>', "]]>", "&amp;", "' style="]),
)
NODES = st.builds(
    GraphNode,
    id=IDS,
    column=st.sampled_from([*(column.name for column in CHAIN), "elsewhere", "<b>"]),
    kind=TEXTS,
    name=TEXTS,
    where=TEXTS,
    state=STATES,
    reason=TEXTS,
    about=TEXTS,
    since=TEXTS,
    helps=TEXTS,
    href=TEXTS,
)
EDGES = st.builds(Edge, source=IDS, target=IDS, state=st.one_of(st.none(), STATES), label=TEXTS)
GRAPHS = st.builds(
    Graph,
    columns=st.sampled_from(
        [CHAIN, (GraphColumn("role", "<i>", "A"), GraphColumn("service", "S", "A"))]
    ),
    nodes=st.lists(NODES, max_size=90).map(tuple),
    edges=st.lists(EDGES, max_size=120).map(tuple),
)
SHOWN = st.sampled_from(["all", "problems"])


class _Reader(HTMLParser):
    """Notes what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


@settings(deadline=None)
@given(GRAPHS, SHOWN)
def test_whatever_is_drawn_has_the_elements_of_the_template_alone(
    graph: Graph, shown: Any
) -> None:
    text = str(draw(graph, shown))
    reader = _Reader()
    reader.feed(text)
    assert reader.elements <= ELEMENTS
    assert not {name for name in reader.attributes if name.startswith("on") or name == "style"}
    assert all(link[:1] in {"/", "#"} and link[:2] != "//" for link in reader.links)
    assert len(reader.ids) == len(set(reader.ids)) <= MOST
    text.encode()


@settings(deadline=None)
@given(GRAPHS, SHOWN)
def test_each_drawing_is_well_formed_and_the_same_each_time(graph: Graph, shown: Any) -> None:
    text = draw(graph, shown)
    assert text == draw(graph, shown)
    ET.fromstring(text.replace("<br>", "<br/>"))


@settings(deadline=None)
@given(GRAPHS)
def test_no_two_parts_overlap_and_all_lie_within(graph: Graph) -> None:
    wired = wire(graph)
    picture = collapse(wired, breaks(wired))
    layout = lay_out(picture, HEIGHT)
    assert len(picture.parts) == len(layout.boxes) <= MOST
    assert sum(part.size for part in picture.parts) == len(wired.nodes)
    assert len(layout.paths) == len(picture.ties)
    for box in layout.boxes:
        assert box.x >= MARGIN
        assert box.y >= MARGIN
        assert box.x + WIDTH + MARGIN <= layout.width
        assert box.y + HEIGHT + MARGIN <= layout.height
    for one, other in combinations(layout.boxes, 2):
        assert abs(one.x - other.x) > WIDTH or abs(one.y - other.y) > HEIGHT


@settings(deadline=None)
@given(GRAPHS, SHOWN)
def test_rows_tell_of_each_part_once(graph: Graph, shown: Any) -> None:
    told = rows(graph, shown, most=40)
    assert len(told.rows) <= 40
    if shown == "all":
        assert len(told.rows) + told.left_out == len({node.id for node in graph.nodes})


@given(st.text(max_size=80), st.floats(20, 200), st.booleans())
def test_text_is_cut_to_fit(text: str, room: float, bold: bool) -> None:
    assert width(cut(text, room, 12, bold=bold), 12, bold=bold) <= room + 1e-9
    parts = lines(text, room, 12, bold=bold)
    assert len(parts) in {1, 2}
    assert all(width(part, 12, bold=bold) <= room + 1e-9 for part in parts)
    if not any("…" in part for part in parts):
        assert "".join("".join(parts).split()) == "".join(plain(text).split())
