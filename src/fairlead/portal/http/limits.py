"""How often: token buckets for addresses, for people, and for all together.

A bound for each is none for all, since one client may have many addresses; so what leaves
objects behind also has a bucket that everyone shares. All memory is bounded: of those that were
seen longest ago the bucket is forgotten, which is full by then or soon.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

from aiohttp import web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.addresses import neighbourhood
from fairlead.portal.http.errors import Refusal
from fairlead.portal.options import Limits, Rate


Clock = Callable[[], float]
What = Literal["request", "bind"]
SIGN_INS = ("/api/authorize", "/api/callback", "/api/token", "/oidc/")
"""Paths, or how they begin, that strangers ask, and that leave something behind."""


class Buckets:
    """A bucket for each of at most ``most`` keys; each holds ``rate.burst`` tokens when full."""

    def __init__(self, rate: Rate, most: int, clock: Clock = time.monotonic) -> None:
        self._rate = rate
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there will be."""
        rate = self._rate
        if not rate.per_second:
            return 0.0
        now = self._clock()
        tokens, seen = self._buckets.pop(key, (float(rate.burst), now))
        tokens = min(float(rate.burst), tokens + (now - seen) * rate.per_second)
        wait = 0.0
        if tokens >= 1.0:
            tokens -= 1.0
        else:
            wait = (1.0 - tokens) / rate.per_second
        self._buckets[key] = (tokens, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait


class Limiter:
    """The buckets of a server, which count for one replica each."""

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
        """Count a request of an address.

        Raises:
            Refusal: it has to wait.
        """
        key = neighbourhood(address)
        _refuse(self._addresses.take(key))
        if path.startswith(SIGN_INS):
            # That of all comes last: an address that has to wait takes nothing from others.
            _refuse(self._signing.take(key))
            _refuse(self._sign_ins.take(""))

    def person(self, author: str, what: What = "request") -> None:
        """Count what a person does.

        Raises:
            Refusal: they have to wait.
        """
        _refuse(self._people[what].take(author))
        if what == "bind":
            _refuse(self._binds.take(""))


LIMITER: web.AppKey[Limiter] = web.AppKey("LIMITER", Limiter)


def count(request: web.Request, author: str, what: What = "request") -> None:
    """Count what a signed-in person does; the guard does it for every request.

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
