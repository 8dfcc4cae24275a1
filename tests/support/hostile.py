"""Servers that stand in for PostgreSQL and mean ill: they talk without end.

https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

from fairlead.demo.postgres.server import EmbeddedPostgres


Flood = Callable[[], Iterator[bytes]]


def message(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + struct.pack("!i", len(body) + 4) + body


def refusal(state: str, text: str) -> bytes:
    fields = ("SFATAL", f"C{state}", f"M{text}")
    return message(b"E", *(field.encode() + b"\0" for field in fields), b"\0")


def wants(kind: int, said: bytes = b"") -> bytes:
    """A message of authentication."""
    return message(b"R", struct.pack("!i", kind), said)


def parameter(name: str, value: str) -> bytes:
    return message(b"S", name.encode(), b"\0", value.encode(), b"\0")


_PARAMETERS = {
    "server_version": "18.0",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
    "application_name": "fairlead-postgres",
}
_IDLE = message(b"Z", b"I")
LOGIN_OK = wants(0)
ASK_MD5 = wants(5, b"salt")
ASK_SCRAM = wants(10, b"SCRAM-SHA-256\0\0")
MOST_ROUNDS = 2147483647
"""That libpq would work out."""
_COLUMN = b"?column?\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 1)
_ROWS_FOLLOW = message(b"1") + message(b"2") + message(b"T", struct.pack("!h", 1), _COLUMN)


def _row(size: int) -> bytes:
    return message(b"D", struct.pack("!hi", 1, size), b"x" * size)


def rows(size: int = 1000) -> Iterator[bytes]:
    yield _ROWS_FOLLOW
    yield from itertools.repeat(_row(size) * 50)


def empty_rows() -> Iterator[bytes]:
    """As many as there can be in so many bytes."""
    yield _ROWS_FOLLOW
    yield from itertools.repeat(message(b"D", struct.pack("!hi", 1, -1)) * 3000)


def notices() -> Iterator[bytes]:
    yield from itertools.repeat(message(b"N", b"SNOTICE\0", b"M" + b"x" * 1000, b"\0\0") * 50)


def notifications() -> Iterator[bytes]:
    yield from itertools.repeat(
        message(b"A", struct.pack("!i", 1), b"you\0", b"x" * 1000, b"\0") * 50
    )


def parameters() -> Iterator[bytes]:
    for number in itertools.count():
        yield parameter(f"one.more{number}", "x" * 1000)


def one_row() -> Iterator[bytes]:
    """A single row that says to be as long as a gigabyte."""
    yield _ROWS_FOLLOW
    yield b"D" + struct.pack("!ihi", (1 << 30) + 10, 1, 1 << 30)
    yield from itertools.repeat(b"x" * 50_000)


class Stand:
    """Listens on loopback, and serves each connection in a task of its own."""

    def __init__(self) -> None:
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._listener is not None:
            self._listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._listener is not None
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self.serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


async def _startup(reader: asyncio.StreamReader) -> bytes:
    """What a client says first, without its length."""
    (length,) = struct.unpack("!i", await reader.readexactly(4))
    return await reader.readexactly(length - 4)


class Babbling(Stand):
    """Lets everybody in, whatever the password, and talks: at the login or when it is asked.

    ``sent`` counts the bytes that were taken off it. With a pause it talks slowly.
    """

    def __init__(self, flood: Flood, *, at_login: bool = False, pause: float = 0.0) -> None:
        super().__init__()
        self._flood = flood
        self._at_login = at_login
        self._pause = pause
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _startup(reader)
        writer.write(ASK_MD5)
        await reader.read(1 << 16)
        writer.write(LOGIN_OK)
        if not self._at_login:
            for name, value in _PARAMETERS.items():
                writer.write(parameter(name, value))
            writer.write(_IDLE)
            await reader.read(1 << 16)
        for data in self._flood():
            writer.write(data)
            await writer.drain()
            self.sent += len(data)
            await asyncio.sleep(self._pause)


class Pooler(Stand):
    """Stands between a client and a server, and keeps the options of a session, or refuses them.

    Args:
        server: where it leads to.
        refusal: what it answers to options; "" lets the session in without them.
        passes_on: let them through.
    """

    def __init__(self, server: EmbeddedPostgres, refusal: str, *, passes_on: bool) -> None:
        super().__init__()
        self._target = (server.host, server.port)
        self._refusal = refusal
        self._passes_on = passes_on

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await _startup(reader)
        words = said[4:].rstrip(b"\0").split(b"\0")
        given = dict(zip(words[::2], words[1::2], strict=True))
        if not self._passes_on and given.pop(b"options", b"") and self._refusal:
            writer.write(refusal("08P01", self._refusal))
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        try:
            words = [word for pair in given.items() for word in pair]
            body = said[:4] + b"".join(word + b"\0" for word in words) + b"\0"
            far_writer.write(struct.pack("!i", len(body) + 4) + body)
            answers = asyncio.create_task(_carry(far_reader, writer))
            await _carry(reader, far_writer)
            answers.cancel()
        finally:
            far_writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


class Stalling(Stand):
    """Leads to a server until so many statements have come over it, and hangs at the last.

    With ``answerless`` the server gets that one too, and nobody hears what came of it. What comes
    over other connections afterwards passes. ``count`` is of the statements so far.
    """

    def __init__(self, server: EmbeddedPostgres, at: int, *, answerless: bool = False) -> None:
        super().__init__()
        self._target = (server.host, server.port)
        self._answerless = answerless
        self.arm(at)

    def arm(self, at: int) -> None:
        """Hang at this statement from now on, counted from 1."""
        self._at = at
        self.count = 0
        self.reached = asyncio.Event()

    async def cut(self) -> None:
        """End all connections, as when the process at their other end has died."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await _startup(reader)
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        far_writer.write(struct.pack("!i", len(said) + 4) + said)
        answers = asyncio.create_task(_carry(far_reader, writer))
        # Who asks for a statement to be cancelled waits for the end of that connection.
        answers.add_done_callback(lambda task: None if task.cancelled() else writer.close())
        try:
            while True:
                head = await reader.readexactly(5)
                (length,) = struct.unpack("!i", head[1:])
                statement = head + await reader.readexactly(length - 4)
                hangs = head[:1] in {b"P", b"Q"} and self._counts()
                if hangs:
                    answers.cancel()
                    self.reached.set()
                if not hangs or self._answerless:
                    far_writer.write(statement)
                if hangs and not self._answerless:
                    await reader.read(-1)
                    return
        finally:
            answers.cancel()
            far_writer.transport.abort()

    def _counts(self) -> bool:
        self.count += 1
        return self.count == self._at


Answer = bytes | int
"""What a server says after the client has spoken; a number is a challenge with so many rounds."""


class Scripted(Stand):
    """Says to each connection in turn what it was told to, and ends it; the last counts for all.

    ``clients`` has what each has said.
    """

    def __init__(self, *scripts: list[Answer]) -> None:
        super().__init__()
        self._scripts = scripts
        self.clients: list[list[bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self._scripts[min(len(self.clients), len(self._scripts) - 1)]
        heard = [await _startup(reader)]
        self.clients.append(heard)
        for answer in script:
            if isinstance(answer, int):
                nonce = heard[-1].rpartition(b"r=")[2]
                answer = wants(11, b"r=" + nonce + b"+,s=c2FsdA==,i=%d" % answer)  # noqa: PLW2901
            writer.write(answer)
            heard.append(await reader.read(1 << 16))
