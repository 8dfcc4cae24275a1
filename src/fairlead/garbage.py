"""How often Python looks for cycles."""

from __future__ import annotations

import gc


THRESHOLDS = (50_000, 20, 50)
"""Imports and decoding make many objects and few cycles; the default triples their cost."""


def relax() -> None:
    """Look for cycles less often than by default."""
    gc.set_threshold(*THRESHOLDS)
