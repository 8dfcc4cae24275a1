"""Polling of state that cannot be watched, shared by all open pages.

A look reads the state of one topic, such as all bindings or one object. It is made when a page is
loaded, and every few seconds while a stream waits for its topic. Streams are woken if the result
differs from the previous one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import structlog

from fairlead.api.timestamps import moment
from fairlead.client import ClientError
from fairlead.portal import bounds
from fairlead.portal.console.pages.live import Hub


_log = structlog.get_logger(logger_name="fairlead.portal.console")


class SeenLook(NamedTuple):
    """The last result of a look, and the problem if a newer look failed."""

    value: Any = None
    problem: str = ""
    at: datetime | None = None
    """When ``value`` was seen; None before the first result."""


Work = Callable[[], Awaitable[Any]]
"""Function that returns a comparable result; the page shows its ClientError."""


class _Look:
    """The look of one topic; ``ended`` and ``due`` are in seconds of the monotonic clock."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.seen = SeenLook()
        self.task: asyncio.Task[None] | None = None
        self.ended = -bounds.FRESH_SECONDS
        self.due = 0.0


class Looks:
    """Makes looks, and keeps the last result of each; run it as a task."""

    name = "looks"

    def __init__(self, hub: Hub, *, every: float = bounds.LOOK_SECONDS) -> None:
        self._hub = hub
        self._every = every
        self._looks: dict[str, _Look] = {}
        self._slots = asyncio.Semaphore(bounds.LOOKS_AT_ONCE)

    async def see(self, topic: str, work: Work) -> SeenLook:
        """Return a topic's result, after a short wait for a newer one."""
        poll = self._looks.pop(topic, None) or _Look(work)
        # Moved to the end: the order is that of use.
        self._looks[topic] = poll
        poll.work = work
        self._forget()
        if poll.task is None and time.monotonic() - poll.ended > bounds.FRESH_SECONDS:
            self._begin(topic, poll)
        if poll.task is not None:
            first = poll.seen.at is None and not poll.seen.problem
            await asyncio.wait(
                {poll.task},
                timeout=bounds.FIRST_LOOK_SECONDS if first else bounds.NEXT_LOOK_SECONDS,
            )
        return poll.seen

    def again(self, topic: str) -> None:
        """Invalidate a topic's result after a change."""
        if poll := self._looks.get(topic):
            poll.ended, poll.due = -bounds.FRESH_SECONDS, 0.0

    async def run(self) -> None:
        """Repeat the looks of open pages, until canceled."""
        try:
            while True:
                await asyncio.sleep(bounds.LOOK_TICK_SECONDS)
                for topic, poll in list(self._looks.items()):
                    due = poll.task is None and poll.due <= time.monotonic()
                    if due and self._hub.waits(topic):
                        self._begin(topic, poll)
        finally:
            tasks = [poll.task for poll in self._looks.values() if poll.task is not None]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _begin(self, topic: str, poll: _Look) -> None:
        poll.task = asyncio.create_task(self._look(topic, poll))

    async def _look(self, topic: str, poll: _Look) -> None:
        async with self._slots:
            begun = time.monotonic()
            try:
                result = SeenLook(await poll.work(), at=moment())
            except Exception as error:  # noqa: BLE001  a page tells what is wrong
                result = poll.seen._replace(problem=_told(error))
            finally:
                poll.task = None
                poll.ended = time.monotonic()
                poll.due = poll.ended + max(self._every, bounds.SHARE * (poll.ended - begun))
        before, poll.seen = poll.seen, result
        # Without the time of the look, which always differs.
        if result[:2] != before[:2]:
            self._hub.changed(topic)

    def _forget(self) -> None:
        for topic, poll in list(self._looks.items()):
            if len(self._looks) <= bounds.LOOKS_KEPT:
                break
            if poll.task is None and not self._hub.waits(topic):
                del self._looks[topic]


def _told(error: BaseException) -> str:
    """Return an error's message if it is meant for people, or where to find the cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ClientError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the cluster did not answer in time"
    if isinstance(error, msgspec.MsgspecError):
        return f"an object in the cluster is malformed: {error}"
    _log.error("a look has failed", exc_info=error)
    return "the program failed; its output in the terminal says why"
