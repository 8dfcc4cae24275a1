"""Notes when a server is away, and tells work queues when it answers again.

Errors of requests that fail meanwhile carry the :class:`Outages` of their server, so that a queue
that tries them again can listen there, however many servers there are.
"""

from __future__ import annotations

import asyncio
import math
from typing import Protocol
from weakref import WeakKeyDictionary


LONG_SECONDS = 5.0
"""Seconds from the first failure of an outage to its last, from which on its end is reported.

Back-offs grow no longer than the outage has lasted. A client that fails alone, while the server
answers others, is in no outage.
"""
MOMENT_SECONDS = 1.0
"""Seconds after the first answer until the end is reported: failed requests are queued by then."""
APART_SECONDS = 30.0
"""Seconds between two reported ends, at least; doubled after each."""
MOST_APART_SECONDS = 960.0
"""Seconds up to which the doubling goes: about the longest back-off of a key."""
WELL_SECONDS = 120.0
"""Seconds without a failure, after which the end of the next outage is reported at once."""

_AWAY = frozenset({401, 502, 503, 504})
"""HTTP codes that concern the whole server: a proxy fails before it, or it knows no user."""


class OutageListener(Protocol):
    """A work queue that retries failures; listeners are held weakly."""

    def recovered(self, outages: Outages) -> None:
        """Take note that the server answers again."""
        ...


class Outages:
    """The outages of one server for one client, derived from answers to its requests.

    An outage is over with the first answer. Its end is told a moment after, but later where
    another one's was told not long ago. Where the server has gone away again by then, it is told
    with the end of that outage.
    """

    def __init__(self) -> None:
        self._first: float | None = None
        self._long = False
        self._answered = self._ended = self._told = -math.inf
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
        """Note an answer; a write may get a 500 because of a webhook, a read may not."""
        if status in _AWAY or (status >= 500 and method == "GET"):
            self.failed()
        elif self._first is not None and status < 500 and status != 429:
            self._over()

    def failed(self, since: float | None = None) -> None:
        """Note that there was no answer to a request that was sent at this time of the loop."""
        now = asyncio.get_running_loop().time()
        lasting = self.lasting
        if self._first is None:
            self._first = now
            if now - self._answered > WELL_SECONDS:
                self._apart = 0.0
        if not lasting and since is not None and since < self._ended:
            # The request was sent during an outage whose end was reported before the request
            # failed.
            self._long = True
            self._tell_later()
            return
        self._long = self._long or now - self._first >= LONG_SECONDS
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
            due = max(loop.time() + MOMENT_SECONDS, self._told + self._apart)
            self._timer = loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._first, self._timer, self._long = None, None, False
        self._told = asyncio.get_running_loop().time()
        self._apart = min(max(APART_SECONDS, 2 * self._apart), MOST_APART_SECONDS)
        for listener in list(self._listeners):
            listener.recovered(self)


def outages_of(error: BaseException | None) -> Outages | None:
    """Find the outages of the server in one of which this error, or its cause, was raised."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            found = (outages_of(one) for one in error.exceptions)
            return next((one for one in found if one is not None), None)
        outages: Outages | None = getattr(error, "outages", None)
        if outages is not None:
            return outages
        error = error.__cause__
    return None
