"""A person's browser: it follows redirects, keeps cookies, and fills in a form."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin

import aiohttp

from fairlead.demo.steps import expect


_PAGE_SECONDS = 60.0
"""Seconds that a page may take."""


class _Form(HTMLParser):
    """Form of a page: the URL that it is sent to, and the values of its fields."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = attributes.get("action", "")
        elif tag == "input" and attributes.get("name"):
            self.fields[attributes["name"]] = attributes.get("value", "")


async def sign_in(url: str, name: str, password: str) -> None:
    """Open an address, fill in the form that follows, and follow the redirects of its answer.

    Raises:
        StoryError: the page has no form, or a server refuses the input.
        ClientError: a server does not answer.
    """
    async with aiohttp.ClientSession(
        # Browsers keep cookies of addresses, too.
        cookie_jar=aiohttp.CookieJar(unsafe=True),
        timeout=aiohttp.ClientTimeout(total=_PAGE_SECONDS),
    ) as session:
        async with session.get(url) as page:
            form, where = _Form(await page.text()), str(page.url)
            status, origin = page.status, str(page.url.origin())
        expect(status == 200 and form.action, f"{where} answers {status} and shows no form")
        fields = form.fields | {"name": name, "password": password}
        # Browsers send an Origin with a form, and aiohttp does not: the issuer checks one that is
        # there.
        async with session.post(
            urljoin(where, form.action), data=fields, headers={"Origin": origin}
        ) as page:
            expect(page.ok, f"{page.url.path} answers {page.status} to {name}")
