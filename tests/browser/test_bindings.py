"""My bindings, against what the provider's cluster says of them."""

from __future__ import annotations

import pytest
from tests.support.browser import Browsing, focused, looked_at
from tests.support.lively import Lively
from tests.support.visits import heading, sign_in

from fairlead.api.postgresaccess import POSTGRESACCESSES


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


@pytest.mark.parametrize("may", [True, False], ids=["clipboard", "selection alone"])
async def test_an_example_is_copied_by_keyboard(
    browser: Browsing, lively: Lively, *, may: bool
) -> None:
    page = await browser.page(width=360, dark=True)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    if not may:
        # As where the address is not trusted, such as http to a host.
        await page.add_init_script(
            "window.reading = navigator.clipboard;"
            "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
        )
    path = f"/bindings/{lively.ada}/postgres/new/{POSTGRESACCESSES.group_resource}"
    await sign_in(page, lively.market, lively.market.ada, path)
    await heading(page, "New PostgresAccess")
    await looked_at(page)
    await page.get_by_role("region", name="Example of PostgresAccess").focus()
    await page.keyboard.press("Tab")
    assert await focused(page) == "Copy the example"
    await page.keyboard.press("Enter")
    await page.get_by_role("status").get_by_text("Copied").wait_for()
    text = await page.evaluate("(window.reading ?? navigator.clipboard).readText()")
    assert text.startswith("apiVersion: access.k8s.delta10.nl/v1\nkind: PostgresAccess\n")
    assert text.rstrip().endswith("\n    - CONNECT")
    await page.get_by_role("button", name="Copy the command", exact=True).click()
    await page.get_by_role("status").get_by_text("Copied").nth(1).wait_for()
    text = await page.evaluate("(window.reading ?? navigator.clipboard).readText()")
    assert text == "kubectl apply -f postgresaccess.yaml"


async def test_an_example_has_no_buttons_without_script(browser: Browsing, lively: Lively) -> None:
    page = await browser.page(script=False)
    path = f"/bindings/{lively.ada}/postgres/new/{POSTGRESACCESSES.group_resource}"
    await sign_in(page, lively.market, lively.market.ada, path)
    await heading(page, "New PostgresAccess")
    assert not await page.get_by_role("button", name="Copy").count()
    await looked_at(page)
