"""The listening socket of one start of a sandbox, and the connections that it accepts."""

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
"""Seconds in which a request's headers must arrive; the ReadHeaderTimeout of kube-apiserver."""
MAX_LINE = 64 * 1024
"""Maximum size of a request line, which has the selectors, and of each header, in bytes."""
_IDLE_SECONDS = 180.0
"""Seconds that an idle connection is kept; client-go closes its own after 90."""
_GRACE_SECONDS = 0.1
"""Seconds that running requests may take to end after the listener is closed."""


class ServedConnection(web.RequestHandler):
    """One connection; it is aborted when a request's headers take too long to arrive."""

    __slots__ = ("_headers_end",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer for the first request's headers."""
        super().connection_made(transport)
        self._headers_end: asyncio.TimerHandle | None = None
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Pass received bytes on; start the timer of the headers or cancel it."""
        super().data_received(data)
        if self._is_waiting():
            self._expect_headers()
        else:
            self._forget_headers()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the timer of the headers."""
        self._forget_headers()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are no valid HTTP request with a Status, then close the connection."""
        # Part of an answer is sent already; the client would read a Status as the rest of it.
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is on its way already") from exc
        if isinstance(exc, LineTooLong):
            text = f"the request line and each header may have at most {MAX_LINE} bytes"
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
        # A running timer is not started anew: a client that sends its headers byte by byte
        # (slowloris) gets no more time than others.
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
    """The accepted connections; those whose TLS handshake ends after the shutdown are aborted."""

    _closed = False

    def __init__(
        self, lost: Callable[[asyncio.Transport], None], *given: Any, **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._lost = lost
        self._memory = memory.Connections()

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        # Counted here and not in connection_made, which a connection whose TLS handshake fails
        # never reaches, although it has taken memory too.
        self._memory.count()
        return ServedConnection(self, loop=self._loop, **self._kwargs)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Register a connection, or abort it after the shutdown."""
        if self._closed:
            transport.abort()
            return
        super().connection_made(handler, transport)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Forget a closed connection."""
        super().connection_lost(handler, exc)
        if handler.transport is not None:
            self._lost(handler.transport)
        if not self._closed:
            self._memory.count()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Close all connections, later handshakes included; ``timeout`` is in seconds."""
        self._closed = True
        self._memory.close()
        await super().shutdown(timeout)


class Listener:
    """Listens for a server from :meth:`open` to :meth:`close`.

    ``lost`` is called with the transport of each connection that is closed.
    """

    def __init__(self, server: HttpServer, lost: Callable[[asyncio.Transport], None]) -> None:
        # Without handler_cancellation aiohttp goes on with a handler whose client has gone, and a
        # watch would run on without a reader.
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
        """Listen on the address, with TLS if there is a context; return the port.

        Raises:
            OSError: the address cannot be listened on.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connections, host, port, ssl=context, backlog=128
        )
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        """Stop listening and cancel requests that still run after the time of grace."""
        if self._server is None:
            return
        loop = asyncio.get_running_loop()
        # Accept no more connections, while the sockets themselves stay open for one more turn.
        for listening in self._server.sockets:
            loop.remove_reader(listening.fileno())
        # asyncio loses track of connections that were accepted in the turn of the loop in which
        # the server is closed, and never closes them.
        await asyncio.sleep(0)
        self._server.close()
        self._server = None
        self._connections.pre_shutdown()
        await self._connections.shutdown(_GRACE_SECONDS)
