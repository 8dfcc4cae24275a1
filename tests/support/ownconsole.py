"""``fairlead console`` in the test's process, and a browser that a person holds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import aiohttp
from tests.support.waiting import SECONDS

from fairlead.client import Client
from fairlead.portal.own import OwnConsole, administers, hosts_mirrors, listen
from fairlead.postgres.options import DEFAULT_NAMESPACE


class Page(HTMLParser):
    """A page as it was answered: its text, the rows of its tables, its fields and its stream."""

    def __init__(self, status: int, body: str, headers: Any) -> None:
        super().__init__()
        self.status = status
        self.body = body
        self.headers = headers
        self.rows: list[list[str]] = []
        self.fields: dict[str, str] = {}
        self.links: list[str] = []
        self.stream = ""
        self._told: list[str] = []
        self._cell = self._joined = False
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        # A place where a line may break is no space.
        self._joined = tag == "wbr"
        if tag == "tr":
            self.rows.append([])
        self._cell = tag in {"td", "th"} or (self._cell and tag not in {"tr", "table"})
        if tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "input" and found.get("name") and found.get("type") != "radio":
            self.fields[found["name"]] = found.get("value", "")
        self.stream = found.get("hx-sse:connect", self.stream)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._joined:
            self._told[-1] += data
        else:
            self._told.append(data)
        if self._cell and self.rows and self.rows[-1]:
            space = "" if self._joined else " "
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]}{space}{data}".split())
        self._joined = False

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._told).split())


class Shown:
    """A console that runs, and one browser."""

    def __init__(
        self, console: OwnConsole, session: aiohttp.ClientSession, printed: list[str]
    ) -> None:
        self.console = console
        self.url = console.external.origin
        self.printed = printed
        self._session = session

    async def get(self, path: str, **headers: str) -> Page:
        return await self.ask("GET", path, headers=headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Page:
        known = {"Origin": self.url, **headers}
        return await self.ask("POST", path, data=fields, headers=known)

    async def ask(self, method: str, path: str, **more: Any) -> Page:
        address = path if path.startswith("http") else self.url + path
        async with self._session.request(
            method, address, allow_redirects=False, **more
        ) as answered:
            return Page(answered.status, await answered.text(), answered.headers)

    async def once(self, path: str, *texts: str) -> Page:
        """A page, once it has these texts."""
        async with asyncio.timeout(SECONDS):
            while True:
                page = await self.get(path)
                if page.status == 200 and all(text in page.text for text in texts):
                    return page
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def stream(self, page: Page) -> AsyncIterator[AsyncIterator[str]]:
        """The messages of a page's stream, each in one piece."""
        async with self._session.get(self.url + page.stream) as answered:
            assert answered.content_type == "text/event-stream"

            async def messages() -> AsyncIterator[str]:
                told: list[str] = []
                async for line in answered.content:
                    text = line.decode().rstrip("\n")
                    if text.startswith("data: "):
                        told.append(text.removeprefix("data: "))
                    elif not text and told:
                        yield "\n".join(told)
                        told = []

            yield messages()


@contextlib.asynccontextmanager
async def console(client: Client, *, entered: bool = True) -> AsyncIterator[Shown]:
    """A console over a client; by default the browser has come in."""
    printed: list[str] = []
    with contextlib.closing(listen()) as listening:
        made = OwnConsole(
            client,
            listening,
            printed.append,
            operator_namespace=DEFAULT_NAMESPACE,
            consumers=await administers(client),
            mirrored=await hosts_mirrors(client),
        )
        task = asyncio.create_task(made.run())
        jar = aiohttp.CookieJar(unsafe=True)
        try:
            async with aiohttp.ClientSession(cookie_jar=jar) as session:
                shown = Shown(made, session, printed)
                if entered:
                    assert (await shown.get(await made.link())).status == 303
                yield shown
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
