"""Turns for pages: one person's pages take only a share of the event loop.

A page of thousands of objects takes a tenth of a second to render, and rate limits only count
requests. So a person's pages are rendered one by one, with a pause after an expensive one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.errors import Refusal


FREE_SECONDS = 0.05
"""CPU time of a page that causes no pause, in seconds."""
SHARE = 4.0
"""Pause before a person's next page, as a multiple of the last one's CPU time."""
LONGEST_SECONDS = 5.0
"""Longest pause, in seconds."""
WAITING = 20
"""Largest number of a person's waiting pages; more are refused."""


class _Queue:
    """One person's turns: ``asked`` pages render or wait, and no page begins before ``until``."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.asked = 0
        self.until = 0.0


class PageTurns:
    """Gives each person one page at a time; ``cost`` returns the CPU seconds used so far."""

    def __init__(self, cost: Callable[[], float] = time.thread_time) -> None:
        self._cost = cost
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def of(self, author: str) -> AsyncIterator[None]:
        """Wait for a person's turn; the block renders the page.

        Raises:
            Refusal: too many pages of the person are waiting.
        """
        queue = self._queues.setdefault(author, _Queue())
        if queue.asked >= WAITING:
            raise Refusal(
                429,
                ErrorCode.BAD_REQUEST,
                "too many pages at a time; wait before the next",
                retry_after=LONGEST_SECONDS,
            )
        queue.asked += 1
        loop = asyncio.get_running_loop()
        try:
            async with queue.lock:
                await asyncio.sleep(max(0.0, queue.until - loop.time()))
                # After the wait, during which the thread works for other people.
                before = self._cost()
                try:
                    yield
                finally:
                    cost = self._cost() - before
                    rest = SHARE * cost if cost > FREE_SECONDS else 0.0
                    queue.until = loop.time() + min(rest, LONGEST_SECONDS)
        finally:
            queue.asked -= 1
            self._forget(loop.time())

    def _forget(self, now: float) -> None:
        """Drop the queues without waiting pages and without a pause."""
        for author in [
            author
            for author, queue in self._queues.items()
            if not queue.asked and queue.until <= now
        ]:
            del self._queues[author]
