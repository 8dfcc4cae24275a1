"""Wakes watches together, once the requests that are here already have been worked on.

Under load every answer would otherwise be followed by a write to every watch. Waiting for turns of
the event loop, and not for a time, costs next to nothing when there is nothing else to do.
"""

from __future__ import annotations

import asyncio


TURNS = 40
"""So often the loop may take up other work between the first change and the wake-up."""


class Wakeups:
    """The watches of one control plane that have something to send."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def add(self, wakeup: asyncio.Event) -> None:
        """Set the event soon, together with others."""
        if not self._waiting:
            self._turn(TURNS)
        self._waiting.add(wakeup)

    def _turn(self, left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(self._turn, left - 1)
            return
        waiting, self._waiting = self._waiting, set()
        for wakeup in waiting:
            wakeup.set()
