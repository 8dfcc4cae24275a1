"""The front door in a test: its options, and a server of its routes on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from tests.support.waiting import SECONDS
from yarl import URL

from fairlead.api.meta import JSON
from fairlead.portal.http.server import Lost, application
from fairlead.portal.http.serving import PortalServer
from fairlead.portal.options import ExternalURL, OIDCOptions, ServeOptions


EXTERNAL = "https://bind.example.org"


def serve_options(external: str = EXTERNAL, **more: Any) -> ServeOptions:
    """Options of a server on a free port of loopback, which a proxy makes reachable."""
    url = ExternalURL.parse(external)
    oidc = OIDCOptions(
        issuer_url="https://issuer.example.org",
        client_id="fairlead",
        callback_url=url.absolute("/api/callback"),
    )
    return ServeOptions(**{"external_url": url, "port": 0, "oidc": oidc, **more})


class Answer(msgspec.Struct, frozen=True):
    """An answer that was read to its end."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> JSON:
        found = msgspec.json.decode(self.text)
        assert isinstance(found, dict)
        return found


class Door:
    """A server that is asked by its own address."""

    def __init__(self, server: PortalServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def ask(self, path: str, method: str = "GET", **more: Any) -> Answer:
        url = URL(self.server.url + path, encoded=True)
        async with self.session.request(method, url, allow_redirects=False, **more) as response:
            return Answer(response.status, response.headers.copy(), await response.text())

    async def say(self, content: bytes) -> bytes:
        """Send these bytes and read until the server closes, in whatever way."""
        url = place_of(self.server.url)
        reader, writer = await asyncio.open_connection(*url)
        found = bytearray()
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(content)
                await writer.drain()
                async with asyncio.timeout(SECONDS):
                    while some := await reader.read(65536):
                        found += some
        finally:
            writer.close()
        return bytes(found)


def place_of(url: str) -> tuple[str, int]:
    """Host and port of an address."""
    host, _, port = url.partition("//")[2].rpartition(":")
    return host, int(port)


@asynccontextmanager
async def opened(
    options: ServeOptions,
    routes: Iterable[web.RouteDef],
    *,
    clock: Callable[[], float] = time.monotonic,
    ssl_context: ssl.SSLContext | None = None,
    lost: Lost | None = None,
) -> AsyncIterator[Door]:
    """Serve routes until the block ends."""
    server = PortalServer(options, application(options, routes, clock=clock, lost=lost))
    task = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(SECONDS):
            while server.not_ready() and not task.done():  # noqa: ASYNC110  another task's turn
                await asyncio.sleep(0.01)
        if task.done():
            await task
        connector = aiohttp.TCPConnector(ssl=ssl_context or True)
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield Door(server, session)
    finally:
        task.cancel()
        await asyncio.wait([task])
