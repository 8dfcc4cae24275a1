"""Outages of an API server: their detection, and a notice to work queues when they end.

Errors of requests that fail during an outage carry the :class:`Outages` of their server: a work
queue that retries them listens there, so that one queue may serve many servers.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol
from weakref import WeakKeyDictionary

from fairlead.client import limits


_AWAY = frozenset({401, 502, 503, 504})
"""HTTP codes that concern the whole server: a proxy fails before it, or it knows no user."""


class OutageListener(Protocol):
    """A work queue that retries failures; listeners are held weakly."""

    def recovered(self, outages: Outages) -> None:
        """Take note that the server answers again."""
        ...


class Outages:
    """Outages of one server for one client, derived from answers to its requests.

    The first answer ends an outage. Listeners are told ``MOMENT_SECONDS`` after it, or later
    if they were told of another end recently. If the server fails again before that, they are told
    at the end of the next outage.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._long = False
        self._answered = self._ended = self._logged = -math.inf
        self._apart = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._listeners: WeakKeyDictionary[OutageListener, None] = WeakKeyDictionary()

    @property
    def lasting(self) -> bool:
        """Whether no request was answered since one has failed."""
        return self._first is not None and self._timer is None

    def listen(self, listener: OutageListener) -> None:
        """Add a listener; adding it again has no effect."""
        self._listeners[listener] = None

    def answered(self, method: str, status: int) -> None:
        """Record an answer, which ends an outage or counts as a failure.

        A write may get a 500 because of a webhook; a 500 to a read is the server's own.
        """
        if status in _AWAY or (status >= 500 and method == "GET"):
            self.failed()
        # A 500 to a write and a 429 prove neither that the server is well nor that it is away.
        elif self._first is not None and status < 500 and status != 429:
            self._over()

    def failed(self, since: float | None = None) -> None:
        """Record a request without an answer, sent at ``since`` by the event loop's clock."""
        now = asyncio.get_running_loop().time()
        lasting = self.lasting
        if self._first is None:
            self._first = now
            if now - self._answered > limits.WELL_SECONDS:
                self._apart = 0.0
        if not lasting and since is not None and since < self._ended:
            # The request was sent during an outage whose end was reported before the request
            # failed.
            self._long = True
            self._tell_later()
            return
        self._long = self._long or now - self._first >= limits.OUTAGE_SECONDS
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        if not self.lasting:
            return
        self._answered = asyncio.get_running_loop().time()
        if self._long:
            self._ended = self._answered
            self._tell_later()
        else:
            self._first = None

    def _tell_later(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            due = max(loop.time() + limits.MOMENT_SECONDS, self._logged + self._apart)
            self._timer = loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._first, self._timer, self._long = None, None, False
        self._logged = asyncio.get_running_loop().time()
        self._apart = min(max(limits.APART_SECONDS, 2 * self._apart), limits.MOST_APART_SECONDS)
        for listener in list(self._listeners):
            listener.recovered(self)


def outages_of(error: BaseException | None) -> Outages | None:
    """Return the outages that an error or one of its causes carries, None without any."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            nested = (outages_of(one) for one in error.exceptions)
            return next((one for one in nested if one is not None), None)
        outages: Outages | None = getattr(error, "outages", None)
        if outages is not None:
            return outages
        error = error.__cause__
    return None
