"""Return of free memory to the system after many connections were opened and closed.

uvloop gives each TLS connection a buffer of 256 KiB. The used pages of a closed connection stay
with the C library, between blocks that are in use: 2,000 connections, opened at once and closed
again, leave some 45 MiB more each time. Only malloc_trim(3) returns them.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from functools import lru_cache


MANY = 200
"""Connections opened or closed, from which on memory is returned once the burst is over."""
QUIET_SECONDS = 2.0
"""Seconds with at most a tenth of :data:`MANY` connections, after which a burst is over."""
REST_SECONDS = 70.0
"""Seconds after the burst until memory is returned again; asyncio ends TLS handshakes after 60."""


class Connections:
    """Counts opened and closed connections, and calls ``trim`` after a burst of them."""

    def __init__(self, trim: Callable[[], None] | None = None) -> None:
        self._trim = trim or give_back
        self._before = 0
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last: asyncio.TimerHandle | None = None

    def count(self) -> None:
        """Count one opened or closed connection."""
        self._count += 1
        if self._count >= MANY and self._timer is None:
            self._look_later()

    def close(self) -> None:
        """Cancel the timers and start the count anew."""
        for timer in (self._timer, self._last):
            if timer is not None:
                timer.cancel()
        self._timer = self._last = None
        self._count = 0

    def _look_later(self) -> None:
        self._before = self._count
        self._timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._release)

    def _release(self) -> None:
        if self._count - self._before > MANY // 10:
            self._look_later()
            return
        self.close()
        self._trim()
        self._last = asyncio.get_running_loop().call_later(REST_SECONDS, self._trim)


# The same call as in fairlead.runtime.controller.memory, which the sandbox may not import: of
# fairlead it knows the API's types alone. The counts differ too, passes there, connections here.
def give_back() -> None:
    """Return free memory to the system, if the C library has malloc_trim."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        # macOS and musl lack malloc_trim, and hold back less.
        return None
    trim.argtypes = (ctypes.c_size_t,)
    trim.restype = ctypes.c_int
    function: Callable[[int], int] = trim
    return function
