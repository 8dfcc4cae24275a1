"""A server that is given what it listens on."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
from aiohttp import web
from tests.support.portal import serve_options
from tests.support.waiting import SECONDS

from fairlead.portal.http.server import application
from fairlead.portal.http.serving import PortalServer


async def told(_request: web.Request) -> web.Response:
    return web.json_response({})


async def test_who_connects_before_it_is_there_waits() -> None:
    given = socket.create_server(("127.0.0.1", 0))
    port = given.getsockname()[1]
    started = asyncio.Event()
    options = serve_options()

    async def wait() -> None:
        await started.wait()

    async def ask() -> int:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/api/told") as answer,
        ):
            return answer.status

    app = application(options, [web.get("/api/told", told)])
    server = PortalServer(options, app, started=wait, listening=given)
    asked = asyncio.create_task(ask())
    running = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(SECONDS):
            while not server.url:  # noqa: ASYNC110  another task's turn
                await asyncio.sleep(0.01)
            assert (server.url, asked.done()) == (f"http://127.0.0.1:{port}", False)
            started.set()
            assert await asked == 200
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert given.fileno() == -1
