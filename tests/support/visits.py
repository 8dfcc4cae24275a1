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


async def cells(page: Page, table: str) -> list[list[str]]:
    """The texts of a table's rows, by the name of the region that it stands in."""
    rows: list[list[str]] = await page.get_by_role("region", name=table, exact=True).evaluate(
        """region => [...region.querySelectorAll("tbody tr")].map(
          row => [...row.cells].map(cell => cell.innerText.replace(/\\s+/g, " ").trim()))"""
    )
    return rows


async def unfold(page: Page, summary: str) -> None:
    """Open a fold by its summary."""
    await page.locator("summary").filter(has_text=summary).click()


async def times(page: Page, table: str) -> list[list[str]]:
    """The exact times in a table's rows."""
    rows: list[list[str]] = await page.get_by_role("region", name=table, exact=True).evaluate(
        """region => [...region.querySelectorAll("tbody tr")].map(
          row => [...row.querySelectorAll("time")].map(time => time.dateTime))"""
    )
    return rows


async def stays(page: Page) -> None:
    """Mark a page as it is loaded, for :func:`stayed`."""
    await page.evaluate("() => { window.stays = true; }")


async def stayed(page: Page) -> bool:
    """Whether a page was not loaded anew since it was marked."""
    return bool(await page.evaluate("() => window.stays === true"))
