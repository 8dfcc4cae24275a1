"""A request and its answer, over connections to one server that are kept open.

Requests go to aiohttp's connector, which connects, verifies and keeps connections, and to its
protocol, which reads answers. ``aiohttp.ClientSession`` would make two objects and a task for each
request besides, and look for cookies, redirects, netrc and middlewares, which no API server needs:
that is two thirds of what a small request costs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import NamedTuple, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, StreamWriter
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from fairlead.client.connection import Sockets
from fairlead.client.errors import ConnectionFailed


IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that may be sent again when nobody knows whether they arrived (RFC 9110, 9.2.2)."""

_BODILESS = frozenset({"GET", "HEAD"})
_BROKEN = (
    aiohttp.ClientOSError,
    aiohttp.ClientConnectionResetError,
    aiohttp.ServerDisconnectedError,
)
"""How a connection turns out to be closed that was kept open."""
_SWITCHING = 101
"""The one status below 200 after which nothing else comes."""


class Outgoing(NamedTuple):
    """A request: ``target`` is path and query, ``headers`` are those of this request alone.

    After ``silence`` seconds without a byte of the answer it is given up.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    silence: float


class Answer:
    """What a server has answered: its body is read here, or by whoever follows ``content``.

    It has a connection for itself until :meth:`end`.
    """

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self,
        connection: Connection,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
    ) -> None:
        self.status = status
        self.headers = headers
        self.content = content
        self._connection = connection

    async def read(self) -> bytes:
        """The whole body.

        Raises:
            aiohttp.ClientError: the connection broke.
        """
        return await self.content.read()

    def end(self) -> None:
        """Keep the connection for the next request; cut it if the body was not read to its end."""
        if self.content.at_eof():
            self._connection.release()
            return
        # Closed in order, TLS would wait for the rest of the body and the peer's farewell.
        if self._connection.transport is not None:
            self._connection.transport.abort()
        self._connection.close()


class Origin:
    """A server as requests to it need it, for one identity.

    ``request`` is never sent: it is what the connector asks for address, TLS and proxy, and has
    the headers that all requests have. ``prefix`` comes before each target.
    """

    def __init__(
        self,
        url: str,
        headers: CIMultiDict[str],
        *,
        context: ssl.SSLContext | bool,
        server_hostname: str = "",
        proxy: str = "",
    ) -> None:
        self.request = aiohttp.ClientRequest(
            "GET",
            URL(url, encoded=True),
            headers=headers,
            loop=asyncio.get_running_loop(),
            ssl=context,
            server_hostname=server_hostname or None,
            proxy=URL(proxy) if proxy else None,
        )
        # A proxy is told the whole URL, but for one that only passes TLS on (RFC 9112, 3.2.2).
        absolute = bool(proxy) and not self.request.is_ssl()
        self.prefix = str(self.request.url.origin()) if absolute else ""


class Connections:
    """Connections to one server; nothing is shared with others.

    ``connect_seconds`` is how long connecting may take.
    """

    def __init__(self, server: str, connect_seconds: float) -> None:
        self._server = server
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        self._sockets = Sockets()
        self._connector: aiohttp.TCPConnector | None = None
        self._closed = False

    async def close(self) -> None:
        """Close all; requests under way fail, later ones too."""
        self._closed = True
        connector, self._connector = self._connector, None
        if connector is not None:
            await connector.close()
            await self._sockets.close()

    async def exchange(self, origin: Origin, sent: Outgoing) -> Answer:
        """Send a request; the answer is there once its headers are.

        A request that may be sent twice is, when its connection turns out to be closed.

        Raises:
            ConnectionFailed: this is closed.
            aiohttp.ClientError: there was no answer, or none in time.
        """
        again = sent.method in IDEMPOTENT
        while True:
            connection = await self._connect(origin)
            try:
                return await _converse(connection, origin, sent)
            except BaseException as error:
                connection.close()
                if not (again and isinstance(error, _BROKEN)):
                    raise
                again = False

    async def _connect(self, origin: Origin) -> Connection:
        if self._closed:
            raise ConnectionFailed(f"the client of {self._server} is closed")
        if self._connector is None:
            # Without a limit, because each watch holds a connection for as long as it lasts.
            self._connector = aiohttp.TCPConnector(limit=0, socket_factory=self._sockets.make)
        try:
            return await self._connector.connect(origin.request, [], self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(str(error)) from error


async def _converse(connection: Connection, origin: Origin, sent: Outgoing) -> Answer:
    protocol = cast("ResponseHandler", connection.protocol)
    protocol.set_response_params(
        skip_payload=sent.method == "HEAD", read_until_eof=True, read_timeout=sent.silence
    )
    # aiohttp's writer, for it lets no header smuggle in another line.
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    line = f"{sent.method} {origin.prefix}{sent.target} HTTP/1.1"
    await writer.write_headers(line, _headers(origin, sent))
    if sent.body:
        # Nothing is gained by waiting for a slow server here: the body is in memory anyway.
        await writer.write(sent.body, drain=False)
    else:
        writer.set_eof()
    protocol.start_timeout()
    while True:
        try:
            message, content = await protocol.read()
        except HttpProcessingError as error:
            raise aiohttp.ClientResponseError(
                origin.request.request_info, (), status=error.code, message=error.message
            ) from error
        # A server may say any number of times that it has begun (RFC 9110, 15.2).
        if message.code >= 200 or message.code == _SWITCHING:
            return Answer(connection, message.code, message.headers, content)


def _headers(origin: Origin, sent: Outgoing) -> CIMultiDict[str]:
    headers = origin.request.headers.copy()
    headers.update(sent.headers)
    if sent.body is not None or sent.method not in _BODILESS:
        headers["Content-Length"] = str(len(sent.body or b""))
    return headers
