"""The overview of ``fairlead console``, from one look."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.api.test_verdict import BINDING, c, obj

from fairlead.konnector.commands.overview.rows import FetchedBinding
from fairlead.konnector.commands.presence import KonnectorStop
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.looking import Looks
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.viewing import AskedPage
from fairlead.portal.console.sources.cluster import OwnCluster
from fairlead.portal.console.sources.look import SEEN_TOPIC, OwnSight
from fairlead.portal.console.sources.rows import binding_thing, bound_of
from fairlead.portal.console.views import OverviewPage
from fairlead.portal.model.lists import BindingDetail, BindingRow, ObjectRow
from fairlead.portal.options import ExternalURL


BOUND = BindingDetail(
    row=BindingRow(
        cluster="shop",
        binding="widgets",
        at="/bindings/widgets",
        about="no konnector runs",
        helps="start `konnector`",
        state="failed",
        since="2026-01-01T00:00:00Z",
        sync="?/?",
        silent_since="2026-01-02T00:00:00Z",
    )
)
LOGIN = ObjectRow(
    kind="PostgresAccess",
    namespace="shop",
    name="orders",
    resource="postgresaccesses.access.k8s.delta10.nl",
    state="failed",
    about="ServerUnreachable: <no answer>",
    since="2026-01-03T00:00:00Z",
    helps="look at the server",
    at="/objects/postgresaccesses.access.k8s.delta10.nl/shop/orders",
)


async def test_it_counts_bindings_and_objects_and_names_what_failed() -> None:
    healthy = ObjectRow(
        kind="Widget", namespace="shop", name="w", resource="widgets.example.org", state="ok"
    )

    async def look() -> OwnSight:
        return OwnSight(
            (BOUND,), (binding_thing(BOUND.row), LOGIN, healthy), ("You may not list x.",)
        )

    pages = Pages(ExternalURL.parse("http://127.0.0.1:8088"), leave="")
    none, looks = cast("Any", None), Looks(Hub())
    await looks.see(SEEN_TOPIC, look)
    source = OwnCluster(none, none, looks, "", none)
    values = await OverviewPage(source).values((), AskedPage("/overview"))
    text = pages.part("overview.html", values)
    assert 'data-title="(2) Overview"' in text
    assert 'href="/bindings?state=failed"' in text
    login = "/objects/postgresaccesses.access.k8s.delta10.nl/shop/orders"
    # The latest first, and each binding with a silent konnector again below.
    assert text.index(login) < text.index('href="/bindings/widgets"') < text.index("Silent")
    assert text.count('href="/bindings/widgets"') == 2
    assert "Server<wbr>Unreachable: &lt;no answer&gt;" in text
    assert "start <code>konnector</code>" in text
    assert 'datetime="2026-01-02T00:00:00Z"' in text.partition("Silent")[2]
    assert "You may not list x." in text


@pytest.mark.parametrize(
    ("traces", "since"),
    [
        ({"reached": True}, None),
        ({"absence": "no konnector runs"}, ""),
        (
            {"stop": KonnectorStop("its Lease ended", "2026-01-04T00:00:00Z")},
            "2026-01-04T00:00:00Z",
        ),
    ],
    ids=["at work", "absent", "stopped"],
)
def test_a_binding_says_since_when_its_konnector_is_silent(
    traces: dict[str, Any], since: str | None
) -> None:
    binding = obj(BINDING, c("Ready", "True"))
    assert bound_of(FetchedBinding(binding, **traces), {}).row.silent_since == since
