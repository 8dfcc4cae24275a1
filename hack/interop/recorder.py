"""A proxy between a command line and a server, which keeps what they say to each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from hack.interop.recording import Exchange, recorded
from multidict import CIMultiDict
from yarl import URL


_HOPS = {"connection", "content-length", "transfer-encoding", "content-encoding"}
_KEPT = ("/api/", "/exports")
"""How paths begin that are kept, besides the page's own; the issuer's are not."""


class Recording:
    """A line of JSON for each exchange that is unlike those before, in a file of this name."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: dict[str, None] = {}

    def keep(self, found: Exchange) -> None:
        """Keep an exchange."""
        self._lines.setdefault(json.dumps(msgspec.to_builtins(found)))

    def write(self) -> None:
        """Write all down."""
        self._file.write_text("".join(f"{line}\n" for line in self._lines))


@asynccontextmanager
async def recording(port: int, behind: int, kept: Recording) -> AsyncIterator[None]:
    """Hand over what comes to a port of loopback, and write it down at the end.

    Args:
        port: where it listens.
        behind: the server's port.
        kept: what is said.
    """
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(cookie_jar=jar, auto_decompress=False) as session:

        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            headers = CIMultiDict(_through(request.headers))
            url = URL(f"http://127.0.0.1:{behind}{request.raw_path}", encoded=True)
            try:
                async with session.request(
                    request.method,
                    url,
                    headers=headers,
                    data=body or None,
                    allow_redirects=False,
                    skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                ) as answer:
                    content = await answer.read()
            except aiohttp.ClientError:
                return web.Response(status=502)
            if request.path.startswith(_KEPT) or request.path == "/":
                asked = (request.method, request.raw_path, request.headers, body)
                found = recorded(
                    f"http://127.0.0.1:{port}", asked, (answer.status, answer.headers, content)
                )
                kept.keep(found)
            told = CIMultiDict(_through(answer.headers))
            return web.Response(status=answer.status, body=content, headers=told)

        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{rest:.*}", handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            yield
        finally:
            await runner.cleanup()
            await asyncio.to_thread(kept.write)


def _through(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """The headers that are not about the connection; Host stays, for servers that look at it."""
    return [(name, value) for name, value in headers.items() if name.lower() not in _HOPS]
