"""What people do in a browser, whatever page they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.market import Market

from fairlead.demo.frontdoor import Someone


if TYPE_CHECKING:
    from playwright.async_api import Page


async def sign_in(page: Page, market: Market, someone: Someone, path: str = "/") -> None:
    """Ask for a page, sign in where that is offered, and be on the page that was asked for."""
    await page.goto(f"{market.url}{path}")
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("Name").fill(someone.name)
    await page.get_by_label("Password").fill(someone.password)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("button", name="Sign out").wait_for()


async def heading(page: Page, text: str) -> None:
    """Wait until a page of this heading is there."""
    await page.get_by_role("heading", level=1, name=text, exact=True).wait_for()
