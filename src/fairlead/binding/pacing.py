"""Pacing: when to warn of what does not come, and when to stop fighting another writer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable


PATIENCE_SECONDS = 60.0
"""That a binding may lack something that has not come yet before an Event warns of it."""

WRITES = 5
"""Times that the same projection is written at once within the window; more is a fight."""
WINDOW_SECONDS = 60.0
"""The window in which writes of the same projection are counted."""


class Waits:
    """Knows which bindings lack something that has not come yet; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Hashable, tuple[float, bool]] = {}

    def overdue(self, key: Hashable, waited: float) -> bool:
        """Whether to warn of a wait now; once for each wait.

        Args:
            key: who waits.
            waited: for how many seconds already, where the wait began before the first call.
        """
        moment = self._clock()
        # What was overdue when this program started has had its warning from the one before.
        since, told = self._waits.get(key) or (moment - waited, waited >= PATIENCE_SECONDS)
        late = moment - since >= PATIENCE_SECONDS
        self._waits[key] = since, late
        return late and not told

    def left(self, key: Hashable) -> float:
        """Seconds until a warning is due; 0 when none is any more."""
        since, told = self._waits.get(key, (0.0, True))
        # Never 0, which would say that nothing is due.
        return 0.0 if told else max(since + PATIENCE_SECONDS - self._clock(), 0.001)

    def over(self, key: Hashable) -> bool:
        """Note that the wait has ended; returns whether there was one."""
        return self._waits.pop(key, None) is not None


class Fights:
    """Notices that another writer undoes the same write time and again.

    ``clock`` gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writes: dict[Hashable, tuple[Hashable, deque[float]]] = {}

    def pause(self, key: Hashable, content: Hashable) -> float:
        """How many seconds to wait before writing this content; 0 counts as a write."""
        known, times = self._writes.get(key, (content, deque[float]()))
        # Other content is a change of what is wanted, not somebody who undoes it.
        if known != content:
            times = deque()
        moment = self._clock()
        while times and moment - times[0] > WINDOW_SECONDS:
            times.popleft()
        self._writes[key] = (content, times)
        if len(times) >= WRITES:
            return WINDOW_SECONDS - (moment - times[0])
        times.append(moment)
        return 0.0

    def forget(self, key: Hashable) -> None:
        """Forget the binding, which is gone."""
        self._writes.pop(key, None)
