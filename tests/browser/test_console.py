"""The console at work: what fails, what waits, what changes on open pages, and how it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.screenshots import OWN, PAGES, PROVIDER, STRANGER, Shot, Studio
from tests.support.browser import Browsing, fits, looked_at
from tests.support.e2e import SHOP
from tests.support.lively import BUCKETS, FAILING, Lively, bucket
from tests.support.ownconsole import console
from tests.support.visits import cells, heading, sign_in, stayed, stays, unfold
from tests.support.waiting import gone

from fairlead.api.kubebind import APISERVICEEXPORTS, CLUSTER_BINDING_NAME, CLUSTERBINDINGS
from fairlead.api.postgresaccess import POSTGRESACCESSES


if TYPE_CHECKING:
    from playwright.async_api import Page, Route

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("lively")]
ACCESSES = POSTGRESACCESSES.group_resource
_KNOWN = ("sign-in", "issuer", "catalogue", "template")
"""The beginnings of the names of pages that other tests look at in all windows."""


async def row(page: Page, table: str, *texts: str) -> str:
    """The row of a table that has these texts, once there is one."""
    found = page.get_by_role("region", name=table, exact=True).locator("tbody tr")
    for text in texts:
        found = found.filter(has_text=text)
    await found.first.wait_for()
    return " ".join((await found.first.inner_text()).split())


@pytest.mark.parametrize("whose", ["ada", "ben", "cem", "olga", OWN, PROVIDER, STRANGER])
async def test_each_page_can_be_read_by_all_in_all_windows(
    browser: Browsing, lively: Lively, whose: str
) -> None:
    async with (
        console(lively.market.consumer.admin, entered=False) as own,
        console(lively.market.provider.admin, entered=False) as provider,
    ):
        studio = Studio(browser, lively, {OWN: own, PROVIDER: provider})
        for shot in PAGES:
            if shot.who == whose and not shot.name.startswith(_KNOWN):
                await _looked_at(studio, shot)
        await browser.close()


async def _looked_at(studio: Studio, shot: Shot) -> None:
    page = await studio.shown(shot, width=1400, dark=False)
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1400, "height": 900})
    await looked_at(page)
    await page.set_viewport_size({"width": 800, "height": 900})
    await fits(page)
    await page.emulate_media(color_scheme="dark")
    await page.set_viewport_size({"width": 360, "height": 900})
    await looked_at(page)


async def test_what_fails_is_told_from_what_waits_and_what_helps_stands_beside_it(
    browser: Browsing, lively: Lively
) -> None:
    page = await browser.page(script=False)
    await sign_in(page, lively.market, lively.market.ada, "/bindings")
    found = await row(page, "Bindings", "postgres")
    # Failing objects are counted beside the binding, which is well, and are a link away.
    assert "healthy" in found
    assert "✕ 1 failed" in await _signs(page, "postgres")
    found = await row(page, "Bindings", lively.new)
    assert "waiting" in found
    assert "see whether the konnector runs" in found
    await page.get_by_role("link", name="1 failed").click()
    await heading(page, "postgres")
    found = await row(page, "Objects", FAILING)
    assert "failed" in found
    assert "create the database, or correct spec.grants" in found
    await page.get_by_role("link", name=FAILING).click()
    await heading(page, FAILING)
    answer = " ".join((await page.locator(".answer").inner_text()).split())
    assert "It waits for PostgreSQL role" in answer
    assert "DatabaseNotFound: " in answer
    assert "Remedy: " in answer
    assert "create the database, or correct spec.grants" in answer
    # What goes well while False is not told as broken, and what fails while True is not as well.
    await page.locator("summary").filter(has_text="InProgress").click()
    # It has no state of its own: a fact.
    assert (await row(page, "Other conditions", "InProgress")).startswith("InProgress False")
    assert "failed" in await row(page, "Conditions", "Reconciling")
    await page.goto(f"{lively.market.url}/bindings/{lively.ada}/buckets")
    found = await row(page, "Objects", lively.waiting)
    assert "waiting" in found
    # The kind's controller is not ours: what our reasons of the same word mean helps no one.
    assert "konnector" not in found
    assert "ask the team that runs its controller what it waits for" in found


async def _signs(page: Page, name: str) -> str:
    """The states of a binding's row, with the signs that are before them."""
    found: list[str] = (
        await page.get_by_role("row", name=name)
        .locator(".state")
        .evaluate_all(
            """all => all.map(one =>
          getComputedStyle(one, "::before").content.split('"')[1].trim() + " "
            + one.textContent.trim())"""
        )
    )
    return " ".join(found)


async def test_timeline_of_an_object_tells_the_newest_first(
    browser: Browsing, lively: Lively
) -> None:
    page = await browser.page()
    at = f"/objects/{lively.ada}/{ACCESSES}/{lively.shop}/orders"
    await sign_in(page, lively.market, lively.market.ada, at)
    await heading(page, "orders")
    told = await page.locator(".timeline li").all_inner_texts()
    moments = await page.locator(".timeline time").evaluate_all("all => all.map(t => t.dateTime)")
    assert moments == sorted(moments, reverse=True)
    assert len(moments) == len(told)
    text = " ".join(" ".join(told).split())
    for expected in ("created", "fairlead-postgres", "Ready is True"):
        assert expected in text


async def test_topology_has_each_row_in_its_tree_and_marks_where_a_chain_breaks(
    browser: Browsing, lively: Lively
) -> None:
    page = await browser.page()
    await sign_in(page, lively.market, lively.market.ada, "/topology")
    await heading(page, "Topology")
    table = page.get_by_role("region", name="Topology as a table", exact=True)
    assert not await table.is_visible()
    # Seen without a click, and first.
    mark = page.locator(".part[data-cause]").first
    assert await mark.is_visible()
    assert "DatabaseNotFound" in await mark.inner_text()
    assert "the chain breaks here" in await mark.inner_text()
    assert await page.locator(".part").first.get_attribute("data-state") != "unknown"
    await page.locator(".breaks").get_by_role("link", name=f"Role {FAILING}").click()
    assert await page.locator(".part:target").get_attribute("data-cause") is not None
    await unfold(page, "Topology as a table")
    rows = await cells(page, "Topology as a table")
    assert await page.locator(".part").count() == len(rows)
    # A part leads to its page.
    await page.locator(".part").filter(has_text="photos").click()
    await heading(page, "photos")
    await page.goto(f"{lively.market.url}/topology?shown=problems")
    await unfold(page, "Topology as a table")
    fewer = await cells(page, "Topology as a table")
    assert {line[0] for line in fewer} < {line[0] for line in rows}
    assert not [line for line in fewer if line[0].endswith("/backups")]
    assert [line for line in fewer if line[0].endswith(f"/{FAILING}")]


async def test_a_change_appears_on_all_open_pages_and_goes_again(
    browser: Browsing, lively: Lively
) -> None:
    market = lively.market
    pages = {}
    for name, path in (
        ("list", "/bindings"),
        ("binding", f"/bindings/{lively.ada}/buckets"),
        ("object", f"/objects/{lively.ada}/{BUCKETS.group_resource}/{lively.shop}/uploads"),
        ("topology", "/topology"),
    ):
        pages[name] = await browser.page()
        await sign_in(pages[name], market, market.ada, path)
        await stays(pages[name])
    # Updates leave open what a reader has unfolded.
    await unfold(pages["topology"], "Topology as a table")
    about = "the region north is out of space"
    await lively.say("uploads", "False", "OutOfSpace", about)
    try:
        assert "1 failed" in await row(pages["list"], "Bindings", "buckets", "1 failed")
        await row(pages["binding"], "Objects", "uploads", "failed", about)
        await pages["object"].locator(".answer").filter(has_text=about).wait_for()
        await row(pages["topology"], "Topology as a table", "shop/uploads", "failed", about)
    finally:
        await lively.say("uploads", "True", "Available", "bucket uploads can be used")
    await row(pages["list"], "Bindings", "buckets", "2 healthy")
    await row(pages["binding"], "Objects", "uploads", "healthy")
    await pages["object"].locator(".answer").filter(has_text="healthy").wait_for()
    await row(pages["topology"], "Topology as a table", "shop/uploads", "healthy")
    # What is gone from a cluster is gone from its pages.
    await market.consumer.admin.create(BUCKETS, bucket("spare"))
    await row(pages["binding"], "Objects", "spare")
    await market.consumer.admin.delete(BUCKETS, "spare", SHOP)
    await gone(market.provider.admin, BUCKETS, "spare", lively.shop)
    spare = pages["binding"].get_by_role("row", name="spare")
    await spare.wait_for(state="detached")
    for page in pages.values():
        assert await stayed(page)
        await looked_at(page)


async def test_a_page_is_live_however_late_its_scripts_come(
    browser: Browsing, lively: Lively
) -> None:
    page = await browser.page()
    await sign_in(page, lively.market, lively.market.ada, "/bindings")

    async def late(route: Route) -> None:
        await page.wait_for_function("() => window.htmx")
        # What htmx has put off until the next turn is done.
        await page.evaluate("() => new Promise(then => setTimeout(then, 50))")
        await route.continue_()

    await page.route("**/hx-sse*", late)
    async with page.expect_request("**/live/bindings?*"):
        await page.reload()


async def test_a_konnector_that_falls_silent_is_told_on_open_pages(
    browser: Browsing, lively: Lively
) -> None:
    market, admin = lively.market, lively.market.provider.admin
    consumers, one, mine = [await browser.page() for _ in range(3)]
    await sign_in(consumers, market, market.olga, "/consumers")
    await sign_in(one, market, market.olga, f"/consumers/{lively.new}")
    await sign_in(mine, market, market.ada, "/bindings")
    for page in (consumers, one, mine):
        await stays(page)
    await row(consumers, "Consumers", lively.new, "waiting", "FirstHeartbeatPending")
    await lively.silence(lively.new)
    try:
        await row(consumers, "Consumers", lively.new, "failed", "HeartbeatTimeout")
        wrong = one.get_by_role("region", name="Verdict").filter(has_text="HeartbeatTimeout")
        await wrong.filter(has_text="see whether the konnector runs").wait_for()
        found = await row(mine, "Bindings", lively.new, "failed")
        assert "the last heartbeat was" in found
        assert "see whether the konnector runs" in found
    finally:
        patch = {"status": {"lastHeartbeatTime": None, "konnectorVersion": None}}
        await admin.merge_patch(
            CLUSTERBINDINGS, CLUSTER_BINDING_NAME, lively.new, patch, subresource="status"
        )
    await row(consumers, "Consumers", lively.new, "waiting")
    await row(mine, "Bindings", lively.new, "waiting")
    for page in (consumers, one, mine):
        assert await stayed(page)


async def test_an_export_that_is_refused_is_told_with_what_helps(
    browser: Browsing, lively: Lively
) -> None:
    market, admin = lively.market, lively.market.provider.admin
    page = await browser.page()
    await sign_in(page, market, market.ada, "/bindings")
    await stays(page)
    body = (await admin.get(APISERVICEEXPORTS, "buckets", lively.ada)).to_dict()
    twice = {key: body[key] for key in ("apiVersion", "kind", "spec")}
    twice["metadata"] = {"name": "again", "namespace": lively.ada}
    await admin.create(APISERVICEEXPORTS, twice)
    try:
        found = await row(page, "Bindings", "again", "failed", "BoundSchemaConflict")
        assert "one consumer can bind a resource once" in found
        await page.get_by_role("link", name="again").click()
        await heading(page, "again")
        found = await row(page, "Conditions", "ProviderInSync", "failed")
        assert "delete that export, or this one" in found
        await stays(page)
    finally:
        await admin.delete(APISERVICEEXPORTS, "again", lively.ada)
    await page.get_by_text("This binding is gone.").wait_for()
    assert await stayed(page)
