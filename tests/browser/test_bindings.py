"""My bindings, against what the provider's cluster says of them."""

from __future__ import annotations

import pytest
from tests.support.browser import Browsing, looked_at
from tests.support.lively import Lively
from tests.support.visits import heading, sign_in


pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("lively")]


async def test_each_sees_what_their_clusters_have_bound(browser: Browsing, lively: Lively) -> None:
    market = lively.market
    page, other = await browser.page(script=False), await browser.page(width=360, dark=True)
    await sign_in(page, market, market.ada, "/bindings")
    await heading(page, "My bindings")
    row = page.get_by_role("row", name="postgres")
    await looked_at(page)
    assert lively.ada in (await row.text_content() or "")
    await sign_in(other, market, market.cem, "/bindings")
    await other.get_by_text("You have bound nothing yet").wait_for()
    await looked_at(other)
    await other.get_by_role("main").get_by_role("link", name="catalogue").click()
    await heading(other, "Catalogue")
    await page.set_viewport_size({"width": 360, "height": 900})
    await looked_at(page)
