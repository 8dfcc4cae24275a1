"""Bounds of requests: rates by token buckets, and deadlines on one shared timer.

Rates count per address, per person, and for all together. A limit per address does not bound the
total, since one client may have many addresses; so the requests that leave objects behind also
share one bucket. Memory is bounded: the buckets that were used longest ago are dropped, and by
then are full or nearly so.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal

from aiohttp import web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.requests import neighbourhood
from fairlead.portal.options import Limits, Rate


Clock = Callable[[], float]
"""Function that returns a time in seconds, of a clock that never goes back."""
What = Literal["request", "bind"]
"""Requests that have buckets per person: each one, and binds."""
SIGN_INS = ("/api/authorize", "/api/callback", "/api/token", "/oidc/")
"""Path prefixes that need no sign-in and leave an object or a cookie behind."""


class Buckets:
    """Token buckets of at most ``most`` keys; a full bucket holds ``rate.burst`` tokens."""

    def __init__(self, rate: Rate, most: int, clock: Clock = time.monotonic) -> None:
        self._rate = rate
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> float:
        """Take a token; return 0, or the seconds until the next token if the bucket is empty."""
        rate = self._rate
        if not rate.per_second:
            return 0.0
        now = self._clock()
        # Removed and set again below, so that the order of the dictionary is that of use.
        tokens, since = self._buckets.pop(key, (float(rate.burst), now))
        tokens = min(float(rate.burst), tokens + (now - since) * rate.per_second)
        wait = 0.0
        if tokens >= 1.0:
            tokens -= 1.0
        else:
            # No token is taken: a client that goes on asking does not wait longer for it.
            wait = (1.0 - tokens) / rate.per_second
        self._buckets[key] = (tokens, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


class Limiter:
    """The buckets of one replica."""

    def __init__(self, limits: Limits, clock: Clock = time.monotonic) -> None:
        def buckets(rate: Rate) -> Buckets:
            return Buckets(rate, limits.addresses, clock)

        self._addresses = buckets(limits.per_address)
        self._signing = buckets(limits.sign_ins_per_address)
        self._sign_ins = buckets(limits.sign_ins)
        self._people: dict[What, Buckets] = {
            "request": buckets(limits.per_person),
            "bind": buckets(limits.binds_per_person),
        }
        self._binds = buckets(limits.binds)

    def address(self, address: str, path: str) -> None:
        """Count a request against its address's buckets.

        Raises:
            Refusal: a bucket is empty.
        """
        key = neighbourhood(address)
        _refuse(self._addresses.take(key))
        if path.startswith(SIGN_INS):
            # The shared bucket comes last: an address that is over its own limit must not use up
            # the others' tokens.
            _refuse(self._signing.take(key))
            _refuse(self._sign_ins.take(""))

    def person(self, author: str, what: What = "request") -> None:
        """Count a request or a bind against a person's buckets.

        Raises:
            Refusal: they have to wait.
        """
        _refuse(self._people[what].take(author))
        if what == "bind":
            _refuse(self._binds.take(""))


LIMITER: web.AppKey[Limiter] = web.AppKey("LIMITER", Limiter)


def count(request: web.Request, author: str, what: What = "request") -> None:
    """Count a request or a bind of a signed-in person; the guard counts every request.

    Raises:
        Refusal: they have to wait.
    """
    limiter = request.app.get(LIMITER)
    if limiter is not None:
        limiter.person(author, what)


def _refuse(wait: float) -> None:
    if wait:
        raise Refusal(
            429,
            ErrorCode.BAD_REQUEST,
            "too many requests; wait before the next",
            retry_after=wait,
        )


class Deadlines:
    """Cancels tasks that run longer than ``seconds``, and remembers which it canceled.

    All tasks have the same limit, so the oldest is due first, and the timer sleeps until then.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begun: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Start the deadline of a task; :meth:`end` has to follow."""
        loop = task.get_loop()
        self._begun[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look, loop)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Stop the deadline; return True if it had canceled the task, after undoing that."""
        self._begun.pop(task, None)
        if task not in self._overdue:
            return False
        self._overdue.discard(task)
        # A task can be canceled by several: with a number above 0 the cancellation of another,
        # such as a server that stops, has to go on.
        return not task.uncancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks that are due, and set the timer to the next one."""
        self._timer = None
        now = loop.time()
        # In the order of their beginning, so the first that has time left ends the walk.
        for task, begun in list(self._begun.items()):
            left = begun + self._seconds - now
            if left > 0:
                self._timer = loop.call_later(left, self._look, loop)
                return
            del self._begun[task]
            self._overdue.add(task)
            task.cancel()
