"""The catalogue and what a template tells, as people see and search them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.browser import WIDTHS, Browsing, looked_at
from tests.support.market import Market
from tests.support.visits import heading, sign_in


if TYPE_CHECKING:
    from playwright.async_api import Page


pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_is_offered_is_found_and_read(browser: Browsing, market: Market) -> None:
    page = await browser.page(script=False)
    await sign_in(page, market, market.ada)
    await looked_at(page)
    await page.get_by_role("searchbox").fill("message BROKER")
    await page.get_by_role("searchbox").press("Enter")
    await page.get_by_role("link", name="Show all").wait_for()
    assert await page.get_by_role("heading", level=3).all_text_contents() == ["topics"]
    assert await page.get_by_role("searchbox").input_value() == "message BROKER"
    await looked_at(page)
    # All of a card leads where its title does.
    await page.get_by_text("A topic of the message broker").click(force=True)
    await heading(page, "topics")
    await looked_at(page)
    assert await page.get_by_role("row", name="partitions").count() == 1
    returned = page.get_by_role("row", name="ready")
    assert not await returned.is_visible()
    await page.get_by_text("Returned status").click()
    await returned.wait_for()
    await looked_at(page)


async def test_a_search_that_finds_nothing_says_so(browser: Browsing, market: Market) -> None:
    page = await browser.page(dark=True)
    await sign_in(page, market, market.ada, "/?q=nothing-of-the-kind")
    await page.get_by_text(
        "No template that you may bind matches “nothing-of-the-kind”."
    ).wait_for()
    await looked_at(page)
    await page.get_by_role("link", name="Show all").click()
    await page.get_by_role("link", name="postgres").wait_for()


async def test_pages_fit_each_window_in_both_themes(browser: Browsing, market: Market) -> None:
    for dark in (False, True):
        page = await browser.page(dark=dark)
        for path in ("/", "/oidc/authorize"):
            await _fits(page, market, path)
        await sign_in(page, market, market.ada)
        for path in ("/", "/?q=topics", "/templates/postgres", "/templates/none", "/bindings"):
            await _fits(page, market, path)
        back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(back.removeprefix("rgb(").partition(",")[0])
        assert (red < 64) is dark


async def test_a_page_stays_in_its_window_at_twice_the_size_of_text(
    browser: Browsing, market: Market
) -> None:
    page = await browser.page(width=720)
    await sign_in(page, market, market.ada, "/templates/buckets")
    # As if the window of 360 were zoomed, by those who have letters twice as large.
    await page.evaluate("document.documentElement.style.fontSize = '200%'")
    await looked_at(page)


async def _fits(page: Page, market: Market, path: str) -> None:
    await page.goto(f"{market.url}{path}")
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        await looked_at(page)
