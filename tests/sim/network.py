"""Connections in memory, whose delays, splits, silences and resets a seed decides.

Within a connection bytes keep their order, as TCP has it; between connections nothing does.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import re
import socket
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.sim.loop import SimLoop
from tests.sim.processes import Process, current
from tests.sim.trace import Trace


HIGH_WATER, LOW_WATER = 64 * 1024, 16 * 1024
"""Bytes under way at which a protocol is told to stop writing, and to go on."""
CONNECT_SECONDS = 127.0
"""After so long a connection attempt that nothing answers fails, as Linux has it."""

_REQUEST = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1.1\r\n")

origin: ContextVar[Process | None] = ContextVar("origin", default=None)
"""On a server's end of a connection: the process at the other end."""


@dataclass
class Link:
    """What is wrong on the way from one process to another, by names; "*" is any.

    ``silent`` holds all back until it ends, ``slow`` is seconds that each message takes more.
    """

    silent: bool = False
    slow: float = 0.0
    refused: bool = False


@dataclass
class Weather:
    """What the network does to all messages: delays in seconds, shares from 0 to 1."""

    least: float = 0.0002
    most: float = 0.002
    splits: float = 0.0
    links: dict[tuple[str, str], Link] = field(default_factory=dict)

    def link(self, source: str, target: str) -> Link:
        """The state of a way, made when new."""
        return self.links.setdefault((source, target), Link())


class Network:
    """All connections of a simulation."""

    def __init__(self, loop: SimLoop, dice: Random, trace: Trace) -> None:
        loop.network = self
        self.loop = loop
        self.trace = trace
        self.weather = Weather()
        self.connections: dict[int, Connection] = {}
        """Those that are open, by number."""
        self.on_send: list[Callable[[Connection, End, bytes], None]] = []
        """Called with each piece that a client's end sends, before it is under way."""
        self.dice = dice
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._connected: dict[int, Reached] = {}
        self._ports = itertools.count(20_001)
        self._numbers = itertools.count(1)

    def delay(self, source: str, target: str) -> float:
        """Seconds that a message takes."""
        weather = self.weather
        taken = self.dice.uniform(weather.least, weather.most)
        return taken + sum(link.slow for link in self._links(source, target))

    def silent(self, source: str, target: str) -> bool:
        """Whether nothing comes through."""
        return any(link.silent for link in self._links(source, target))

    def _links(self, source: str, target: str) -> list[Link]:
        links = self.weather.links
        if not links:
            return []
        ways = ((source, target), (source, "*"), ("*", target), ("*", "*"))
        return [links[way] for way in ways if way in links]

    def changed(self) -> None:
        """Deliver what was held back by a silence that is over."""
        for connection in list(self.connections.values()):
            connection.client.flush()
            connection.server.flush()

    # --- connecting

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> Listener:
        """Listen on an address; port 0 takes a free one.

        Raises:
            OSError: it is taken.
        """
        port = port or next(self._ports)
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, "address already in use")
        made = self._listeners[host, port] = Listener(self, factory, host, port)
        return made

    def unlisten(self, listener: Listener) -> None:
        """Listen no more."""
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    async def connect(self, sock: socket.socket, address: Any) -> None:
        """Find who listens, for a socket that :meth:`client` is asked about next.

        Raises:
            OSError: nobody listens, or nothing answers.
        """
        self._connected[sock.fileno()] = await self.reach(address)

    async def reach(self, address: Any) -> Reached:
        """Find who listens, as a handshake of three messages would.

        Raises:
            OSError: nobody listens, or nothing answers.
        """
        host, port = address[0], address[1]
        name = _name(current())
        listener = self._listeners.get((host, port))
        target = listener.name if listener else "?"
        links = self._links(name, target) + self._links(target, name)
        await asyncio.sleep(self.delay(name, target) + self.delay(target, name))
        if any(link.refused for link in links):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"connect call failed {address}")
        begun = self.loop.time()
        while (
            self.silent(name, target)
            or self.silent(target, name)
            or (listener is not None and listener.process is not None and listener.process.frozen)
        ):
            if self.loop.time() - begun > CONNECT_SECONDS:
                raise TimeoutError(errno.ETIMEDOUT, f"connect call failed {address}")
            await asyncio.sleep(1.0)
        listener = self._listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"connect call failed {address}")
        return listener, (host, port)

    def client(
        self, connected: socket.socket | Reached, factory: Callable[[], Any]
    ) -> tuple[End, Any]:
        """The transport and protocol of what has been connected."""
        sock = connected if isinstance(connected, socket.socket) else None
        listener, address = (
            self._connected.pop(connected.fileno())
            if isinstance(connected, socket.socket)
            else connected
        )
        process = current()
        connection = Connection(self, next(self._numbers), process, listener, address, sock)
        self.connections[connection.number] = connection
        protocol = factory()
        connection.client.begin(protocol)
        connection.server.accept(listener)
        return connection.client, protocol


Reached = tuple["Listener", tuple[str, int]]
"""A listener, and the address at which it was found."""


class Listener:
    """What :meth:`asyncio.loop.create_server` gives; it stands for its socket too."""

    def __init__(self, network: Network, factory: Callable[[], Any], host: str, port: int) -> None:
        self.network, self.factory, self.host, self.port = network, factory, host, port
        self.process = current()
        self.name = _name(self.process)
        self.context = copy_context()
        self.sockets = [self]
        if self.process is not None:
            self.process.on_death[self] = self.close

    def getsockname(self) -> tuple[str, int]:
        """The address."""
        return self.host, self.port

    def fileno(self) -> int:
        """No descriptor of this machine."""
        return -1

    def close(self) -> None:
        """Listen no more."""
        self.network.unlisten(self)
        if self.process is not None:
            self.process.on_death.pop(self, None)

    async def wait_closed(self) -> None:
        """It is closed at once."""

    def is_serving(self) -> bool:
        """Whether connections are taken."""
        return True

    async def start_serving(self) -> None:
        """It serves from the beginning."""


class Connection:
    """Two ends; ``about`` is what was last asked for on it: method and target."""

    def __init__(
        self,
        network: Network,
        number: int,
        process: Process | None,
        listener: Listener,
        address: tuple[str, int],
        sock: socket.socket | None,
    ) -> None:
        self.network = network
        self.number = number
        self.about = ""
        here = ("127.0.0.1", 40_000 + number % 20_000)
        client_context, server_context = copy_context(), listener.context.copy()
        server_context.run(origin.set, process)
        self.client = End(self, process, client_context, here, address, sock)
        self.server = End(self, listener.process, server_context, address, here, None)
        self.client.peer, self.server.peer = self.server, self.client
        self.held = False
        """Whether what the server sends is held back."""

    def asked(self, piece: bytes) -> None:
        """Note what is asked for, when this is the beginning of a request."""
        found = _REQUEST.match(piece)
        if found:
            self.about = f"{found[1].decode()} {found[2].decode()}"

    def hold(self) -> None:
        """Hold back what the server sends on this connection alone."""
        self.held = True

    def release(self) -> None:
        """Deliver what was held back."""
        self.held = False
        self.server.flush()

    def reset(self) -> None:
        """Break it at both ends."""
        for end in (self.client, self.server):
            end.broken(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def ended(self) -> None:
        """Forget it once both ends are closed."""
        if self.client.lost and self.server.lost:
            self.network.connections.pop(self.number, None)


_EOF = object()


class End(asyncio.Transport):
    """One end of a connection, as its process has it.

    What it has sent is in ``_under_way`` until the peer has read it.
    """

    peer: End

    def __init__(
        self,
        connection: Connection,
        process: Process | None,
        context: Any,
        name: tuple[str, int],
        peer_name: tuple[str, int],
        sock: socket.socket | None,
    ) -> None:
        super().__init__({"peername": peer_name, "sockname": name, "socket": sock})
        self.connection = connection
        self.process = process
        self.context = context
        self.lost = False
        self._network = connection.network
        self._loop = connection.network.loop
        self._sock = sock
        self._protocol: Any = None
        self._closing = False
        self._reading = True
        self._paused_writing = False
        self._under_way: deque[Any] = deque()
        self._size = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        if process is not None:
            process.on_death[self] = self._died

    # --- beginning

    def begin(self, protocol: Any) -> None:
        """Take a protocol; its first call is now."""
        self._protocol = protocol
        protocol.connection_made(self)

    def accept(self, listener: Listener) -> None:
        """Make the server's protocol, a little later."""
        self._reading = False
        self._loop.call_later(0.0, self._accept, listener, context=self.context)

    def _accept(self, listener: Listener) -> None:
        if self.lost:
            return
        self.begin(listener.factory())
        self.resume_reading()

    # --- the transport's interface

    def get_protocol(self) -> Any:
        """The protocol."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Another protocol from now on."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether the protocol is told of what arrives."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Keep what arrives."""
        self._reading = False

    def resume_reading(self) -> None:
        """Tell of what has arrived."""
        self._reading = True
        self.peer.flush()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """They are always the same."""

    def get_write_buffer_size(self) -> int:
        """Bytes that the peer has not read."""
        return self._size

    def can_write_eof(self) -> bool:
        """It cannot be closed in one direction alone."""
        return False

    def write(self, data: Any) -> None:
        """Send some bytes."""
        if self._closing or not data:
            return
        piece = bytes(data)
        if self.connection.client is self:
            self.connection.asked(piece)
            for hook in list(self._network.on_send):
                hook(self.connection, self, piece)
            if self.lost:
                # It died in a hook, before this was sent.
                return
        self._size += len(piece)
        self._under_way.append(piece)
        self.flush()
        if self._size > HIGH_WATER and not self._paused_writing:
            self._paused_writing = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Send some bytes."""
        self.write(b"".join(bytes(one) for one in list_of_data))

    def close(self) -> None:
        """Close once all is sent."""
        if self._closing:
            return
        self._closing = True
        self._under_way.append(_EOF)
        self.flush()
        self._loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        """Break the connection; what is under way is lost."""
        if self.lost:
            return
        self._break_off()
        self._loop.call_soon(self._lose, None, context=self.context)

    # --- breaking

    def broken(self, error: Exception) -> None:
        """The connection breaks at this end."""
        if not self.lost:
            self._closing = True
            self._loop.call_soon(self._lose, error, context=self.context)

    def _died(self) -> None:
        """The process was killed: its kernel resets the connection."""
        self.lost = True
        self._closing = True
        self._break_off()
        self._close_socket()
        self.connection.ended()

    def _break_off(self) -> None:
        self._closing = True
        self._under_way.clear()
        self._size = 0
        source, target = _name(self.process), _name(self.peer.process)
        # In a silence the peer learns of it only when it is over, or never.
        self._under_way.append(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        self._due = max(self._due, self._loop.time() + self._network.delay(source, target))
        self.flush()

    def _lose(self, error: Exception | None) -> None:
        if self.lost:
            return
        self.lost = True
        self._closing = True
        if self.process is not None:
            self.process.on_death.pop(self, None)
        try:
            if self._protocol is not None:
                self._protocol.connection_lost(error)
        finally:
            self._close_socket()
            self.connection.ended()

    def _close_socket(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    # --- on the way

    def flush(self) -> None:
        """Deliver the first piece that is under way, when it may be."""
        if not self._under_way or self._timer is not None:
            return
        first = self._under_way[0]
        peer = self.peer
        if peer.lost:
            self._under_way.clear()
            return
        if isinstance(first, bytes) and not peer._reading:
            return
        source, target = _name(self.process), _name(peer.process)
        if self._network.silent(source, target):
            return
        if self.connection.held and self is self.connection.server:
            return
        now = self._loop.time()
        self._due = max(self._due, now + self._network.delay(source, target))
        self._timer = self._loop.call_at(self._due, self._deliver, context=peer.context)

    def _deliver(self) -> None:
        self._timer = None
        peer = self.peer
        if peer.lost or not self._under_way:
            return
        source, target = _name(self.process), _name(peer.process)
        first = self._under_way[0]
        held = self.connection.held and self is self.connection.server
        if (
            held
            or self._network.silent(source, target)
            or (isinstance(first, bytes) and not peer._reading)
        ):
            return
        self._under_way.popleft()
        if first is _EOF:
            peer._closing = True
            peer._protocol.eof_received()
            peer._lose(None)
            return
        if isinstance(first, Exception):
            self._network.trace.broken(self.connection, source, target)
            peer._lose(first)
            return
        piece, rest = self._split(first)
        if rest:
            self._under_way.appendleft(rest)
        self._size -= len(piece)
        self._network.trace.message(self.connection, source, target, piece)
        if self._paused_writing and self._size < LOW_WATER and not self._closing:
            self._paused_writing = False
            self._loop.call_soon(self._protocol.resume_writing, context=self.context)
        try:
            peer._protocol.data_received(piece)
        finally:
            self.flush()

    def _split(self, piece: bytes) -> tuple[bytes, bytes]:
        network = self._network
        if len(piece) > 1 and network.weather.splits:
            dice = network.dice
            if dice.random() < network.weather.splits:
                at = dice.randrange(1, len(piece))
                return piece[:at], piece[at:]
        return piece, b""


def _name(process: Process | None) -> str:
    return "outside" if process is None else process.name
