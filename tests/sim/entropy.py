"""Clocks and dice of this Python: real ones, until a simulation takes them over.

:func:`install` has to run before any module that says ``from time import monotonic``.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable


EPOCH = 1_767_225_600.0
"""Seconds since 1970 at which each simulation begins: the first of January 2026, midnight, UTC."""
BOOTED = 1_000.0
"""What the monotonic clock shows at the beginning of each simulation, in seconds."""

real_monotonic = time.monotonic
"""The machine's own clock, for what is measured about the simulator."""
_real_time = time.time
_real_perf_counter = time.perf_counter
_real_thread_time = time.thread_time
_real_urandom = os.urandom

_elapsed: Callable[[], float] | None = None
_skew: Callable[[], float] | None = None
_dice = random.Random()


def install() -> None:
    """Replace the functions that say the time and throw dice; they stay real for now."""
    time.time = _time
    time.monotonic = _monotonic
    time.perf_counter = _perf_counter
    time.thread_time = _thread_time
    os.urandom = _urandom
    random._urandom = _urandom  # type: ignore[attr-defined]


def begin(seed: str, elapsed: Callable[[], float], skew: Callable[[], float]) -> None:
    """From now on time is what is simulated, and all dice come from the seed.

    Args:
        seed: any text.
        elapsed: simulated seconds since the beginning.
        skew: by how many seconds the wall clock of the process that asks is wrong.
    """
    global _elapsed, _skew
    _elapsed, _skew = elapsed, skew
    random.seed(f"{seed}/random")
    _dice.seed(f"{seed}/urandom")


def _time() -> float:
    return _real_time() if _elapsed is None else EPOCH + _elapsed() + (_skew() if _skew else 0.0)


def _monotonic() -> float:
    return real_monotonic() if _elapsed is None else BOOTED + _elapsed()


def _perf_counter() -> float:
    return _real_perf_counter() if _elapsed is None else BOOTED + _elapsed()


def _thread_time() -> float:
    # What is worked out costs no simulated time: budgets of processor time are never used up.
    return _real_thread_time() if _elapsed is None else 0.0


def _urandom(size: int) -> bytes:
    return _real_urandom(size) if _elapsed is None else _dice.randbytes(size)
