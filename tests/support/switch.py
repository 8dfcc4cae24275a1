"""A TCP switch before replicas: who connects is led to the first of them that answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit


class Switch:
    """Listens on loopback while it is entered; ``targets`` are set once they are known."""

    def __init__(self) -> None:
        self.targets: Sequence[str] = ()
        self.led: list[str] = []
        """Whom each connection was led to."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    async def turn(self, *targets: str) -> None:
        """Lead to these from now on, and end the connections that were led elsewhere."""
        self.targets = targets
        joined = list(self._tasks)
        for task in joined:
            task.cancel()
        await asyncio.gather(*joined, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            for target in self.targets:
                place = urlsplit(target)
                try:
                    far = await asyncio.open_connection(place.hostname, place.port)
                except OSError:
                    continue
                self.led.append(target)
                await self._join(reader, writer, *far)
                return
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _join(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        far_reader: asyncio.StreamReader,
        far_writer: asyncio.StreamWriter,
    ) -> None:
        """Carry bytes both ways until one side ends; then both do."""
        ways = [
            asyncio.ensure_future(_carry(reader, far_writer)),
            asyncio.ensure_future(_carry(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Before the wait, which a second cancellation would end.
            far_writer.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
