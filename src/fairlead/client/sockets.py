"""The sockets of one client: kept alive by the kernel, and all gone when the client is closed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any
from weakref import WeakSet


# The loop reads the end of a connection in one pass and closes its socket some passes later.
_PASSES = 100


class Sockets:
    """Makes sockets for a connector, and ends those that outlive it."""

    def __init__(self) -> None:
        self._made: WeakSet[socket.socket] = WeakSet()

    def make(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket whose kernel notices within a minute that the other end is gone."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._made.add(made)
        return made

    async def close(self) -> None:
        """Ends every connection that is left.

        A connector forgets a TLS connection whose request was given up, while its transport waits
        up to 30 s for the peer's farewell. Without both directions there is nothing to wait for.
        """
        for left in self._left():
            with contextlib.suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        for _ in range(_PASSES):
            if not self._left():
                return
            await asyncio.sleep(0)

    def _left(self) -> list[socket.socket]:
        return [made for made in self._made if made.fileno() >= 0]
