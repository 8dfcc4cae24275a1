"""Frequency of Python's search for reference cycles."""

from __future__ import annotations

import gc


THRESHOLDS = (50_000, 20, 50)
"""Thresholds of :func:`gc.set_threshold`, in objects and in collections.

Imports and decoding make many objects and few cycles; the defaults triple their cost.
"""


def relax() -> None:
    """Look for cycles less often than by default."""
    gc.set_threshold(*THRESHOLDS)
