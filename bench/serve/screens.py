"""Open pages: streams that are read as browsers read them, and what a change takes to reach all.

A screen has a change when the bytes with its mark have come; where in the page they are is not
looked at, so that the server is what takes the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from bench.serve.asking import Place


OF_AN_ADDRESS = 100
"""Streams of one address of loopback: the front door bounds them."""
SECONDS = 60.0
"""Seconds after which a screen that has no change yet is taken for broken."""


class Screens(NamedTuple):
    """Seconds until each change was on every screen, and bytes of the server's memory."""

    streams: int
    changes: list[float]
    before: int
    """Resident, without any stream."""
    after: int
    """Resident, with all streams open, after the last change."""


class _Screen:
    """One stream; ``mark`` is what is waited for."""

    def __init__(self, place: Place, address: str) -> None:
        self._place = place
        self._address = address
        self._mark = b""
        self._seen = asyncio.Event()
        self.opened = asyncio.Event()

    def expect(self, mark: bytes) -> None:
        """Wait for these bytes from now on."""
        self._mark = mark
        self._seen.clear()

    async def seen(self) -> None:
        """Return when they have come."""
        await self._seen.wait()

    async def run(self) -> None:
        """Read until cancelled."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._place.port, local_addr=(self._address, 0)
        )
        try:
            writer.write(self._place.request())
            tail = b""
            while some := await reader.read(65536):
                if not self.opened.is_set():
                    if not some.startswith(b"HTTP/1.1 200 "):
                        raise RuntimeError(f"a stream was answered by {some[:300]!r}")
                    self.opened.set()
                if self._mark and self._mark in tail + some:
                    self._seen.set()
                tail = some[-64:]
            raise RuntimeError("a stream has ended")
        finally:
            writer.close()


@asynccontextmanager
async def opened(places: Sequence[Place]) -> AsyncIterator[list[_Screen]]:
    """Open a stream at each place, for as long as the block lasts."""
    screens = [
        _Screen(place, f"127.0.0.{2 + number // OF_AN_ADDRESS}")
        for number, place in enumerate(places)
    ]
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[None]] = []
        for screen in screens:
            tasks.append(group.create_task(screen.run()))
            await screen.opened.wait()
        yield screens
        for task in tasks:
            task.cancel()


async def watch(
    places: Sequence[Place],
    change: Callable[[str], Awaitable[None]],
    resident: Callable[[], int],
    *,
    changes: int,
) -> Screens:
    """Make one change a second, and time each from its writing to the last screen."""
    before = resident()
    found: list[float] = []
    async with opened(places) as screens, asyncio.timeout(SECONDS + 2 * changes):
        for number in range(changes):
            mark = f"change-{number:04}-made"
            for screen in screens:
                screen.expect(mark.encode())
            begun = time.monotonic()
            await change(mark)
            for screen in screens:
                await screen.seen()
            found.append(time.monotonic() - begun)
            await asyncio.sleep(max(0.0, begun + 1.0 - time.monotonic()))
        return Screens(len(places), found, before, resident())
