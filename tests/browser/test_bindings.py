"""My bindings, against what the provider's cluster says of them."""

from __future__ import annotations

from tests.support.browser import Browsing, looked_at
from tests.support.market import Market
from tests.support.visits import heading, sign_in
from tests.support.waiting import when

from fairlead.api.kubebind import CLUSTER_BINDING_NAME, CLUSTERBINDINGS


async def test_each_sees_what_their_clusters_have_bound(browser: Browsing, market: Market) -> None:
    await market.bind(market.ada)
    page, other = await browser.page(script=False), await browser.page(width=360, dark=True)
    await sign_in(page, market, market.ada, "/bindings")
    await heading(page, "My bindings")
    row = page.get_by_role("row", name="postgres")
    await looked_at(page)
    (namespace,) = [
        one.meta.namespace for one in (await market.provider.admin.list(CLUSTERBINDINGS)).items
    ]
    assert namespace in (await row.text_content() or "")
    await when(
        market.provider.admin,
        CLUSTERBINDINGS,
        CLUSTER_BINDING_NAME,
        namespace,
        until=lambda body: body.get("status", {}).get("lastHeartbeatTime"),
    )
    await sign_in(other, market, market.ben, "/bindings")
    await other.get_by_text("You have bound nothing yet").wait_for()
    await looked_at(other)
    await other.get_by_role("main").get_by_role("link", name="catalogue").click()
    await heading(other, "Catalogue")
    await page.set_viewport_size({"width": 360, "height": 900})
    await looked_at(page)
