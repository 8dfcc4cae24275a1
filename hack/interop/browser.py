"""A person with a browser, who signs in where a command line sends them."""

from __future__ import annotations

import re
from html import unescape

import aiohttp
from hack.interop.checks import CheckError
from yarl import URL


NAME = "ann"
PASSWORD = "only-for-interop"  # noqa: S105
"""What the person fills in where a form asks."""
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
