"""``python -m tests.browser.screenshots --out DIR``: pages in both themes and three widths.

A row of ``PAGES`` is a page, and ``furnish`` makes what is seen on them.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog
from tests.support.browser import WIDTHS, Browsing, browsing, chromium, looked_at
from tests.support.market import Market, open_market
from tests.support.visits import sign_in

from fairlead.demo.frontdoor import Someone


if TYPE_CHECKING:
    from playwright.async_api import Page


class Shot(msgspec.Struct, frozen=True):
    """A page: its path, who looks at it, and what to do there first; "" signs in as no one."""

    name: str
    path: str
    who: str = "ada"
    then: Callable[[Page, Market], Awaitable[None]] | None = None


async def _to_issuer(page: Page, market: Market) -> None:
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("Password").wait_for()


async def _refused(page: Page, market: Market) -> None:
    await _to_issuer(page, market)
    await page.get_by_label("Name").fill("ada")
    await page.get_by_label("Password").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("alert").wait_for()


PAGES = (
    Shot("sign-in", "/", who=""),
    Shot("issuer", "/", who="", then=_to_issuer),
    Shot("issuer-refused", "/", who="", then=_refused),
    Shot("issuer-no-request", "/oidc/authorize", who=""),
    Shot("catalogue", "/"),
    Shot("catalogue-search", "/?q=topic"),
    Shot("catalogue-nothing-found", "/?q=nothing"),
    Shot("catalogue-empty", "/", who="cem"),
    Shot("template", "/templates/buckets"),
    Shot("template-postgres", "/templates/postgres"),
    Shot("template-missing", "/templates/none"),
    Shot("bindings", "/bindings"),
    Shot("bindings-empty", "/bindings", who="cem"),
)


async def furnish(market: Market) -> None:
    """Have something to see on every page."""
    await market.bind(market.ada)
    await market.order("orders", "reports")


async def take(
    browser: Browsing, market: Market, out: Path, shots: Sequence[Shot], widths: Sequence[int]
) -> list[str]:
    """Take all pictures of these pages; what tests would find on them comes back."""
    found: list[str] = []
    for dark in (False, True):
        for width in widths:
            pages: dict[str, Page] = {}
            for shot in shots:
                page = pages.get(shot.who) or await browser.page(width=width, dark=dark)
                if shot.who and shot.who not in pages:
                    await sign_in(page, market, _someone(market, shot.who))
                    pages[shot.who] = page
                await page.goto(f"{market.url}{shot.path}")
                if shot.then is not None:
                    await shot.then(page, market)
                file = out / f"{shot.name}-{width}-{'dark' if dark else 'light'}.png"
                await page.screenshot(path=file, full_page=True)
                try:
                    await looked_at(page)
                except AssertionError as error:
                    found.append(f"{file.name}: {error}")
    return found


def _someone(market: Market, name: str) -> Someone:
    return next(one for one in market.door.people if one.name == name)


def main(arguments: list[str] | None = None) -> int:
    """Take the pictures that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the pictures")
    parser.add_argument("--only", nargs="*", default=[], help="names of pages; all by default")
    parser.add_argument("--widths", nargs="*", type=int, default=WIDTHS, help="in pixels")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    shots = [one for one in PAGES if not given.only or one.name in given.only]
    with structlog.testing.capture_logs():
        found = asyncio.run(_take(given.out, shots, given.widths))
    for one in found:
        print(one)
    return 1 if found else 0


async def _take(out: Path, shots: Sequence[Shot], widths: Sequence[int]) -> list[str]:
    async with open_market() as market, browsing(chromium()) as browser:
        await furnish(market)
        return await take(browser, market, out, shots, widths)


if __name__ == "__main__":
    raise SystemExit(main())
