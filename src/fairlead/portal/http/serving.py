"""Listening: sockets, TLS with reloaded files, and limits of slow or many connections."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from fairlead.api.addresses import Network
from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal, answer
from fairlead.portal.http.headers import Headers
from fairlead.portal.http.requests import client_address, neighbourhood, trusts
from fairlead.portal.options import Limits, ServeOptions


_log = structlog.get_logger(logger_name="fairlead.portal.http")


class Certificate:
    """The server's TLS certificate and key, read from two files.

    Raises:
        OSError: a file cannot be read.
        ValueError: the files hold no certificate and key that belong together.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self.ends: datetime | None = None
        """When the certificate expires."""
        self._files = (cert_file, key_file)
        # Before the files are read: a change in between is seen at the next check.
        self._state = self._look()
        self.context = self._load()
        """The context of new connections; each refresh has one of its own."""

    def refresh(self) -> bool:
        """Load the files again if they have changed; return True if they were loaded.

        A pair that is only half written is skipped and tried again at the next check.
        """
        try:
            state = self._look()
            if state == self._state:
                return False
            self.context = self._load()
        except (OSError, ValueError) as error:
            _log.warning(
                "the new certificate cannot be used, so the former one is still served",
                reason=str(error),
            )
            return False
        self._state = state
        _log.info("serving with a new certificate", file=str(self._files[0]))
        return True

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        # A mounted Secret is replaced by swapping a link to its directory: mtime and size may
        # stay the same, and the inode differs.
        stats = [os.stat(path) for path in self._files]  # noqa: PTH116  follows links, as wanted
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in stats)

    def _load(self) -> ssl.SSLContext:
        """Return a new context with the files' pair.

        A pair that does not match leaves a context without a usable key, so the context that
        serves is never loaded again.
        """
        cert_file, key_file = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # RFC 8996 deprecates the older ones.
        try:
            # Without a callback OpenSSL would prompt for the password of an encrypted key.
            context.load_cert_chain(cert_file, key_file, password=lambda: b"")
        except ssl.SSLError as error:
            raise ValueError(
                f"--tls-cert-file {cert_file} and --tls-key-file {key_file} hold no certificate "
                f"and key in PEM that belong together: {error.reason or error}"
            ) from None
        self.ends = _ends(cert_file.read_bytes())
        return context


def _ends(pem: bytes) -> datetime | None:
    """Return when the first certificate of a file expires; None if it cannot be read."""
    try:
        # Optional: the package is in an extra, which sessions need and this server does not.
        from cryptography import x509
    except ImportError:
        return None
    try:
        return x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        # OpenSSL has loaded it; it reads forms of PEM that the package refuses.
        return None


class ListeningError(Exception):
    """The address cannot be listened on; the text names the flag and the remedy."""


@contextmanager
def _explained(options: ServeOptions) -> Iterator[None]:
    """Turn an OSError of the block into a :class:`ListeningError`."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        raise ListeningError(
            f"cannot listen on {options.host or '*'}:{options.port}: {why}; give another address "
            "to --listen-address"
        ) from None


class PortalServer:
    """Serves an application; runs on every replica.

    The port is bound at once, and connections are accepted after ``started`` returns: with
    empty caches the catalogue would look empty.

    Args:
        options: the listening address and the limits.
        app: the application.
        started: returns when requests can be answered.
        listening: a bound socket to use in place of the options' address; the server closes it.
        patience: longest wait for running requests at shutdown, in seconds.

    Raises:
        OSError: a file of the certificate cannot be read.
        ValueError: the certificate cannot be used.
    """

    name = "portal"

    def __init__(
        self,
        options: ServeOptions,
        app: web.Application,
        *,
        started: Callable[[], Awaitable[None]] | None = None,
        listening: socket.socket | None = None,
        patience: float = bounds.SHUTDOWN_SECONDS,
    ) -> None:
        self.url = ""
        self._patience = patience
        self._options = options
        self._app = app
        self._started = started
        self._listening = listening
        self._serving = False
        self._certificate: Certificate | None = None
        if options.tls_cert_file is not None and options.tls_key_file is not None:
            self._certificate = Certificate(options.tls_cert_file, options.tls_key_file)

    def certificate_ends(self) -> datetime | None:
        """Return when the certificate expires; None without a certificate."""
        return self._certificate.ends if self._certificate is not None else None

    def not_ready(self) -> str:
        """Return why the server does not accept requests; "" if it does."""
        return "" if self._serving else "it does not listen yet"

    async def run(self) -> None:
        """Serve until canceled.

        Raises:
            ListeningError: the address cannot be listened on.
        """
        # No access log: request lines of sign-ins contain codes. http/audit.py writes a line where
        # one is needed, and metrics count.
        runner = web.AppRunner(
            self._app, access_log=None, handle_signals=False, shutdown_timeout=self._patience
        )
        await runner.setup()
        try:
            server = await self._listen(runner)
            try:
                if self._started is not None:
                    await self._started()
                with _explained(self._options):
                    await server.start_serving()
                self._serving = True
                external = self._options.external_url.absolute("/")
                _log.info("serving", url=self.url, external=external)
                await self._watch_certificate()
            finally:
                self._serving = False
                # First no new connections; the cleanup of the runner then waits for running
                # requests.
                server.close()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> asyncio.Server:
        handlers = runner.server
        assert handlers is not None  # noqa: S101  it is set up
        options = self._options
        loop = asyncio.get_running_loop()
        headers = Headers(options.external_url)
        connections = _Connections(options.limits, options.trusted_proxies)

        def connection() -> _Connection:
            return _Connection(handlers, headers, connections, loop=loop)

        def protocol() -> asyncio.Protocol:
            if self._certificate is None:
                return connection()
            return _Handshake(connection(), connections, self._certificate.context)

        # None stands for all addresses, of IPv4 and of IPv6.
        place: dict[str, Any] = {"host": options.host or None, "port": options.port}
        if self._listening is not None:
            place = {"sock": self._listening}
        with _explained(options):
            server = await loop.create_server(protocol, **place, start_serving=False)
        host, port = server.sockets[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if self._certificate else 'http'}://{shown}:{port}"
        return server

    async def _watch_certificate(self) -> None:
        if self._certificate is None:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(bounds.CERTIFICATE_SECONDS)
            if self._certificate is not None:
                self._certificate.refresh()


class _Connections:
    """Counts the open connections of each address, and limits them."""

    def __init__(self, limits: Limits, trusted: Sequence[Network]) -> None:
        self.limits = limits
        self._trusted = trusted
        self._open: Counter[str] = Counter()
        self.alive: dict[_Connection, None] = {}

    def open(self, peer: str) -> bool:
        """Count a connection; return False if a limit is exceeded. :meth:`close` has to follow."""
        key = self.key(peer)
        self._open[key] += 1
        if key and self._open[key] > self.limits.connections_per_address:
            return False
        return self._open.total() <= self.limits.connections or self._made_room()

    def _made_room(self) -> bool:
        """Close an idle connection of the address that has the most; return False if none is idle.

        Otherwise idle connections of a few addresses could keep all others out.
        """
        waiting = [one for one in self.alive if one.waits]
        if not waiting:
            return False
        # Connections of trusted proxies come last, for each carries many clients.
        max(
            waiting, key=lambda connection: self._open[connection.key] if connection.key else 0
        ).force_close()
        return True

    def close(self, peer: str) -> None:
        """Stop counting a connection."""
        key = self.key(peer)
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]

    def key(self, peer: str) -> str:
        """Return the key that a connection is counted by; "" for all trusted proxies."""
        address = client_address(peer, (), ())
        return "" if trusts(self._trusted, address) else neighbourhood(address)


def _peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the address of the other end, "" for a socket without one."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""


class _Handshake(asyncio.Protocol):
    """A connection before its TLS handshake, counted like any other.

    asyncio calls a protocol only after the handshake; without this class one address could hold
    connections until the process has no file descriptors left.
    """

    def __init__(
        self, connection: _Connection, connections: _Connections, context: ssl.SSLContext
    ) -> None:
        self._connection = connection
        self._connections = connections
        self._context = context

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and start its handshake on a socket of its own."""
        peer = _peer_of(transport)
        may = self._connections.open(peer)
        try:
            if may:
                # Nothing has been read yet, so a duplicate descriptor can take over while this
                # transport is aborted.
                descriptor = os.dup(transport.get_extra_info("socket").fileno())
                self._connection.counted = True
                # As a task, since a callback of a protocol cannot wait.
                work = self._shake(socket.socket(fileno=descriptor), peer)
                task = asyncio.create_task(work)
                _handshakes.add(task)
                task.add_done_callback(_handshakes.discard)
        except OSError as error:
            _log.error("a connection cannot be taken", reason=str(error))
            may = False
        if not may:
            self._connections.close(peer)
        cast("asyncio.Transport", transport).abort()

    async def _shake(self, accepted: socket.socket, peer: str) -> None:
        """Do the handshake in its time; stop counting the connection if it fails."""
        is_made = False
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection,
                accepted,
                ssl=self._context,
                # asyncio's default of 60 s would let slow handshakes pile up.
                ssl_handshake_timeout=self._connections.limits.header_seconds,
            )
            is_made = True
        except OSError as error:
            _log.debug("no TLS was agreed on", address=peer, reason=str(error))
        finally:
            # After a handshake connection_lost stops the counting instead.
            if not is_made:
                self._connections.close(peer)


_handshakes: set[asyncio.Task[None]] = set()
"""Running handshakes: the event loop itself holds only weak references to tasks."""


class _Connection(RequestHandler):
    """One connection; closed if its client is too slow or has too many connections."""

    __slots__ = ("_connections", "_cut", "_headers", "_peer", "_slow", "counted", "key")

    def __init__(
        self,
        handlers: web.Server,
        headers: Headers,
        connections: _Connections,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        limits = connections.limits
        super().__init__(
            handlers,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # as AppRunner says it
            keepalive_timeout=limits.idle_seconds,
            max_line_size=limits.line,
            max_field_size=limits.line,
            max_headers=limits.headers,
            # Time for the rest of a body that its handler did not read.
            lingering_time=limits.body_seconds,
            # A small compressed body could decompress to gigabytes; read_body refuses
            # Content-Encoding.
            auto_decompress=False,
        )
        self._headers = headers
        self._connections = connections
        self._peer = ""
        self.counted = False
        self.key = ""
        self._cut: asyncio.TimerHandle | None = None
        self._slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and close it if it is too many or sends no request in time."""
        super().connection_made(transport)
        self._peer = _peer_of(transport)
        if self.counted or self._connections.open(self._peer):
            self.key = self._connections.key(self._peer)
            self._connections.alive[self] = None
            # aiohttp closes a connection without a request only after keepalive_timeout, so that
            # clients that send nothing, or a header byte by byte, could hold all connections.
            seconds = self._connections.limits.header_seconds
            self._cut = self._loop.call_later(seconds, self._cut_off)
        else:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.close(self._peer)
        self._connections.alive.pop(self, None)
        super().connection_lost(exc)
        for timer in (self._cut, self._slow):
            if timer is not None:
                timer.cancel()

    @property
    def waits(self) -> bool:
        """Whether the connection waits for its client to send a whole request."""
        return self._waiter is not None and not self._waiter.done()

    def pause_writing(self) -> None:
        super().pause_writing()
        # The client does not read its answer: the buffer may not stay in memory for ever.
        self._abort_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def force_close(self) -> None:
        # A closing transport first sends its buffer, which a client may never read.
        self._abort_later()
        super().force_close()

    def _abort_later(self) -> None:
        """Abort the connection in a while, unless its client reads by then."""
        transport = self.transport
        if self._slow is None and transport is not None:
            seconds = self._connections.limits.body_seconds
            self._slow = self._loop.call_later(seconds, transport.abort)

    def _cut_off(self) -> None:
        """Close the connection if it has not sent a whole request yet."""
        if not self._request_count:
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that is not HTTP, or whose headers are too many or too long."""
        # A second status line in the middle of an answer would corrupt it: only an abort is left.
        if request.writer.output_size > 0:
            raise ConnectionError("half of an answer has been sent")
        if status == 500:
            _log.error("a connection failed", exc_info=exc)
        text = "the request is not HTTP, or its headers are too many or too long"
        return self._refused(status, text if status < 500 else "the server failed")

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; one that aiohttp made before any handler gets our form and headers."""
        # aiohttp answers an unknown Expect header by itself, without the middleware.
        if isinstance(resp, web.HTTPException):
            resp = self._refused(resp.status, "the header Expect may only be 100-continue")
        return await super().finish_response(request, resp, start_time)

    def _refused(self, status: int, text: str) -> web.StreamResponse:
        code = ErrorCode.BAD_REQUEST if status < 500 else ErrorCode.INTERNAL_ERROR
        response = answer(Refusal(status, code, text), request_id="-")
        self._headers.complete(response, path="/api/", request_id="-")
        response.force_close()
        return response
