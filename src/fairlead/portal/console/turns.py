"""Turns for pages: what one person asks for takes a share of the event loop, and no more.

A page of thousands of objects takes a tenth of a second to render, and limits count requests
alone. So a person's pages are rendered one after the other, and after a costly one the next waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.errors import Refusal


FREE_SECONDS = 0.05
"""CPU seconds of a page after which nothing waits."""
SHARE = 4.0
"""A person's next page waits for so many times what the last one took."""
LONGEST_SECONDS = 5.0
"""Seconds that a page waits for the one before it, at most."""
WAITING = 20
"""Pages of one person that may wait; more are refused."""


class _Queue:
    """The pages of one person that are asked for."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.asked = 0
        self.until = 0.0


class Turns:
    """Gives each person one page at a time; ``cost`` tells CPU seconds so far."""

    def __init__(self, cost: Callable[[], float] = time.thread_time) -> None:
        self._cost = cost
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def of(self, author: str) -> AsyncIterator[None]:
        """Wait for a person's turn, and render a page within it.

        Raises:
            Refusal: too many pages of the person wait already.
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
        """Drop the queues of people whose pages neither wait nor rest."""
        for author in [
            author
            for author, queue in self._queues.items()
            if not queue.asked and queue.until <= now
        ]:
            del self._queues[author]
