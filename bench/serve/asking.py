"""Requests at full speed over connections that are kept open.

A request is encoded once, and of an answer its status and its length are read alone, so that the
server is what takes the time, whichever it is. The client never sleeps: to wake it is work of the
server's, and a server that is fast enough to keep it busy would have none of that.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import NamedTuple, cast


_HEAD = re.compile(
    rb"HTTP/1\.1 200 .*?\r\nContent-Length: ([0-9]+)\r\n.*?\r\n\r\n", re.DOTALL | re.IGNORECASE
)
_END = b"\r\n\r\n"


class Place(NamedTuple):
    """What is asked: a path of a server on loopback, by a token where one is needed."""

    port: int
    path: str
    token: str = ""

    def request(self) -> bytes:
        """Encode the request."""
        lines = [f"GET {self.path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*lines, "", ""]).encode()


class Pace(NamedTuple):
    """Answers, and the seconds that they took."""

    answers: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


class _Turns:
    """How many requests are left to send, and until when."""

    def __init__(self, most: int, until: float) -> None:
        self.answers = 0
        self._left = most
        self._until = until

    def take(self) -> bool:
        """Take one request, and tell whether there was one."""
        if not self._left or time.monotonic() >= self._until:
            return False
        self._left -= 1
        return True


class _Connection(asyncio.Protocol):
    """Sends a request as soon as the one before it is answered."""

    def __init__(self, request: bytes, turns: _Turns) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._turns = turns
        self._head = b""
        self._missing = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclass of it.
        self._transport = cast("asyncio.Transport", transport)

    def begin(self) -> None:
        """Send the next request, if there is one left."""
        if self._turns.take():
            self._transport.write(self._request)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            data = self._head + data
            if _END not in data:
                self._head = data
                return
            found = _HEAD.match(data)
            if found is None:
                self._fail(f"the server answered {data[:300]!r}")
                return
            self._head = b""
            self._missing = int(found[1]) + found.end()
        self._missing -= len(data)
        if not self._missing:
            self._turns.answers += 1
            self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the server closed a connection")

    def close(self) -> None:
        self._transport.close()

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


async def ask(
    place: Place, connections: int, *, seconds: float = 3600.0, most: int = 1 << 40
) -> Pace:
    """Ask over so many connections until the seconds are over, or so many are answered.

    Raises:
        RuntimeError: an answer is not 200, or a connection was closed.
    """
    loop = asyncio.get_running_loop()
    turns = _Turns(most, time.monotonic() + seconds)
    request = place.request()
    opened: list[_Connection] = []
    try:
        for _ in range(connections):
            _, one = await loop.create_connection(
                lambda: _Connection(request, turns), "127.0.0.1", place.port
            )
            opened.append(one)
        begun = time.monotonic()
        for one in opened:
            one.begin()
        done = asyncio.gather(*(one.done for one in opened))
        while not done.done():  # noqa: ASYNC110  it is to stay awake
            await asyncio.sleep(0)
        await done
        return Pace(turns.answers, time.monotonic() - begun)
    finally:
        for one in opened:
            one.close()
