"""A bare aiohttp handler: the limit of what the front door can answer.

It is served as the door is, by an application without an access log on uvloop; it knows of
nobody, asks nothing and adds no header. Its bodies have the sizes of the door's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import uvloop
from aiohttp import web
from aiohttp.typedefs import Handler


class BareServer(NamedTuple):
    """A process that answers a body of each size at ``/SIZE``."""

    pid: int
    port: int


async def serve(sizes: list[int]) -> None:
    """Serve bodies of these sizes until the process ends."""
    app = web.Application()
    app.add_routes(web.get(f"/{size}", _answering(size)) for size in sizes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _answering(size: int) -> Handler:
    body = b'"' + (size - 2) * b"v" + b'"'

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    return answer


@asynccontextmanager
async def bare_server(*sizes: int) -> AsyncIterator[BareServer]:
    """Run one in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, *map(str, sizes)), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield BareServer(process.pid, int(await process.stdout.readline()))
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    uvloop.run(serve([int(size) for size in sys.argv[1:]]))
