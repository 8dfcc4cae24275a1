"""A small HTTP server that says what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from multidict import CIMultiDictProxy


BODY = web.RequestKey("body", bytes)
"""Key of the body that was read, for answers."""

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request that arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class FakeServer:
    """Answers each path from its own script; the last answer of a script is repeated."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self._tls = tls
        self._host = host
        self._scripts: dict[str, list[Answer]] = defaultdict(list)
        self._elsewhere: Answer | None = None
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://{self._host}:{port}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._runner.cleanup()

    def on(self, path: str, *answers: Answer) -> Self:
        """Adds to the script of a path."""
        self._scripts[path].extend(answers)
        return self

    def elsewhere(self, answer: Answer) -> Self:
        """Sets the answer on all paths without a script."""
        self._elsewhere = answer
        return self

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.seen]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request[BODY] = body = await request.content.read()
        self.seen.append(Seen(request.method, request.path, request.query, request.headers, body))
        script = self._scripts.get(request.path)
        if not script:
            if self._elsewhere is not None:
                return await self._elsewhere(request)  # type: ignore[arg-type]
            return web.Response(status=404, text="404 page not found\n")
        answer = script[0] if len(script) == 1 else script.pop(0)
        return await answer(request)  # type: ignore[arg-type]


def respond(body: Any = None, status: int = 200, **headers: str) -> Answer:
    """A JSON body; keywords are headers, with underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=named)

    return answer


def text(content: str, status: int = 200, content_type: str = "text/html") -> Answer:
    """A body that is no JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=content, status=status, content_type=content_type)

    return answer


def failure(code: int, reason: str, message: str = "no", **headers: str) -> Answer:
    """A metav1.Status that says no."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return respond(body, code, **headers)


def chunks(*parts: bytes, cut: bool = False, then: asyncio.Event | None = None) -> Answer:
    """A streamed body; ``cut`` breaks the connection at its end, ``then`` holds it open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        if then is not None:
            await then.wait()
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def hang(until: asyncio.Event, *, asked: asyncio.Event | None = None) -> Answer:
    """No answer before the event; ``asked`` is set when the request is there."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            asked.set()
        await until.wait()
        return web.json_response({})

    return answer


def disconnect() -> Answer:
    """The connection is closed without an answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    return answer
