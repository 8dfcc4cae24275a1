"""The listening socket of one start of a sandbox, and the connections it has accepted."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from fairlead_sandbox import errors
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.http import memory
from fairlead_sandbox.http.server import HttpServer, make_request, respond
from fairlead_sandbox.requests.calls import error_answer


_log = logging.getLogger(__name__)


HEADER_SECONDS = 32.0
"""Seconds that the headers of a request may take to arrive, as kube-apiserver has it."""
MAX_LINE = 64 * 1024
"""Bytes of the first line of a request, with its selectors, and of each header."""
_IDLE_SECONDS = 180.0
"""Seconds that an idle connection is kept; clients close theirs after 90 at most."""
_GRACE_SECONDS = 0.1
"""Seconds that requests may go on after the end of listening."""


class ServedConnection(web.RequestHandler):
    """One connection; it is cut when a request's headers do not end."""

    __slots__ = ("_headers_end",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect the first request."""
        super().connection_made(transport)
        self._headers_end: asyncio.TimerHandle | None = None
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived; what is no whole request is the beginning of one."""
        super().data_received(data)
        if self._is_waiting():
            self._expect_headers()
        else:
            self._forget_headers()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Wait for nothing any more."""
        self._forget_headers()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what cannot be read as HTTP; the connection is closed."""
        # A Status behind half an answer would be read as a part of it.
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is on its way already") from exc
        if isinstance(exc, LineTooLong):
            text = f"the request's first line and each header may have {MAX_LINE} bytes"
            error = StatusError(431, "RequestHeaderFieldsTooLarge", text)
        elif isinstance(exc, HttpProcessingError):
            error = errors.bad_request(f"the request cannot be read: {exc.message}")
        else:
            _log.error("%s %s failed", request.method, request.path, exc_info=exc)
            error = errors.internal("the server could not answer; its log says why")
        response = respond(error_answer(error))
        response.force_close()
        return response

    def _is_waiting(self) -> bool:
        return self._current_request is None and not self._messages

    def _expect_headers(self) -> None:
        # A timer that runs goes on: headers that trickle in get no more time.
        if self._headers_end is None:
            loop = asyncio.get_running_loop()
            self._headers_end = loop.call_later(HEADER_SECONDS, self._headers_late)

    def _forget_headers(self) -> None:
        if self._headers_end is not None:
            self._headers_end.cancel()
            self._headers_end = None

    def _headers_late(self) -> None:
        self._headers_end = None
        if self._is_waiting() and self.transport is not None:
            self.transport.abort()


class AcceptedConnections(web.Server):
    """Accepted connections; those whose TLS handshake ends after the shutdown are cut."""

    _closed = False

    def __init__(
        self, lost: Callable[[asyncio.Transport], None], *given: Any, **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._lost = lost
        self._memory = memory.Connections()

    def __call__(self) -> web.RequestHandler:
        """Return the handler of a new connection."""
        # One whose TLS handshake fails is never made, and takes memory all the same.
        self._memory.one()
        return ServedConnection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Note a connection."""
        if self._closed:
            transport.abort()
            return
        super().connection_made(handler, transport)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        if handler.transport is not None:
            self._lost(handler.transport)
        if not self._closed:
            self._memory.one()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Close all connections, those to come included; ``timeout`` is in seconds."""
        self._closed = True
        self._memory.close()
        await super().shutdown(timeout)


class Listener:
    """Listens for a server from :meth:`open` to :meth:`close`.

    ``lost`` is told of each connection that is closed.
    """

    def __init__(self, server: HttpServer, lost: Callable[[asyncio.Transport], None]) -> None:
        # aiohttp lets a handler go on when its client is gone unless it is told to cancel it: it
        # would answer, and keep watches, without a reader.
        self._connections = AcceptedConnections(
            lost,
            server.handle,
            request_factory=make_request,
            handler_cancellation=True,
            keepalive_timeout=_IDLE_SECONDS,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            access_log=None,
        )
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen, with TLS where there is a context; the port.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connections, host, port, ssl=context, backlog=128
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening and cut what is still running."""
        if self._server is None:
            return
        loop = asyncio.get_running_loop()
        # Nothing more is accepted from here on, while the sockets themselves are still open.
        for listening in self._server.sockets:
            loop.remove_reader(listening.fileno())
        # A server that closes forgets connections accepted in the same turn of the loop, and
        # leaves them open for ever.
        await asyncio.sleep(0)
        self._server.close()
        self._server = None
        self._connections.pre_shutdown()
        await self._connections.shutdown(_GRACE_SECONDS)
