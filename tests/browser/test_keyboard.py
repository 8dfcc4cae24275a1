"""Everything by keyboard alone: the order of Tab, where the focus is, and that it is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.browser import Browsing, focused
from tests.support.market import Market
from tests.support.visits import heading


if TYPE_CHECKING:
    from playwright.async_api import Page


pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_way_from_the_door_to_a_template_and_out_again(
    browser: Browsing, market: Market
) -> None:
    page = await browser.page()
    await page.goto(market.url)
    assert await _tabbed(page, 3) == ["Skip to content", "Fairlead", "Sign in"]
    await page.keyboard.press("Enter")
    # The issuer's form begins where people write.
    await page.get_by_label("Password").wait_for()
    assert await focused(page) == "Name"
    await page.keyboard.type(market.ada.name)
    assert await _tabbed(page, 1) == ["Password"]
    await page.keyboard.type(market.ada.password)
    await page.keyboard.press("Enter")
    await heading(page, "Catalogue")
    assert await _tabbed(page, 13) == [
        *("Skip to content", "Fairlead", "Catalogue", "Overview", "My bindings", "Topology"),
        "Sign out",
        *("Search", "Search", "postgres", "buckets", "topics", "mailboxes"),
    ]
    await page.keyboard.press("Shift+Tab")
    assert await focused(page) == "topics"
    await page.keyboard.press("Enter")
    await heading(page, "topics")
    assert await _tabbed(page, 1) == ["Skip to content"]
    await page.keyboard.press("Enter")
    # What follows is what stands in the page, and not in its head.
    assert await _tabbed(page, 6) == [
        *("Catalogue", "Bind", "Commands that bind it", "Copy the commands that bind it"),
        "Fields of Topic",
        "Returned status",
    ]
    await page.keyboard.press("Enter")
    assert await _tabbed(page, 2) == ["Status of Topic", "Example of Topic"]
    await page.goto(f"{market.url}/bindings")
    assert (await _tabbed(page, 7))[-1] == "Sign out"
    await page.keyboard.press("Enter")
    await heading(page, "Sign in")


async def test_the_focus_is_seen_in_the_dark_and_on_a_telephone(
    browser: Browsing, market: Market
) -> None:
    page = await browser.page(dark=True, width=360)
    await page.goto(f"{market.url}/oidc/authorize")
    await page.goto(market.url)
    assert await _tabbed(page, 3) == ["Skip to content", "Fairlead", "Sign in"]
    await page.keyboard.press("Enter")
    await page.get_by_label("Password").wait_for()
    assert await _tabbed(page, 2) == ["Password", "Sign in"]


async def _tabbed(page: Page, times: int) -> list[str]:
    """What has the focus after each press of Tab."""
    found = []
    for _ in range(times):
        await page.keyboard.press("Tab")
        found.append(await focused(page))
    return found
