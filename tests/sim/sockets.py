"""Sockets of real servers, in lock-step: simulated time stands still while one answers.

Whoever waits for a socket has sent something over it just before. So the loop waits here, and
now, until all of the answer is there, and no two statements are ever at work at the same time.
A server's process that waits for a lock answers later: :attr:`Sockets.stuck` knows that, and it
is looked at again whenever another answer has come.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol

from tests.sim import entropy
from tests.sim.processes import process_of


REAL_SECONDS = 30.0
"""Real seconds that an answer of a real server may take."""
_LOOK_MILLISECONDS = 20
"""Real milliseconds without an answer after which somebody asks what the server waits for."""
_LARGE = 32 << 10
"""Bytes of an answer that is taken in pieces."""
_READY = ord("Z")
_ERROR = ord("E")
_AUTHENTICATION = ord("R")
_DONE = frozenset({0, 12})
"""Kinds of authentication messages after which the server goes on by itself."""
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class Loop(Protocol):
    """What is needed of the loop."""

    def time(self) -> float:
        """Simulated seconds."""
        ...

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> Any:
        """Call at this moment."""
        ...

    def resume(self, held: list[asyncio.Handle]) -> None:
        """Run these."""
        ...


class Sockets:
    """All sockets of real servers.

    A ``port`` is what :func:`line_of` makes of both ends.
    """

    def __init__(self, loop: Loop) -> None:
        self.addresses: set[tuple[str, int]] = set()
        """Where real servers listen."""
        self.waits = 0
        """How often somebody has waited for an answer."""
        self.stuck: Callable[[int], bool] = lambda _port: False
        """Whether the server's process at the other end of a local port waits for a lock."""
        self.blocked: Callable[[int], None] = lambda _port: None
        """Told of a local port whose server's process waits for a lock."""
        self.ended: Callable[[int], None] = lambda _port: None
        """Told of a local port whose socket was closed; returns when the server has noted it."""
        self.delay: Callable[[int], float] = lambda _port: 0.0
        """The simulated seconds that an answer takes which comes over a local port."""
        self.after: dict[int, Callable[[], None]] = {}
        """What to wait for, by local ports, once a server has done what it was sent there."""
        self._loop = loop
        self._readers: dict[int, asyncio.Handle] = {}
        self._writers: dict[int, asyncio.Handle] = {}
        self._timers: dict[int, Any] = {}
        self._due: dict[int, float] = {}
        self._blocked: dict[int, None] = {}
        self._ports: dict[int, int] = {}
        self._changed = False

    # --- what the loop is asked for

    def add(self, fd: int, handle: Any, *, writing: bool) -> None:
        """Run the handle when the socket can be read, or written."""
        self.opened(fd, handle._context)
        (self._writers if writing else self._readers)[fd] = handle
        if writing:
            _poll(fd, select.POLLOUT, REAL_SECONDS)
            self._loop.resume([handle])
        elif fd not in self._writers:
            self._read(fd)

    def opened(self, fd: int, context: Context) -> None:
        """Note a socket, and whose it is."""
        self.tidy()
        port = line_of(fd, self._ports.get(fd, 0))
        if port and self._ports.get(fd) != port:
            self._ports[fd] = port
            process = process_of(context)
            if process is not None:
                process.on_death[self, port] = lambda: self._cut(fd, port)

    def remove(self, fd: int, *, writing: bool) -> bool:
        """Run it no more."""
        handle = (self._writers if writing else self._readers).pop(fd, None)
        if handle is None:
            return False
        handle.cancel()
        if not writing:
            self._blocked.pop(fd, None)
            timer = self._timers.pop(fd, None)
            if timer is not None:
                timer.cancel()
        return True

    def look_again(self) -> None:
        """Look at those that wait for locks, when something has changed in a server."""
        if not self._changed or not self._blocked:
            return
        self._changed = False
        for fd in list(self._blocked):
            if fd in self._blocked:
                del self._blocked[fd]
                self._read(fd, known=True)

    def changed(self) -> None:
        """Say that something has changed in a server."""
        self._changed = True

    def tidy(self) -> None:
        """Have servers note which sockets were closed."""
        for fd, port in list(self._ports.items()):
            if line_of(fd, port) != port:
                self._forget(fd, port)

    def hurry(self) -> None:
        """Have all answers that are there read now."""
        for fd in list(self._timers):
            self._timers.pop(fd).cancel()
            self._fire(fd)

    # --- within

    def _cut(self, fd: int, port: int) -> None:
        """What the kernel does with the socket of a process that is killed."""
        if line_of(fd, port) == port:
            with socket.socket(fileno=os.dup(fd)) as own:
                own.shutdown(socket.SHUT_RDWR)
        for writing in (False, True):
            self.remove(fd, writing=writing)
        self._forget(fd, port)

    def _forget(self, fd: int, port: int) -> None:
        if self._ports.get(fd) == port:
            del self._ports[fd]
        self._due.pop(fd, None)
        self.ended(port)
        self._changed = True

    def _read(self, fd: int, *, known: bool = False) -> None:
        """Wait for the answer, and have it read when its time has come."""
        port = self._ports.get(fd, 0)
        self.waits += 1
        if not self._settle(fd, port, known=known):
            self._blocked[fd] = None
            self.blocked(port)
            return
        after = self.after.pop(port, None)
        if after is not None and not _has_failed(fd):
            after()
        self._changed = True
        if fd not in self._due:
            self._due[fd] = self._loop.time() + self.delay(port)
        due = max(self._due[fd], self._loop.time())
        self._timers[fd] = self._loop.call_at(due, self._fire, fd)

    def _fire(self, fd: int) -> None:
        self._due.pop(fd, None)
        self._timers.pop(fd, None)
        handle = self._readers.get(fd)
        if handle is not None:
            self._loop.resume([handle])

    def wake(self, fd: int) -> None:
        """Have it read now, whatever is there."""
        timer = self._timers.pop(fd, None)
        if timer is not None:
            timer.cancel()
        self._blocked.pop(fd, None)
        self._fire(fd)

    def _settle(self, fd: int, port: int, *, known: bool) -> bool:
        """Wait for a whole answer; false when the server waits for a lock."""
        if _is_whole(fd):
            return True
        if known and self.stuck(port):
            return False
        begun = entropy.real_monotonic()
        looked = begun
        while not _is_whole(fd):
            now = entropy.real_monotonic()
            if now - begun > REAL_SECONDS:
                raise TimeoutError(f"a real server does not answer at local port {port}")
            if (now - looked) * 1000 > _LOOK_MILLISECONDS:
                looked = now
                if self.stuck(port) and not _is_whole(fd):
                    return False
            _poll(fd, select.POLLIN, 0.005)
        return True


def line_of(fd: int, known: int = 0) -> int:
    """Both ports of a socket in one number, 0 where it is none or closed.

    The local port alone may belong to connections with two servers. ``known`` is what it was: of
    a connection that has ended the system does not tell the other end any more.
    """
    try:
        with socket.socket(fileno=os.dup(fd)) as own:
            name = own.getsockname()
            local = int(name[1]) if isinstance(name, tuple) else 0
            try:
                return (int(own.getpeername()[1]) << 16) + local
            except OSError:
                return known if known & 0xFFFF == local else local
    except OSError:
        return 0


def _poll(fd: int, mask: int, seconds: float) -> int:
    poll = select.poll()
    poll.register(fd, mask | select.POLLRDHUP)
    found = poll.poll(seconds * 1000)
    return found[0][1] if found else 0


def _is_whole(fd: int) -> bool:
    """Whether all of an answer has come, or the connection is over."""
    events = _poll(fd, select.POLLIN, 0.0)
    if events & _GONE:
        return True
    if not events & select.POLLIN:
        return False
    data = _peek(fd)
    if is_answer(data) or len(data) >= _LARGE:
        return True
    # More is under way, and the poll would not wait for it.
    time.sleep(0.0002)
    return False


def _peek(fd: int) -> bytes:
    with socket.socket(fileno=os.dup(fd)) as own:
        try:
            return own.recv(1 << 17, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return b""


def _has_failed(fd: int) -> bool:
    """Whether a server answers with an error, or not at all."""
    data = _peek(fd)
    at = 0
    while at + 5 <= len(data):
        kind, length = struct.unpack_from("!BI", data, at)
        if kind == _ERROR:
            return True
        at += 1 + length
    return not data


def is_answer(data: bytes) -> bool:
    """Whether these are whole messages, the last of which leaves the word to the client.

    https://www.postgresql.org/docs/current/protocol-message-formats.html
    """
    at, last, kind = 0, 0, 0
    while at + 5 <= len(data):
        last, length = struct.unpack_from("!BI", data, at)
        if last == _AUTHENTICATION and at + 9 <= len(data):
            (kind,) = struct.unpack_from("!I", data, at + 5)
        at += 1 + length
    if at != len(data):
        return False
    return last == _READY or (last == _AUTHENTICATION and kind not in _DONE)
