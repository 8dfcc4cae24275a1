"""The sockets of one client: kept alive by the kernel, and all gone when the client is closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any
from weakref import WeakSet


# The loop reads the end of a connection in one pass and closes its socket some passes later.
_PASSES = 100


class Socket(socket.socket):
    """A socket that never touches a descriptor which is not its own any more.

    When a server resets a connection as it begins, uvloop closes the descriptor and does not tell
    the socket object. The number is soon somebody else's, and would be closed with this object.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._inode = os.fstat(self.fileno()).st_ino

    @property
    def open(self) -> bool:
        """Whether the connection is there; numbers of inodes are not used again soon."""
        try:
            return os.fstat(self.fileno()).st_ino == self._inode
        except OSError:
            return False

    def __del__(self) -> None:
        if not self.open:
            self.detach()
        super().__del__()  # type: ignore[misc]


class Sockets:
    """Makes sockets for a connector, and ends those that outlive it."""

    def __init__(self) -> None:
        self._made: WeakSet[Socket] = WeakSet()

    def make(self, address: tuple[Any, ...]) -> Socket:
        """A socket whose kernel notices within a minute that the other end is gone."""
        family, kind, protocol, *_ = address
        made = Socket(family, kind, protocol)
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

    def _left(self) -> list[Socket]:
        return [made for made in self._made if made.open]
