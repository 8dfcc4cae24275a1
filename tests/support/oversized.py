"""Answers that no memory holds: packed, without an end, and of one line."""

from __future__ import annotations

import zlib
from contextlib import suppress

import aiohttp
from aiohttp import web
from tests.support.fakeserver import BODY

from fairlead.client import ClusterConfig
from fairlead.client.connection import build_ssl_context


MIB = 1 << 20
PIECE = b" " * MIB
_PIECES = 1024


def _packed() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(PIECE) for _ in range(_PIECES)) + packer.flush()


BOMB = _packed()
"""A gzip of 1 GiB, which is 1 MiB on the wire."""


async def explode(request: web.Request) -> web.StreamResponse:
    """A small answer that unpacks to a large one."""
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def never_end(request: web.Request) -> web.StreamResponse:
    """A body, or a line, that goes on for as long as it is read."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        for _ in range(_PIECES):
            await response.write(PIECE)
    return response


class WatchesWithoutEnd:
    """Passes requests on to a server, but for watches: those get a line without an end.

    Secrets are not there, or a konnector would learn of the server's own address.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._url = config.server
        self._context = build_ssl_context(config)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await never_end(request)
        if "secrets" in request.path:
            return web.Response(status=503)
        headers = {"Authorization": request.headers["Authorization"]}
        if kind := request.headers.get("Content-Type"):
            headers["Content-Type"] = kind
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method,
                self._url + request.path_qs,
                data=request[BODY],
                headers=headers,
                ssl=self._context,
            ) as answer,
        ):
            return web.Response(
                body=await answer.read(),
                status=answer.status,
                content_type=answer.content_type,
            )
