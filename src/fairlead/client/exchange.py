"""A request and its answer, over connections to one server that are kept open.

Requests go to aiohttp's connector, which connects, verifies and keeps connections, and to its
protocol, which reads answers. ``aiohttp.ClientSession`` would make two objects and a task for each
request besides, and look for cookies, redirects, netrc and middlewares, which no API server needs:
that is two thirds of what a small request costs.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from fairlead.client import limits
from fairlead.client.bounds import Body, Intake
from fairlead.client.connection import Sockets
from fairlead.client.errors import ConfigError, ConnectionFailed


TESTED_VERSIONS = frozenset({"3.14"})
"""Minor versions of aiohttp whose inner classes this module was tested with.

It takes a connection by ``TCPConnector.connect``, prepares and reads the answer by
``ResponseHandler.set_response_params`` and ``read``, and follows a body in its ``StreamReader``.
None of these is public API: a minor version may change them without a note.
"""
IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that may be repeated if it is unknown whether the request arrived (RFC 9110, 9.2.2)."""

_BODILESS = frozenset({"GET", "HEAD"})
_BROKEN = (
    aiohttp.ClientOSError,
    aiohttp.ClientConnectionResetError,
    aiohttp.ServerDisconnectedError,
)
"""Exceptions of a kept connection that turns out to be closed."""
_SWITCHING = 101
"""Status 101 Switching Protocols, the only one below 200 that is final."""
_control = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search
"""Finds characters that no header may contain (RFC 9110, 5.5), since they could begin another."""


def check_version(version: str) -> None:
    """Refuse a version of aiohttp with untested inner classes.

    Raises:
        ConfigError: its minor version was not tested.
    """
    if ".".join(version.split(".")[:2]) not in TESTED_VERSIONS:
        tested = ", ".join(sorted(TESTED_VERSIONS))
        raise ConfigError(
            f"aiohttp {version} is installed, and Fairlead was tested with {tested}: "
            f"pip install 'aiohttp=={max(TESTED_VERSIONS)}.*'"
        )


class Outgoing(NamedTuple):
    """A request: ``target`` is path and query, ``headers`` belong to this request alone.

    The request fails after ``silence`` seconds without a byte of the answer. ``check`` is called
    before each attempt to send it, and prevents the attempt by an exception.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    silence: float
    check: Callable[[], None]


class AwaitedAnswer:
    """An answer that has not arrived, or not completely; it fails after too long a silence."""

    __slots__ = ("_among", "_content", "_heard", "_protocol", "_since", "silence")

    def __init__(
        self, among: dict[AwaitedAnswer, None], protocol: ResponseHandler, silence: float
    ) -> None:
        self.silence = silence
        self._among = among
        self._protocol = protocol
        self._content: aiohttp.StreamReader | None = None
        self._heard = 0
        self._since = 0.0

    def begun(self, now: float, content: aiohttp.StreamReader | None = None) -> None:
        """Restart the time of silence: the request was sent, or headers came.

        ``content`` is the body that follows the final headers, None before them.
        """
        self._since, self._content = now, content

    def end(self) -> None:
        """Stop watching over the answer."""
        self._among.pop(self, None)

    def check(self, now: float) -> None:
        """Fail the answer if no byte has arrived for ``silence`` seconds."""
        content, transport = self._content, self._protocol.transport
        heard = 0 if content is None else content.total_bytes
        # While reading is paused no byte arrives: that is not the server's silence.
        if heard != self._heard or (transport is not None and not transport.is_reading()):
            self._heard, self._since = heard, now
        elif now - self._since >= self.silence and not (content is not None and content.is_eof()):
            error = aiohttp.SocketTimeoutError("Timeout on reading data from socket")
            self._protocol.set_exception(error)
            if content is not None:
                content.set_exception(error)
            self.end()


class SilenceTimer:
    """Fails answers that have stopped arriving.

    aiohttp sets a timer for each request and moves it with each piece of the answer, a tenth of
    the cost of a small request. Here one timer checks all answers, :data:`LOOKS` times within the
    shortest allowed silence: an answer fails at most a quarter of that time too late.
    """

    LOOKS = 4
    """Checks within the shortest allowed silence."""

    def __init__(self) -> None:
        self._awaited: dict[AwaitedAnswer, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self, protocol: ResponseHandler, silence: float) -> AwaitedAnswer:
        """Watch over an answer until its ``end()``; ``silence`` is in seconds."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        awaited = AwaitedAnswer(self._awaited, protocol, silence)
        awaited.begun(now)
        self._awaited[awaited] = None
        due = now + silence / self.LOOKS
        if self._timer is None or due < self._due:
            self._set(loop, due)
        return awaited

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.close()
        self._due = due
        self._timer = loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for awaited in tuple(self._awaited):
            awaited.check(now)
        if self._awaited:
            least = min(awaited.silence for awaited in self._awaited)
            self._set(loop, now + least / self.LOOKS)


class ServerAnswer:
    """Answer of a server: its headers, and its body by :meth:`read` or from ``content``.

    No other request uses the connection until :meth:`end`.
    """

    __slots__ = ("_awaited", "_connection", "_whole", "content", "headers", "status")

    def __init__(
        self,
        connection: Connection,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
        awaited: AwaitedAnswer,
        intake: Intake,
    ) -> None:
        self.status = status
        self.headers = headers
        self._whole = content
        self.content: Body = intake.body(content, unpacked="Content-Encoding" in headers)
        """Body in chunks, as it arrives."""
        self._connection = connection
        self._awaited = awaited

    async def read(self, most: int = 0) -> bytes:
        """Read the whole body; ``most`` are its bytes from a trusted server, 0 for any number.

        Raises:
            aiohttp.ClientError: the connection broke.
            AnswerTooLarge: the body exceeds a bound.
        """
        return await self.content.read(most)

    def end(self) -> None:
        """Keep the connection for the next request; cut it if the body was not read to its end."""
        self._awaited.end()
        if self._whole.at_eof():
            self._connection.release()
            return
        # Closed in order, TLS would wait for the rest of the body and the peer's farewell.
        if self._connection.transport is not None:
            self._connection.transport.abort()
        self._connection.close()


class Origin:
    """Address, TLS, proxy and common headers of the requests to a server by one identity.

    ``request`` is never sent: the connector reads address, TLS and proxy from it, and it holds the
    headers of all requests. ``prefix`` comes before each target.
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
        self._heads: dict[tuple[tuple[str, str], ...], bytes] = {}

    def head(self, more: Mapping[str, str]) -> bytes:
        """Encode the headers of a request; ``more`` are its own, which precede the common ones.

        They are kept: encoding them with a token of 900 characters anew is a tenth of what a small
        request costs. A proxy's are known once it is connected.

        Raises:
            ValueError: a header has a control character.
        """
        key = tuple(more.items())
        head = self._heads.get(key)
        if head is None:
            headers = self.request.headers.copy()
            headers.update(more)
            head = "".join(_line(f"{name}: {value}") for name, value in headers.items()).encode()
            if len(self._heads) >= limits.HEADS:
                self._heads.clear()
            self._heads[key] = head
        return head


class ServerConnections:
    """Connections of one client to one server; no other client uses them.

    ``connect_seconds`` limits the time to connect, with the TLS handshake. ``refused`` takes a
    numeric address and returns why no connection may be made to it, "" if one may.
    """

    def __init__(
        self,
        server: str,
        connect_seconds: float,
        intake: Intake,
        refused: Callable[[str], str] | None = None,
    ) -> None:
        check_version(aiohttp.__version__)
        self._server = server
        self._intake = intake
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        self._sockets = Sockets() if refused is None else Sockets(refused)
        self._silence = SilenceTimer()
        self._connector: aiohttp.TCPConnector | None = None
        self._closed = False

    async def close(self) -> None:
        """Close all connections; requests under way fail, later ones too."""
        self._closed = True
        connector, self._connector = self._connector, None
        self._silence.close()
        if connector is not None:
            try:
                await connector.close()
            finally:
                # Also when this is cancelled: TLS would wait for the peer's farewell.
                await self._sockets.close()

    async def exchange(self, origin: Origin, sent: Outgoing) -> ServerAnswer:
        """Send a request; return the answer once its headers have arrived.

        An idempotent request is sent a second time if its kept connection turns out to be closed.

        Raises:
            ConnectionFailed: the connections are closed.
            aiohttp.ClientError: there was no answer, or none in time.
        """
        again = sent.method in IDEMPOTENT
        while True:
            connection = await self._connect(origin)
            protocol = cast("ResponseHandler", connection.protocol)
            awaited = self._silence.start(protocol, sent.silence)
            try:
                return await _converse(connection, protocol, origin, sent, awaited, self._intake)
            except BaseException as error:
                # Also when this is cancelled: what still arrives would be taken for the answer to
                # the next request on this connection.
                awaited.end()
                connection.close()
                if not (again and isinstance(error, _BROKEN)):
                    raise
                again = False

    async def _connect(self, origin: Origin) -> Connection:
        if self._closed:
            raise ConnectionFailed(f"the client of {self._server} is closed")
        if self._connector is None:
            # Without a limit, because each watch holds a connection for as long as it lasts.
            self._connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=limits.IDLE_SECONDS, socket_factory=self._sockets.make
            )
        try:
            return await self._connector.connect(origin.request, [], self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(str(error)) from error


async def _converse(
    connection: Connection,
    protocol: ResponseHandler,
    origin: Origin,
    sent: Outgoing,
    awaited: AwaitedAnswer,
    intake: Intake,
) -> ServerAnswer:
    loop = asyncio.get_running_loop()
    # No ``read_timeout``: aiohttp would set a timer for each request, which SilenceTimer replaces.
    protocol.set_response_params(
        skip_payload=sent.method == "HEAD",
        # An answer without a length ends with its connection (RFC 9112, 6.3).
        read_until_eof=True,
    )
    # Not before: connecting takes its time, and so does an attempt that has failed.
    sent.check()
    _write(protocol.transport, origin, sent)
    while True:
        try:
            message, content = await protocol.read()
        except HttpProcessingError as error:
            raise aiohttp.ClientResponseError(
                origin.request.request_info, (), status=error.code, message=error.message
            ) from error
        # A server may say any number of times that it has begun (RFC 9110, 15.2).
        if message.code >= 200 or message.code == _SWITCHING:
            awaited.begun(loop.time(), content)
            return ServerAnswer(
                connection, message.code, message.headers, content, awaited, intake
            )
        awaited.begun(loop.time())


def _write(transport: asyncio.Transport | None, origin: Origin, sent: Outgoing) -> None:
    """Write a request without waiting for a slow server: the body is in memory anyway."""
    body = sent.body or b""
    line = _line(f"{sent.method} {origin.prefix}{sent.target} HTTP/1.1")
    if sent.body is not None or sent.method not in _BODILESS:
        line += f"Content-Length: {len(body)}\r\n"
    head = b"".join((line.encode(), origin.head(sent.headers), b"\r\n"))
    if transport is None or transport.is_closing():
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
    if len(body) <= limits.JOINED_BYTES:
        transport.write(head + body)
    else:
        transport.write(head)
        transport.write(body)


def _line(text: str) -> str:
    """Encode a line of a request's head.

    Raises:
        ValueError: the text has a control character.
    """
    if _control(text) is not None:
        raise ValueError("a control character in a request's head: header injection?")
    return f"{text}\r\n"
