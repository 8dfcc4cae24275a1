"""Gives memory back to the system when many connections have come and gone.

uvloop gives each TLS connection a buffer of 256 KiB, of which the pages that were used stay with
the C library when it is closed, as holes that the next connections lie in otherwise: 2,000 that
are opened at once and closed, time after time, leave some 45 MiB more each. Nothing but
malloc_trim(3) gives them back.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from functools import lru_cache


MANY = 200
"""Connections, opened or closed, after which there may be something worth giving back."""
QUIET_SECONDS = 2.0
"""Seconds with less than a tenth of :data:`MANY`, after which the burst is over."""
REST_SECONDS = 70.0
"""Seconds after the burst, by which open TLS handshakes are given up (asyncio: 60 s)."""


class Connections:
    """Counts connections that are opened and closed, and calls ``trim`` when many were."""

    def __init__(self, trim: Callable[[], None] | None = None) -> None:
        self._trim = trim or give_back
        self._seen = 0
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last: asyncio.TimerHandle | None = None

    def one(self) -> None:
        """One was opened, or closed."""
        self._count += 1
        if self._count >= MANY and self._timer is None:
            self._look_later()

    def close(self) -> None:
        """Look no more."""
        for timer in (self._timer, self._last):
            if timer is not None:
                timer.cancel()
        self._timer = self._last = None
        self._count = 0

    def _look_later(self) -> None:
        self._seen = self._count
        self._timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._look)

    def _look(self) -> None:
        if self._count - self._seen > MANY // 10:
            self._look_later()
            return
        self.close()
        self._trim()
        self._last = asyncio.get_running_loop().call_later(REST_SECONDS, self._trim)


def give_back() -> None:
    """Give free memory back to the system, where the C library is one that can."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        # macOS and musl have none, and hold back less.
        return None
    trim.argtypes = (ctypes.c_size_t,)
    trim.restype = ctypes.c_int
    found: Callable[[int], int] = trim
    return found
