"""The sentences of one's own console where there is nothing, as far as that is so."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.looking import Looks
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.viewing import AskedPage
from fairlead.portal.console.sources.cluster import OwnCluster
from fairlead.portal.console.sources.look import SEEN_TOPIC, OwnSight
from fairlead.portal.console.sources.source import SeenGraph
from fairlead.portal.console.topology.graph import Graph
from fairlead.portal.console.views import ObjectsPage, TopologyPage
from fairlead.portal.model.lists import BindingDetail, BindingRow
from fairlead.portal.options import ExternalURL


UNBOUND = "Nothing is bound here"
UNUSED = "Create an object of a bound kind"
SECRET = "you may not list `secrets`"
BOUND = BindingDetail(row=BindingRow(cluster="shop", binding="widgets"))
CHAINS = "chains"


@pytest.mark.parametrize(
    ("template", "bound", "notes", "words"),
    [
        pytest.param("objects.html", (), (), UNBOUND, id="objects-without-a-binding"),
        pytest.param("objects.html", (), (SECRET,), "", id="objects-that-may-not-be-seen"),
        pytest.param("topology.html", (), (), UNBOUND, id="chains-without-a-binding"),
        pytest.param("topology.html", (BOUND,), (), UNUSED, id="chains-without-an-object"),
        pytest.param("topology.html", (), (SECRET,), "", id="chains-that-may-not-be-seen"),
    ],
)
async def test_what_is_not_there_is_said_only_if_it_was_looked_for(
    template: str, bound: tuple[BindingDetail, ...], notes: tuple[str, ...], words: str
) -> None:
    async def look() -> OwnSight:
        return OwnSight(bound, (), notes)

    async def chains() -> SeenGraph:
        return SeenGraph(Graph(), notes)

    none, looks = cast("Any", None), Looks(Hub())
    await looks.see(SEEN_TOPIC, look)
    await looks.see(CHAINS, chains)
    source = OwnCluster(none, none, looks, "", none)
    page = TopologyPage(source) if template == "topology.html" else ObjectsPage(source)
    values = await page.values((CHAINS,), AskedPage(page.route))
    pages = Pages(ExternalURL.parse("http://127.0.0.1:8088/sub"), leave="")
    text = pages.part(template, values)
    assert [each for each in (UNBOUND, UNUSED) if each in text] == ([words] if words else [])
    # A note is a remark of the page, with no heading of its own.
    assert text.count("You may not list <code>secrets</code>") == len(notes)
    assert "<h2" not in text
