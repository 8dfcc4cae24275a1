"""People sign in at the embedded issuer's form, and out again, in a real browser."""

from __future__ import annotations

from tests.support.browser import Browsing, looked_at
from tests.support.market import Market


async def test_a_person_signs_in_and_out(browser: Browsing, market: Market) -> None:
    page = await browser.page()
    await page.goto(f"{market.url}/bindings")
    await looked_at(page)
    await page.get_by_role("link", name="Sign in").click()
    await looked_at(page)
    await page.get_by_label("Name").fill(market.ada.name)
    await page.get_by_label("Password").fill(market.ada.password)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{market.url}/bindings?*")
    await page.get_by_role("heading", name="My bindings").wait_for()
    await looked_at(page)
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("heading", name="Sign in").wait_for()
    await page.goto(f"{market.url}/bindings")
    await page.get_by_role("heading", name="Sign in").wait_for()
