"""What a drawing says, to those who look and to those who listen."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files

import pytest
from markupsafe import Markup
from msgspec.structs import replace

from fairlead.portal.console.topology.drawing import draw
from fairlead.portal.console.topology.graph import Edge, Graph, GraphNode


Chain = Callable[..., Graph]
Fleet = Callable[..., Graph]


def _labels(text: str) -> list[str]:
    return re.findall(r'aria-label="([^"]*)"', text)


def test_a_chain_that_stands_well_has_no_break(chain: Chain) -> None:
    text = str(draw(chain("ok", "ok", "ok")))
    assert "3 parts: 3 in order." in text
    assert 'class="break' not in text
    assert 'class="breaks"' not in text


def test_the_broken_line_is_marked_with_its_reason_beside_it(chain: Chain) -> None:
    text = str(draw(chain("waiting", "waiting", "failed", "ok")))
    assert text.count('class="line failed broken"') == 2  # the line, and the legend's
    assert text.count('<g class="break failed"') == 1
    assert '<path class="cross"' in text
    assert re.search(r'<text class="label"[^>]*>Reason2</text>', text)
    assert "ServiceBinding shop/orders does not reach Secret shop/orders: Reason2" in text


def test_waiting_is_told_from_failing(chain: Chain) -> None:
    text = str(draw(chain("waiting", "waiting", "ok")))
    assert "where a chain breaks" not in text
    assert "what the others wait for" in text
    assert '<g class="break waiting"' in text
    assert "Deployment shop/orders waits for ServiceBinding shop/orders: Reason1" in text


def test_what_breaks_a_chain_is_told_above_and_leads_to_its_part(chain: Chain) -> None:
    graph = chain("waiting", "failed")
    failed = replace(
        graph.nodes[1], about="it is refused", helps="ask again", since="2026-01-02T03:04:05Z"
    )
    graph = replace(graph, nodes=(graph.nodes[0], failed))
    text = str(draw(graph, ago=lambda since: Markup("<time>2 days after {}</time>").format(since)))
    caption = text[: text.index("</figcaption>")]
    target = re.search(r'<a href="#([^"]*)">ServiceBinding shop/orders</a>', caption)
    assert target
    assert f'id="{target[1]}"' in text
    assert "it is refused. Remedy: ask again" in caption
    assert "<time>2 days after 2026-01-02T03:04:05Z</time>" in caption
    assert '<time datetime="2026-01-02T03:04:05Z">' in draw(graph)


def test_each_part_tells_all_of_itself_in_words(chain: Chain) -> None:
    graph = chain("ok", "failed", "unknown")
    failed = replace(graph.nodes[1], about="refused", helps="ask", since="2026-01-02T03:04:05Z")
    nodes = (graph.nodes[0], failed, graph.nodes[2])
    labels = _labels(str(draw(replace(graph, nodes=nodes))))
    assert "Deployment shop/orders: in order; needs ServiceBinding shop/orders" in labels
    assert (
        "ServiceBinding shop/orders: broken: Reason1; refused; since 2026-01-02T03:04:05Z;"
        " needs Secret shop/orders; the others wait for it; remedy: ask"
    ) in labels
    assert "Secret shop/orders: not known: Reason2" in labels


@pytest.mark.parametrize(
    ("href", "linked"),
    [
        ("/objects/a", True),
        ("/a?b=c", True),
        ("", False),
        ("javascript:alert(1)", False),
        ("//elsewhere.example", False),
        ("/\\elsewhere.example", False),
        ("https://elsewhere.example", False),
    ],
)
def test_parts_are_links_to_this_server_alone(href: str, linked: bool) -> None:
    node = GraphNode(id="a", column="role", kind="Role", name="a", href=href)
    text = str(draw(Graph(nodes=(node,))))
    assert ("<a " in text) is linked
    assert ('role="img"' in text) is not linked


def test_long_names_are_cut_and_whole_in_the_title() -> None:
    name = "orders-" + "x" * 200 + "-end"
    text = str(draw(Graph(nodes=(GraphNode(id="a", column="role", kind="Role", name=name),))))
    shown = re.findall(r'<text class="name"[^>]*>([^<]*)</text>', text)
    assert len(shown) == 2
    assert shown[0].startswith("orders-")
    assert shown[1].endswith("-end")
    assert f"<title>Role {name}: not known</title>" in text


def test_collapsed_parts_are_told_with_their_counts(fleet: Fleet) -> None:
    text = str(draw(fleet(480, frozenset({3}))))
    assert "964 parts: 1 broken, 1 waiting, 962 in order." in text
    assert "several, as one" in text
    assert "Bucket and 239 more: 239 in order; needs Kind Bucket" in text


def test_many_breaks_are_counted_above(fleet: Fleet) -> None:
    text = str(draw(fleet(480, frozenset(range(100)))))
    caption = text[: text.index("</figcaption>")]
    assert caption.count("<a ") == 5
    assert "<li>and 95 more</li>" in caption


def test_nothing_to_draw_is_told() -> None:
    assert "There is nothing to draw." in draw(Graph())


def test_problems_alone_are_drawn_when_asked_for(fleet: Fleet) -> None:
    text = str(draw(fleet(480, frozenset({3})), "problems"))
    assert "5 parts: 1 broken, 1 waiting, 3 in order." in text


def test_ids_can_have_a_name_of_their_own(chain: Chain) -> None:
    assert 'id="mine-0"' in draw(chain("ok"), name="mine")


def test_two_broken_ways_to_one_part_have_one_mark() -> None:
    nodes = (
        GraphNode(id="a", column="service", kind="K", name="a", state="waiting"),
        GraphNode(id="b", column="service", kind="K", name="b", state="waiting"),
        GraphNode(id="c", column="role", kind="K", name="c", state="failed", reason="Gone"),
    )
    edges = (Edge(source="a", target="c"), Edge(source="b", target="c"))
    text = str(draw(Graph(nodes=nodes, edges=edges)))
    assert text.count('<g class="break failed"') == 1
    assert "K a, K b does not reach" not in text
    assert "K a, K b do not reach K c: Gone" in text


def test_the_style_sheet_knows_each_class_of_the_drawing(fleet: Fleet) -> None:
    style = "".join(
        (files("fairlead.portal.console") / "static" / name).read_text()
        for name in ("console.css", "topology.css")
    )
    text = str(draw(fleet(480, frozenset({3}))))
    used = {name for names in re.findall(r'class="([^"]*)"', text) for name in names.split()}
    assert used - {"break", "lines", "titles", "sample", "sign"} <= set(
        re.findall(r"\.([a-z]+)", style)
    )
