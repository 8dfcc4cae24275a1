"""Return of free memory to the system after a burst of work.

The C library keeps the memory that thousands of passes have freed, as holes between objects that
are still in use; malloc_trim(3) returns the holes to the system. It is called twice: after the
burst, and after the idle connections of the burst are closed, whose buffers lie among the holes.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from functools import lru_cache

from fairlead.client import limits


REST_SECONDS = 2 * limits.IDLE_SECONDS + 3
"""Seconds after a burst until its connections are closed: aiohttp checks once per keep-alive."""


class Bursts:
    """Counts passes, and calls ``trim`` after each burst of them."""

    def __init__(self, trim: Callable[[], None] | None = None) -> None:
        self._trim = trim or give_back
        self._done = 0
        self._before = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Count the start as a burst: lists were decoded and modules loaded."""
        if self._timer is None:
            self._look_later()

    def worked(self) -> None:
        """Count one pass."""
        self._done += 1
        if self._done >= limits.BURST and self._timer is None:
            self._look_later()

    def close(self) -> None:
        """Cancel the timer."""
        for timer in (self._timer, self._last):
            if timer is not None:
                timer.cancel()
        self._timer = self._last = None
        self._done = 0

    def _look_later(self) -> None:
        if self._last is not None:
            # The next burst ends with a call of its own.
            self._last.cancel()
            self._last = None
        self._before = self._done
        self._timer = asyncio.get_running_loop().call_later(limits.QUIET_SECONDS, self._release)

    def _release(self) -> None:
        if self._done - self._before > limits.BURST // 10:
            self._look_later()
            return
        self.close()
        self._trim()
        self._last = asyncio.get_running_loop().call_later(REST_SECONDS, self._trim)


def give_back() -> None:
    """Give free memory back to the system, if the C library has malloc_trim."""
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
