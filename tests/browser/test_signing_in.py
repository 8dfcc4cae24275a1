"""People sign in at the embedded issuer's form, and out again, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.browser import Browsing, looked_at
from tests.support.market import Market
from tests.support.visits import heading, sign_in


if TYPE_CHECKING:
    from playwright.async_api import Page, Request


pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
async def test_a_person_signs_in_and_out(browser: Browsing, market: Market, script: bool) -> None:
    page = await browser.page(script=script)
    await page.goto(f"{market.url}/bindings")
    await looked_at(page)
    await page.get_by_role("link", name="Sign in").click()
    await looked_at(page)
    sent: list[Request] = []
    page.on("request", lambda request: sent.append(request))  # noqa: PLW0108  playwright marks it
    await page.get_by_label("Name").fill(market.ada.name)
    await page.get_by_label("Password").fill(market.ada.password)
    await page.get_by_role("button", name="Sign in").click()
    # The page that was asked for, and not the first.
    await heading(page, "My bindings")
    assert page.url == f"{market.url}/bindings"
    await looked_at(page)
    (form,) = [one for one in sent if one.method == "POST"]
    # The issuer's page may tell no one where it is: its form is of no origin.
    assert (await form.all_headers())["origin"] == "null"
    for one in sent:
        assert market.ada.password not in one.url
    await page.get_by_role("button", name="Sign out").click()
    await heading(page, "Sign in")
    await page.goto(f"{market.url}/bindings")
    await heading(page, "Sign in")
    # Nothing of it is left to come back to.
    await page.go_back()
    await heading(page, "Sign in")


async def test_a_wrong_password_is_told_beside_the_form(browser: Browsing, market: Market) -> None:
    page = await browser.page()
    await page.goto(market.url)
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("Name").fill(market.ada.name)
    await page.get_by_label("Password").fill(market.ben.password)
    await page.get_by_label("Password").press("Enter")
    told = page.get_by_role("alert")
    await told.wait_for()
    assert await told.text_content() == "Wrong name or password."
    assert await page.get_by_label("Name").input_value() == market.ada.name
    await looked_at(page)
    # The focus is where the next try begins.
    await page.keyboard.type(market.ada.password)
    await page.keyboard.press("Enter")
    await heading(page, "Catalogue")


async def test_a_page_of_the_issuer_that_no_sign_in_leads_to(
    browser: Browsing, market: Market
) -> None:
    page = await browser.page(dark=True, width=360)
    await page.goto(f"{market.url}/oidc/authorize")
    await heading(page, "No sign-in")
    await looked_at(page)


async def test_two_people_in_two_browsers(browser: Browsing, market: Market) -> None:
    ada, ben, cem = [await browser.page() for _ in range(3)]
    await sign_in(ada, market, market.ada)
    await sign_in(ben, market, market.ben)
    await sign_in(cem, market, market.cem)
    assert await _offered(ada) == ["postgres", "buckets", "topics", "mailboxes"]
    assert await _offered(ben) == ["topics"]
    assert await _offered(cem) == []
    await cem.get_by_text("You may not bind any template yet").wait_for()
    await ben.goto(f"{market.url}/templates/buckets")
    await heading(ben, "There is no template buckets for you")
    await looked_at(ben)
    # One who leaves takes no other along.
    await ben.get_by_role("button", name="Sign out").click()
    await heading(ben, "Sign in")
    await ada.reload()
    await heading(ada, "Catalogue")


async def _offered(page: Page) -> list[str]:
    await heading(page, "Catalogue")
    return await page.get_by_role("heading", level=3).get_by_role("link").all_text_contents()
