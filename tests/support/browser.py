"""Debian's Chromium for tests: pages with a guard, and what each page has to hold.

Playwright is imported where a browser is started, so that other tests go without it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.support.waiting import SECONDS


if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request


WIDTHS = (360, 800, 1400)
"""Pixels of a telephone, of a tablet or half of a screen, and of a screen."""
_HEIGHT = 900
_ABSENT = "there is no Chromium here: apt-get install --no-install-recommends chromium"
_OPTIONS: dict[str, Any] = {
    "resultTypes": ["violations"],
    # It loads style sheets once more, by script.
    "preload": False,
    # Of WCAG 2.2 AA, and not among what axe looks for by itself.
    "rules": {"target-size": {"enabled": True}},
}
_WITHOUT_TIMERS = """() => {
  if (!matchMedia("(scripting: none)").matches) return;
  window.setTimeout = (then, _, ...told) => { Promise.resolve(told).then((all) => then(...all)); };
}"""
"""For axe, which waits by timers: where script is off none ever fires."""
_TOO_WIDE = """() => {
  const page = document.documentElement, most = page.clientWidth;
  if (page.scrollWidth <= most) return [];
  const wide = [...document.body.querySelectorAll("*")].filter((one) => {
    if (one.getBoundingClientRect().right <= most + 0.5) return false;
    for (let up = one.parentElement; up; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== "visible") return false;
    return true;
  });
  const told = wide.map((one) => one.tagName.toLowerCase() + "." + one.className);
  return told.length ? told : ["page: " + page.scrollWidth + " > " + most];
}"""


class Browsing:
    """Opens pages in contexts of their own, and keeps what goes wrong in any of them.

    A request to another host than this machine is a fault, and so is an error on the console, one
    that a script has thrown, and whatever the policy of a page has refused.
    """

    def __init__(self, browser: Browser) -> None:
        self.faults: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def page(
        self,
        *,
        width: int = 1400,
        dark: bool = False,
        script: bool = True,
        scale: float = 1,
        **more: Any,
    ) -> Page:
        """A page in a new context, which shares no cookie with any other."""
        context = await self._browser.new_context(
            viewport={"width": width, "height": _HEIGHT},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            device_scale_factor=scale,
            reduced_motion="reduce",
            **more,
        )
        self._contexts.append(context)
        context.on("request", self._asked)
        context.on("console", self._told)
        context.on("weberror", lambda error: self.faults.append(f"script: {error.error}"))
        return await context.new_page()

    async def close(self) -> None:
        """Close every context, so that their last requests have been seen."""
        while self._contexts:
            await self._contexts.pop().close()

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in {"data", "blob"} or parts.hostname == "127.0.0.1":
            return
        self.faults.append(f"request to a foreign host: {request.url}")

    def _told(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        where, page = message.location["url"], message.page
        # Chromium also tells of each page whose status is not 200, such as the one to sign in.
        if page is not None and where == page.url and message.text.startswith("Failed to load"):
            return
        self.faults.append(f"console: {message.text} ({where})")


def chromium() -> str:
    """The program's path; the test is skipped where there is none, or no playwright."""
    for name in ("axe_playwright_python", "playwright"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: make browser")
    found = shutil.which("chromium")
    if found is None:
        pytest.skip(_ABSENT)
    return found


@asynccontextmanager
async def started(program: str) -> AsyncIterator[Browser]:
    """A browser with no page, until the block ends."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        # In a container there is but root, who gets no sandbox. No name is ever looked up.
        args = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        browser = await driver.chromium.launch(executable_path=program, args=args)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def browsing(browser: Browser) -> AsyncIterator[Browsing]:
    """Pages until the block ends, which fails if anything went wrong on one of them."""
    opened = Browsing(browser)
    try:
        yield opened
    finally:
        # Streams of open pages end before their server does.
        await opened.close()
    assert not opened.faults, opened.faults


async def looked_at(page: Page, *, but: Sequence[str] = ()) -> None:
    """Hold a page against what each has to be: accessible, and no wider than the window.

    ``but`` names rules of axe that count for nothing.
    """
    from axe_playwright_python.async_playwright import Axe

    await page.evaluate(_WITHOUT_TIMERS)
    # Playwright waits for scripts without end.
    async with asyncio.timeout(SECONDS):
        found = await Axe().run(page, options=_options(but))
    assert found.violations_count == 0, f"{page.url}\n{found.generate_report()}"
    await fits(page)


async def fits(page: Page) -> None:
    """Hold a page against the width of its window."""
    wide = await page.evaluate(_TOO_WIDE)
    assert not wide, f"{page.url} is too wide: {wide}"


def _options(but: Sequence[str]) -> dict[str, Any]:
    rules = {name: {"enabled": False} for name in but}
    return {**_OPTIONS, "rules": {**_OPTIONS["rules"], **rules}}


async def focused(page: Page) -> str:
    """What has the focus, by its accessible name, and that it can be seen to have it."""
    found = await page.evaluate(
        """() => {
          const one = document.activeElement, style = getComputedStyle(one);
          const box = one.getBoundingClientRect();
          const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
            && box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
          const label = one.labels && one.labels.length ? one.labels[0].textContent : "";
          const name = one.getAttribute("aria-label") || label || one.textContent || "";
          return [one === document.body ? "" : name.trim(), seen];
        }"""
    )
    name, seen = found
    assert not name or seen, f"{name} has the focus, and does not show it"
    return str(name)
