"""Looks at what no watch tells of, shared by all open pages.

A look is made for a page that is loaded, and again every few seconds as long as a stream waits
for its topic. Streams are woken when it has found something else than the look before.
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
from fairlead.portal.console.live import Hub


EVERY_SECONDS = 3.0
"""Seconds between two looks at one thing while a page with it is open."""
SHARE = 4.0
"""A look rests for so many times what it took: a slow cluster is asked less often."""
FRESH_SECONDS = 1.0
"""Seconds for which a look counts as one of now."""
FIRST_SECONDS = 5.0
"""Seconds that a page waits for a first look; it is shown without it then."""
NEXT_SECONDS = 2.0
"""Seconds that a page waits for a newer look than the one there is."""
AT_ONCE = 4
"""Looks that are under way at the same time."""
MOST = 200
"""Looks that are kept; of those without a stream the ones asked for longest ago go."""
_TICK_SECONDS = 0.5
_log = structlog.get_logger(logger_name="fairlead.portal.console")


class Seen(NamedTuple):
    """What a look has found; the last that was found, and why there is nothing newer."""

    value: Any = None
    problem: str = ""
    at: datetime | None = None
    """When ``value`` was seen; None where nothing has been yet."""


Work = Callable[[], Awaitable[Any]]
"""Finds something that can be compared; a ClientError is told on the page."""


class _Look:
    def __init__(self, work: Work) -> None:
        self.work = work
        self.seen = Seen()
        self.task: asyncio.Task[None] | None = None
        self.ended = -FRESH_SECONDS
        self.due = 0.0


class Looks:
    """Makes looks, and keeps the last of each; run it as a task."""

    name = "looks"

    def __init__(self, hub: Hub, *, every: float = EVERY_SECONDS) -> None:
        self._hub = hub
        self._every = every
        self._looks: dict[str, _Look] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def see(self, topic: str, work: Work) -> Seen:
        """What there is to see of a topic, as new as can be had in a moment."""
        look = self._looks.pop(topic, None) or _Look(work)
        # The last in this order was asked for last.
        self._looks[topic] = look
        look.work = work
        self._forget()
        if look.task is None and time.monotonic() - look.ended > FRESH_SECONDS:
            self._begin(topic, look)
        if look.task is not None:
            first = look.seen.at is None and not look.seen.problem
            await asyncio.wait({look.task}, timeout=FIRST_SECONDS if first else NEXT_SECONDS)
        return look.seen

    def again(self, topic: str) -> None:
        """Let no earlier look count as one of now: something was changed."""
        if look := self._looks.get(topic):
            look.ended, look.due = -FRESH_SECONDS, 0.0

    async def run(self) -> None:
        """Look again and again at what open pages show, until cancelled."""
        try:
            while True:
                await asyncio.sleep(_TICK_SECONDS)
                for topic, look in list(self._looks.items()):
                    due = look.task is None and look.due <= time.monotonic()
                    if due and self._hub.waits(topic):
                        self._begin(topic, look)
        finally:
            tasks = [look.task for look in self._looks.values() if look.task is not None]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    def _begin(self, topic: str, look: _Look) -> None:
        look.task = asyncio.create_task(self._look(topic, look))

    async def _look(self, topic: str, look: _Look) -> None:
        async with self._slots:
            begun = time.monotonic()
            try:
                seen = Seen(await look.work(), at=moment())
            except Exception as error:  # noqa: BLE001  a page tells what is wrong
                seen = look.seen._replace(problem=_told(error))
            finally:
                look.task = None
                look.ended = time.monotonic()
                look.due = look.ended + max(self._every, SHARE * (look.ended - begun))
        before, look.seen = look.seen, seen
        if seen[:2] != before[:2]:
            self._hub.changed(topic)

    def _forget(self) -> None:
        for topic, look in list(self._looks.items()):
            if len(self._looks) <= MOST:
                break
            if look.task is None and not self._hub.waits(topic):
                del self._looks[topic]


def _told(error: BaseException) -> str:
    """What a page says of an error: words that are made for people, or where there are some."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ClientError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the cluster has not answered in time"
    if isinstance(error, msgspec.MsgspecError):
        return f"an object there is not what it should be: {error}"
    _log.error("a look has failed", exc_info=error)
    return "the program has failed; what it wrote in the terminal says where"
