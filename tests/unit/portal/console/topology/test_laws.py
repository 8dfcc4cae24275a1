"""Arbitrary graphs: each has a tree and rows, the same each time, as text alone."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.portal.console.pages.looking import SeenLook
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.topology.graph import CHAIN, Edge, Graph, GraphNode
from fairlead.portal.console.topology.tree import Fold, TreeBranch, grow, rows
from fairlead.portal.options import ExternalURL


PAGES = Pages(ExternalURL.parse("https://bind.example.org"))
VOID = {"br", "wbr"}
ELEMENTS = {
    *VOID,
    *("p", "ul", "li", "span", "time", "div", "a", "code", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
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
    column=st.sampled_from([*(column for column, _ in CHAIN), "elsewhere", "<b>"]),
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
EDGES = st.builds(Edge, source=IDS, target=IDS)
GRAPHS = st.builds(
    Graph,
    columns=st.sampled_from([CHAIN, (("role", "<i>"), ("service", "S"))]),
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
        self.opened: list[str] = []

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        if tag not in VOID:
            self.opened.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "href":
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")


@settings(deadline=None)
@given(GRAPHS, SHOWN)
def test_whatever_is_shown_has_the_elements_of_the_template_alone(
    graph: Graph, shown: Any
) -> None:
    tree = grow(graph, shown)
    values = {"tree": tree, "table": rows(graph, shown), "notes": (), "seen": SeenLook()}
    text = PAGES.part("topology.html", values)
    assert text == PAGES.part("topology.html", values)
    reader = _Reader()
    reader.feed(text)
    assert not reader.opened
    assert reader.elements <= ELEMENTS
    assert not {name for name in reader.attributes if name.startswith("on") or name == "style"}
    assert all(link[:1] in {"/", "#"} and link[:2] != "//" for link in reader.links)
    assert len(reader.ids) == len(set(reader.ids))
    assert set(reader.links) >= {
        f"#{anchor.id}" for item in tree.breaks for anchor in item.anchors
    }
    text.encode()


@settings(deadline=None)
@given(GRAPHS, SHOWN)
def test_a_tree_has_each_node_once(graph: Graph, shown: Any) -> None:
    tree = grow(graph, shown)
    ids = [item.id for item in _branches(tree.branches, tree.fold)]
    assert len(ids) == len(set(ids)) == tree.tally.total


def _branches(branches: tuple[TreeBranch, ...], fold: Fold | None) -> Iterator[TreeBranch]:
    for branch in (*branches, *(fold.branches if fold else ())):
        yield branch
        yield from _branches(branch.branches, branch.fold)


@settings(deadline=None)
@given(GRAPHS, SHOWN)
def test_rows_tell_of_each_part_once(graph: Graph, shown: Any) -> None:
    told = rows(graph, shown, most=40)
    assert len(told.rows) <= 40
    if shown == "all":
        assert len(told.rows) + told.left_out == len({node.id for node in graph.nodes})
