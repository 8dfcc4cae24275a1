"""A person with a browser, who signs in, or chooses, where a command line sends them."""

from __future__ import annotations

import re
import shutil
from html import unescape
from importlib.util import find_spec

import aiohttp
from hack.interop.checks import CheckError
from yarl import URL


NAME = "ann"
PASSWORD = "only-for-interop"  # noqa: S105
"""What the person fills in where a form asks."""
_CALLED = re.compile(r"^http://127\.0\.0\.1:[0-9]+/callback/")
_FORM = re.compile(r'<form method="post" action="([^"]*)"')
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)"')


async def sign_in(url: str) -> None:
    """Open an address, fill in the form if one comes, and end at the command line.

    Raises:
        CheckError: it ends elsewhere.
    """
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        answer = await session.get(URL(url, encoded=True))
        text = await answer.text()
        if (form := _FORM.search(text)) is not None:
            where = answer.url.join(URL(unescape(form[1]), encoded=True))
            fields = {unescape(name): unescape(value) for name, value in _HIDDEN.findall(text)}
            filled = {**fields, "name": NAME, "password": PASSWORD}
            origin = str(answer.url.origin())
            answer = await session.post(where, data=filled, headers={"Origin": origin})
            text = await answer.text()
        if answer.status != 200 or not answer.url.path.startswith("/callback"):
            raise CheckError(f"the sign-in ends with {answer.status} at {answer.url.path}")


async def choose(url: str, template: str) -> str:
    """Open the page of the original and bind a template there; the address at which it ends.

    That is the command line's, with all that the page tells it.

    Raises:
        CheckError: there is no browser that runs scripts, or it ends elsewhere.
    """
    program = shutil.which("chromium")
    if program is None or find_spec("playwright") is None:
        raise CheckError("the page needs Chromium and playwright: make browser")
    from playwright.async_api import Error, async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            page = await browser.new_page()
            await page.goto(url)
            card = page.locator(".template-card").filter(
                has=page.get_by_text(template, exact=True)
            )
            await card.locator(".bind-btn").click()
            await page.locator(".modal .bind-btn").click()
            await page.wait_for_url(_CALLED)
            shown, called = await page.locator("body").inner_text(), page.url
        except Error as error:
            told = str(error).partition("\n")[0]
            raise CheckError(f"the page of the original does not end: {told}") from None
        finally:
            await browser.close()
    if "Go back to the terminal" not in shown:
        raise CheckError(f"the command line shows {shown!r:.200}")
    return called
