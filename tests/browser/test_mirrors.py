"""Pages of kbind v2 in one's own console: a Connection, bindings, and an object in conflict."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.support.browser import WIDTHS, Browsing, focused, looked_at
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import KbindWorld
from tests.support.ownconsole import console
from tests.support.visits import heading


pytestmark = pytest.mark.asyncio(loop_scope="session")


async def furnished(stack: AsyncExitStack) -> tuple[KbindWorld, dict[str, str]]:
    """A consumer with a Connection that works, and one that does not; and the paths of pages."""
    world = KbindWorld(stack)
    await world.start()
    bound = BoundWorld(world)
    api = await world.provider.offer()
    await world.provider.offer("gadgets")
    await bound.accept("widgets")
    await world.konnector()
    await world.connect(await bound.kubeconfig("widgets"))
    await world.connect(b"nonsense", "broken")
    resource = widgets(world.provider)
    related = [
        {"resource": "secrets", "direction": "FromProvider", "selector": {"names": ["login"]}},
        {"resource": "configmaps", "direction": "FromConsumer", "selector": {"names": ["ca"]}},
    ]
    await bound.bind("all", api, relatedResources=related)
    await namespace(world.consumer, "shop")
    await bound.bind("late", api, connection="broken", namespace="shop")
    await bound.says("Ready", "True")
    await namespace(world.provider.admin, "shop")
    await world.provider.admin.create(resource, widget(resource, "taken", "shop"))
    for name in ("photos", "taken", "videos"):
        await world.consumer.create(resource, widget(resource, name, "shop"))
    await bound.says("Conflicts", "True")
    return world, {
        "bindings": "/bindings",
        "connection": f"/bindings/connections.core.kbind.io/-/{world.name}",
        "broken": "/bindings/connections.core.kbind.io/-/broken",
        "clusterbinding": "/bindings/clusterbindings.core.kbind.io/-/all",
        "binding": "/bindings/bindings.core.kbind.io/shop/late",
        "object": f"/objects/{api}/shop/taken",
        "topology": "/topology",
        "overview": "/overview",
        "objects": "/",
    }


async def test_each_page_is_accessible_and_fits_a_telephone(browser: Browsing) -> None:
    async with AsyncExitStack() as stack:
        world, paths = await furnished(stack)
        async with console(world.consumer, entered=False) as own:
            for width in (WIDTHS[0], WIDTHS[-1]):
                page = await browser.page(width=width, dark=width == WIDTHS[0])
                await page.goto(await own.console.link())
                for path in paths.values():
                    await page.goto(f"{own.url}{path}")
                    await page.locator(".state").first.wait_for()
                    await looked_at(page)
            # The way from the list to an object, by the keyboard alone.
            await page.goto(f"{own.url}/bindings?q=ClusterBinding")
            await page.get_by_role("link", name="all", exact=True).focus()
            assert await focused(page) == "all"
            await page.keyboard.press("Enter")
            await heading(page, "ClusterBinding all")
            await page.get_by_role("link", name="Widget shop/taken").focus()
            await page.keyboard.press("Enter")
            await heading(page, "taken")
            await page.get_by_text("ForeignObjectExists").first.wait_for()
            await browser.close()
