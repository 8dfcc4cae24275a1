"""``fairlead console``: one browser by a link that is good once, and what can be undone there."""

from __future__ import annotations

import pytest
from tests.support.browser import Browsing, looked_at
from tests.support.e2e import SHOP
from tests.support.lively import BUCKETS, FAILING, LATE, Lively, bucket
from tests.support.ownconsole import console
from tests.support.visits import heading, stayed, stays
from tests.support.waiting import gone, when

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.postgresaccess import POSTGRESACCESSES


pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("lively")]


async def test_a_link_lets_one_browser_in_once(browser: Browsing, lively: Lively) -> None:
    async with console(lively.market.consumer.admin, entered=False) as own:
        page, other = await browser.page(), await browser.page()
        link = await own.console.link()
        assert own.url.startswith("http://127.0.0.1:")
        await page.goto(link)
        await heading(page, "All objects")
        # Nothing of it stays in the address.
        assert page.url == f"{own.url}/"
        await other.goto(link)
        await heading(other, "Come in from the terminal")
        await looked_at(other)
        for path in ("/bindings", "/bindings/postgres/unbind", "/topology"):
            await other.goto(f"{own.url}{path}")
            await heading(other, "Come in from the terminal")
        # A page asks for another, which the terminal alone tells.
        await other.goto(own.url)
        await other.get_by_role("button", name="Print a link in the terminal").click()
        await other.get_by_role("status").wait_for()
        (told,) = own.printed
        assert told.split()[-1] not in await other.content()
        await browser.close()


async def test_a_cluster_sees_what_its_own_side_waits_for(
    browser: Browsing, lively: Lively
) -> None:
    async with console(lively.market.consumer.admin, entered=False) as own:
        page = await browser.page()
        await page.goto(await own.console.link())
        await page.get_by_role("link", name=f"ServiceBinding {SHOP}/{LATE}").click()
        await page.get_by_text("It waits for PostgresAccess shop/warehouse").wait_for()
        await page.get_by_text("Remedy: create the service").wait_for()
        await page.goto(f"{own.url}/objects/{POSTGRESACCESSES.group_resource}/{SHOP}/{FAILING}")
        await page.get_by_text("Remedy: create the database").wait_for()
        await page.goto(f"{own.url}/topology?shown=problems")
        await page.locator(".part[data-cause]").first.wait_for()
        # A change of the cluster comes to an open page by itself.
        await page.goto(f"{own.url}/?kind=Bucket")
        await heading(page, "All objects")
        await stays(page)
        await lively.market.consumer.admin.create(BUCKETS, bucket("spare"))
        await page.get_by_role("link", name=f"Bucket {SHOP}/spare").wait_for()
        await lively.market.consumer.admin.delete(BUCKETS, "spare", SHOP)
        await page.get_by_role("link", name=f"Bucket {SHOP}/spare").wait_for(state="detached")
        assert await stayed(page)
        await gone(lively.market.provider.admin, BUCKETS, "spare", lively.shop)
        await browser.close()


async def test_an_overview_counts_in_its_title_and_filters_apply_at_once(
    browser: Browsing, lively: Lively
) -> None:
    async with console(lively.market.consumer.admin, entered=False) as own:
        page = await browser.page(width=768)
        await page.goto(await own.console.link())
        await page.get_by_role("link", name="Overview").click()
        await heading(page, "Overview")
        await page.get_by_role("link", name=f"PostgresAccess {SHOP}/{FAILING}").first.wait_for()
        await looked_at(page)
        title = await page.title()
        assert title.startswith("(")
        # An update of the page tells the title, too.
        await page.evaluate("document.title = `(99) Overview${document.title.slice(-4)}`")
        await page.evaluate("document.querySelector('[data-title]').append(' ')")
        await page.wait_for_function(
            "title => document.title.split(' ')[0] === title", arg=title.split()[0]
        )
        await page.goto(f"{own.url}/")
        state = page.get_by_label("State", exact=True)
        await state.select_option("failed")
        await page.wait_for_url("**/?*state=failed*")
        await heading(page, "All objects")
        assert await state.evaluate("box => box === document.activeElement")
        # The button is for who has no script.
        size = await page.get_by_role("button", name="Show", exact=True).bounding_box()
        assert size is not None
        assert size["width"] <= 1
        await looked_at(page)
        await page.get_by_label("Search").fill("no such")
        await page.keyboard.press("Enter")
        await page.get_by_text("None of").wait_for()
        await browser.close()


async def test_a_binding_is_taken_back_by_a_form_that_asks_for_its_name(
    browser: Browsing, lively: Lively
) -> None:
    market = lively.market
    async with console(market.consumer.admin, entered=False) as own:
        page = await browser.page()
        await page.goto(await own.console.link())
        await page.goto(f"{own.url}/bindings/buckets")
        await page.get_by_role("link", name="Unbind buckets").click()
        await heading(page, "Unbind buckets")
        await page.get_by_text("3 objects here").wait_for()
        await page.get_by_text("3 copies on the provider").wait_for()
        await looked_at(page)
        await page.get_by_label("Type the binding's name").fill("postgres")
        await page.get_by_role("button", name="Unbind").click()
        await page.get_by_role("alert").wait_for()
        await looked_at(page)
        assert (await market.consumer.admin.list(BUCKETS)).items
        await page.get_by_label("Type the binding's name").fill("buckets")
        await page.get_by_role("button", name="Unbind").press("Enter")
        await page.get_by_text("it is gone").wait_for()
        await looked_at(page)
        await gone(market.consumer.admin, APISERVICEBINDINGS, "buckets")
        await gone(market.provider.admin, BUCKETS, lively.waiting, lively.shop)
        await browser.close()
    # Other tests look for what was there.
    await market.bind(market.ada, "buckets")
    await lively.buckets()
    await when(market.consumer.admin, APISERVICEBINDINGS, "buckets", until=bool)


async def test_the_command_of_an_action_is_copied(browser: Browsing, lively: Lively) -> None:
    async with console(lively.market.provider.admin, entered=False) as own:
        page = await browser.page(permissions=["clipboard-read", "clipboard-write"])
        await page.goto(await own.console.link())
        await page.goto(f"{own.url}/consumers/{lively.ada}")
        await page.get_by_role("button", name="Copy fairlead provider revoke").click()
        await page.get_by_role("status").get_by_text("Copied").wait_for()
        command = await page.evaluate("() => navigator.clipboard.readText()")
        assert command == f"fairlead provider revoke {lively.ada}"
        await looked_at(page)
        plain = await browser.page(script=False)
        await plain.goto(await own.console.link())
        await plain.goto(f"{own.url}/consumers/{lively.ada}")
        # Without scripts there is the command, and no button that would do nothing.
        await plain.get_by_role("region", name="Command fairlead provider revoke").wait_for()
        assert await plain.get_by_role("button").count() == 0
        await looked_at(plain)
        await browser.close()
