"""Binding in a real browser: for a terminal of either kind, and from the page alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support.browser import WIDTHS, Browsing, looked_at
from tests.support.market import Market
from tests.support.visits import heading, sign_in
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import BindingResponse
from fairlead.portal.client.addresses import Address, FrontDoorError
from fairlead.portal.client.backend import BackendClient
from fairlead.portal.client.handshakes import (
    Callback,
    choose_on_page,
    decode_page_response,
    with_query,
)


if TYPE_CHECKING:
    from playwright.async_api import Page


pytestmark = pytest.mark.asyncio(loop_scope="session")


class Terminal:
    """A command that waits in a task of its own, and the address that it says."""

    def __init__(self, market: Market, *, ours: bool, cluster: str) -> None:
        self._market = market
        self._cluster = cluster
        self._said: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.answer = asyncio.create_task(self._ours() if ours else self._theirs())

    async def url(self) -> str:
        return await self._said

    async def _ours(self) -> BindingResponse:
        async with BackendClient(Address(self._market.url)) as backend:
            return await choose_on_page(
                backend, self._cluster, self._said.set_result, timeout=SECONDS
            )

    async def _theirs(self) -> BindingResponse:
        async with Callback(strict=True) as callback:
            asked = {
                "session_id": callback.session_id,
                "redirect_url": callback.url,
                "consumer_id": self._cluster,
            }
            self._said.set_result(with_query(f"{self._market.url}/", asked))
            found = await callback.answer(SECONDS)
            return decode_page_response(found["binding_response"])


async def chosen(page: Page, market: Market, terminal: Terminal) -> None:
    """Follow a terminal's address, sign in, and choose."""
    await page.goto(await terminal.url())
    await heading(page, "Sign in")
    assert page.url == f"{market.url}/"
    await page.get_by_text("A terminal waits for your choice").wait_for()
    await looked_at(page)
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("Name").fill(market.ada.name)
    await page.get_by_label("Password").fill(market.ada.password)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("link", name="postgres").click()
    await page.get_by_role("link", name="Bind", exact=True).click()
    await heading(page, "Bind postgres")
    await looked_at(page)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "original"])
async def test_a_terminal_gets_what_was_agreed_to(
    browser: Browsing, market: Market, ours: bool, script: bool
) -> None:
    page = await browser.page(script=script)
    terminal = Terminal(market, ours=ours, cluster=f"cluster-{ours}-{script}")
    await chosen(page, market, terminal)
    assert not terminal.answer.done()
    await page.get_by_label("Name of the binding").fill("shop-database")
    await page.get_by_role("button", name="Agree, and send it to the terminal").click()
    await heading(page, "Done")
    response = await terminal.answer
    assert [one.metadata.name for one in response.requests] == ["shop-database"]
    assert ("binding_response" in page.url) is not ours
    await page.goto(f"{market.url}/")
    await heading(page, "Catalogue")
    assert await page.get_by_text("A terminal waits").count() == 0


async def test_a_terminal_is_told_that_it_was_sent_away(browser: Browsing, market: Market) -> None:
    page = await browser.page()
    terminal = Terminal(market, ours=True, cluster="cluster-1")
    await chosen(page, market, terminal)
    await page.get_by_role("button", name="Cancel, and tell the terminal").press("Enter")
    await heading(page, "Refused")
    with pytest.raises(FrontDoorError, match="access_denied: the person at the browser"):
        await terminal.answer


async def test_a_page_alone_binds_and_tells_what_it_waits_for(
    browser: Browsing, market: Market
) -> None:
    page = await browser.page(dark=True)
    await sign_in(page, market, market.ada, "/bind/postgres")
    await page.get_by_label("A new one").check()
    await page.get_by_role("button", name="Bind").click()
    await page.get_by_role("alert").wait_for()
    await looked_at(page)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        await looked_at(page)
    await page.get_by_label("Identity of the new cluster").fill("cluster-9")
    await page.get_by_label("Its name for people").fill("Shop")
    await page.get_by_role("button", name="Bind").press("Enter")
    await heading(page, "postgres for Shop")
    await page.get_by_text("FirstHeartbeatPending").wait_for()
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        await looked_at(page)
    async with page.expect_download() as coming:
        await page.get_by_role("button", name="Download binding-bundle.yaml").click()
    download = await coming.value
    assert download.suggested_filename == "binding-bundle.yaml"
    content = await asyncio.to_thread(Path(await download.path()).read_text)
    kinds = [one["kind"] for one in yaml.safe_load_all(content)]
    assert kinds[-1] == "APIServiceBindingBundle"
    # Once as the page stands, and not once more.
    await page.get_by_role("button", name="Download binding-bundle.yaml").click()
    await page.get_by_text("this form was sent before").wait_for()
