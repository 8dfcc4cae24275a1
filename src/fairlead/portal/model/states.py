"""The states of what pages show: their order and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.api.reasons.model import State


WORDS: Final[Mapping[State, str]] = {
    "failed": "failed",
    "waiting": "waiting",
    "unknown": "unknown",
    "ok": "healthy",
}
"""Words of states for people, where nothing more precise is known; the worst first."""

STATES: Final[tuple[State, ...]] = tuple(WORDS)
"""The states, the worst first."""

RANKS: Final[Mapping[State, int]] = {state: rank for rank, state in enumerate(STATES)}
"""Ranks of states; 0 is the worst."""
