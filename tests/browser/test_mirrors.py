"""Pages of kbind v2 in one's own console: Connections, bindings, and an object in conflict."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.browser.screenshots import MIRRORED, PAGES, Studio
from tests.support.browser import Browsing, focused, looked_at
from tests.support.kbindshown import SHOP, TAKEN, furnished
from tests.support.ownconsole import console
from tests.support.visits import heading


pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_each_page_can_be_read_by_all_and_reached_by_the_keyboard(
    browser: Browsing,
) -> None:
    async with AsyncExitStack() as stack:
        world, names = await furnished(stack)
        own = await stack.enter_async_context(console(world.consumer, entered=False))
        studio = Studio(browser, None, {MIRRORED: own}, names)
        for shot in PAGES:
            if shot.who == MIRRORED:
                page = await studio.shown(shot, width=1400, dark=False)
                await page.emulate_media(color_scheme="light")
                await page.set_viewport_size({"width": 1400, "height": 900})
                await looked_at(page)
                await page.emulate_media(color_scheme="dark")
                await page.set_viewport_size({"width": 360, "height": 900})
                await looked_at(page)
        await page.goto(f"{own.url}/bindings?q=ClusterBinding")
        await page.get_by_role("link", name="all", exact=True).focus()
        assert await focused(page) == "all"
        await page.keyboard.press("Enter")
        await heading(page, "ClusterBinding all")
        await page.get_by_role("link", name=f"Widget {SHOP}/{TAKEN}").focus()
        await page.keyboard.press("Enter")
        await heading(page, TAKEN)
        await page.get_by_text("ForeignObjectExists").first.wait_for()
        await browser.close()
