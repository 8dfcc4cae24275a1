"""The tree's markup: what a page says of it, and where its links lead."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

from msgspec.structs import replace

from fairlead.portal.console.pages.looking import SeenLook
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.topology.graph import PROVIDED, Edge, Graph, GraphNode, Shown
from fairlead.portal.console.topology.tree import grow, rows
from fairlead.portal.options import ExternalURL


Chain = Callable[..., Graph]
Fleet = Callable[..., Graph]
PAGES = Pages(ExternalURL.parse("https://example.org/bind"))


def _page(graph: Graph, shown: Shown = "all") -> str:
    values = {
        "tree": grow(graph, shown),
        "table": rows(graph, shown),
        "notes": (),
        "seen": SeenLook(),
    }
    return PAGES.part("topology.html", values)


def _text(markup: str) -> str:
    return " ".join(re.sub("<[^>]*>", "", markup).split())


def test_a_chain_that_works_has_no_break(chain: Chain) -> None:
    page = _page(chain("ok", "ok", "ok"))
    assert "3 parts: 3 healthy." in page
    assert "data-cause" not in page
    assert 'class="breaks"' not in page


def test_a_break_is_told_above_and_leads_to_its_part(chain: Chain) -> None:
    graph = chain("waiting", "failed")
    failed = replace(
        graph.nodes[1],
        about="it is refused",
        helps="ask again by `fairlead bind`",
        since="2026-01-02T03:04:05Z",
    )
    page = _page(replace(graph, nodes=(graph.nodes[0], failed)))
    breaks = page[page.index('class="breaks"') : page.index('class="tree')]
    link = re.search(
        r'<a href="#([^"]*)">Service<wbr>Binding shop/<wbr>orders</a>: Reason1', breaks
    )
    assert link
    assert f'<div class="part" id="{link[1]}"' in page
    assert "it is refused" in breaks
    assert "Remedy: ask again by <code>fairlead bind</code>" in breaks
    assert 'datetime="2026-01-02T03:04:05Z"' in breaks
    assert page.count("the chain breaks here") == 1
    assert page.count('<li class="skip-0" data-cut="failed">') == 1


def test_waiting_is_told_from_failing(chain: Chain) -> None:
    page = _page(chain("waiting", "waiting", "ok"))
    assert "the chain breaks here" not in page
    assert page.count("the chain waits for this") == 1
    assert 'data-cut="waiting"' in page


def test_without_a_problem_the_page_says_so(chain: Chain) -> None:
    graph = chain("ok", "ok")
    assert "No chain has a problem." in _text(_page(graph, "problems"))


def test_a_second_parent_links_to_the_part() -> None:
    nodes = tuple(
        GraphNode(id=name, column=column, kind="K", name=name)
        for name, column in (("a", "service"), ("b", "service"), ("c", "role"))
    )
    edges = (Edge(source="a", target="c"), Edge(source="b", target="c"))
    page = _page(Graph(nodes=nodes, edges=edges))
    (link,) = re.findall(r'<a href="#([^"]*)" title="K c">c</a>', page)
    assert page.count(f'id="{link}"') == 1
    assert page.count('<div class="part"') == 3


def test_folds_and_the_table_are_closed_and_tell_what_is_in_them(fleet: Fleet) -> None:
    page = _page(fleet(480, frozenset({3})))
    assert not re.search(r"<details[^>]* open", page)
    summaries = re.findall("<summary>(.*?)</summary>", page, re.DOTALL)
    texts = [_text(markup) for markup in summaries]
    assert texts[:2] == [
        "238 more of Bucket 238 healthy",
        "238 more of Database 238 healthy",
    ]
    assert texts[-1] == "Topology as a table"


def test_a_binding_does_not_repeat_its_cluster_and_an_object_has_its_namespace() -> None:
    nodes = (
        GraphNode(id="c", column="cluster", kind="Cluster", name="shop", title="shop (uid)"),
        GraphNode(id="e", column="export", kind="Binding", name="postgres", where="shop"),
        GraphNode(id="o", column="object", kind="Bucket", name="photos", where="shop"),
    )
    edges = (Edge(source="c", target="e"), Edge(source="e", target="o"))
    page = _page(Graph(columns=PROVIDED, nodes=nodes, edges=edges))
    assert re.findall(r'<span class="kind">(\w+) <span class="where">([^<]*)</span>', page) == [
        ("Bucket", "shop")
    ]
    assert '<span class="name" title="shop (uid)">shop</span>' in page


def test_names_break_after_their_dots_alone() -> None:
    node = GraphNode(id="a", column="role", kind="Kind", name="buckets.example.org")
    assert "buckets.<wbr>example.<wbr>org" in _page(Graph(nodes=(node,)))


def test_the_style_sheets_have_each_class_of_the_tree(fleet: Fleet) -> None:
    style = "".join(
        (files("fairlead.portal.console") / "static" / name).read_text()
        for name in ("console.css", "topology.css")
    )
    page = _page(fleet(480, frozenset({3})))
    names = {name for value in re.findall(r'class="([^"]*)"', page) for name in value.split()}
    assert names <= set(re.findall(r"\.([a-z][a-z0-9-]*)", style))


def test_a_part_leads_to_its_page_below_the_servers_path(chain: Chain) -> None:
    graph = chain("failed")
    node = replace(graph.nodes[0], href="/objects/orders", title="all of its name")
    page = _page(replace(graph, nodes=(node,)))
    # In the tree and in the table.
    assert page.count('<a href="/bind/objects/orders">') == 2
    assert 'title="all of its name"' in page
    links = re.findall(r'href="([^"]*)"', page)
    assert all(link.startswith(("#", "/bind/")) for link in links)
