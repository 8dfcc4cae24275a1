"""Pacing: when to warn of a missing object, and when to stop fighting another writer.

Also how often a write or a pass is repeated for any reason: a binding may depend on fields that
its own write changes, and would roll out its workload without end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

import msgspec


PATIENCE_SECONDS = 60.0
"""Longest wait for a missing object without a Warning, in seconds."""

WRITES = 5
"""Number of writes of one projection within the window; more count as a fight."""
WINDOW_SECONDS = 60.0
"""Length of the window of counted writes, in seconds."""
CALM_SECONDS = 2 * WINDOW_SECONDS
"""Time without a write after which a fight is over, in seconds."""

_REMEMBERED = 20_000
"""Number of workloads, or bindings, whose pace is remembered."""


class Waits:
    """Tracks the bindings that wait for a missing object; ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Hashable, tuple[float, bool]] = {}

    def overdue(self, key: Hashable, waited: float) -> bool:
        """Whether to warn of the wait of ``key`` now; True once for each wait.

        Args:
            key: the waiting binding.
            waited: seconds that it had waited before the first call.
        """
        moment = self._clock()
        # If it was overdue at the program's start, the previous process has sent the warning.
        since, told = self._waits.get(key) or (moment - waited, waited >= PATIENCE_SECONDS)
        late = moment - since >= PATIENCE_SECONDS
        self._waits[key] = since, late
        return late and not told

    def left(self, key: Hashable) -> float:
        """Return the seconds until a warning is due; 0 after it."""
        since, told = self._waits.get(key, (0.0, True))
        # Not 0, which would mean that no warning is due.
        return 0.0 if told else max(since + PATIENCE_SECONDS - self._clock(), 0.001)

    def over(self, key: Hashable) -> bool:
        """End a wait; return whether there was one."""
        return self._waits.pop(key, None) is not None


class Fight(msgspec.Struct):
    """The writes of one content: their times in the window, and the last time."""

    content: Hashable
    # A short list and not a deque, which takes 0.7 KiB: each binding has one.
    times: list[float] = []
    last: float = 0.0
    on: bool = False


class Fights:
    """Detects that another writer keeps undoing the same write.

    After that there is one write per window, until the fight is over. ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fights: dict[Hashable, Fight] = {}

    def pause(self, key: Hashable, content: Hashable) -> float:
        """Return the seconds to wait before writing this content; 0 for none."""
        fight, moment = self._fights.get(key), self._clock()
        # Other content is a change of the binding, and not a writer who undoes it.
        if fight is None or fight.content != content:
            return 0.0
        if moment - fight.last > CALM_SECONDS:
            fight.on = False
        while fight.times and moment - fight.times[0] > WINDOW_SECONDS:
            fight.times.pop(0)
        fight.on = fight.on or len(fight.times) >= WRITES
        return max(WINDOW_SECONDS - (moment - fight.last), 0.0) if fight.on else 0.0

    def arrived(self, key: Hashable, content: Hashable) -> None:
        """Count a write of this content that the server accepted."""
        fight = self._fights.get(key)
        if fight is None or fight.content != content:
            fight = self._fights[key] = Fight(content)
        fight.last = self._clock()
        fight.times.append(fight.last)

    def forget(self, key: Hashable) -> None:
        """Drop a deleted binding."""
        self._fights.pop(key, None)


class Pace:
    """Limits the rate of an action: a burst at once, then growing delays.

    Args:
        clock: returns seconds.
        burst: number of actions without a delay.
        first: first delay after the burst, in seconds; it doubles each time.
        most: longest delay, in seconds.
        rest: seconds after which one action is forgotten.
    """

    def __init__(
        self, clock: Callable[[], float], *, burst: int, first: float, most: float, rest: float
    ) -> None:
        self._clock = clock
        self._burst, self._first, self._most, self._rest = burst, first, most, rest
        self._known: OrderedDict[Hashable, tuple[float, float, float]] = OrderedDict()

    def left(self, key: Hashable) -> float:
        """Return the seconds until the action is allowed; 0 for now."""
        _, _, due = self._known.get(key, (0.0, 0.0, 0.0))
        return max(due - self._clock(), 0.0)

    def done(self, key: Hashable) -> None:
        """Count an action."""
        moment = self._clock()
        count, last, _ = self._known.pop(key, (0.0, moment, 0.0))
        count = max(count - (moment - last) / self._rest, 0.0) + 1
        over = min(count - self._burst, 30.0)
        pause = 0.0 if over < 0 else min(self._first * 2.0**over, self._most)
        self._known[key] = (count, moment, moment + pause)
        # A forgotten key starts with a full burst.
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def workload_pace(clock: Callable[[], float]) -> Pace:
    """Return the pace of changes to one workload, each of which rolls out its pods."""
    return Pace(clock, burst=10, first=5.0, most=60.0, rest=60.0)


def pass_pace(clock: Callable[[], float]) -> Pace:
    """Return the pace of passes over one binding: at last one per second."""
    return Pace(clock, burst=20, first=0.5, most=1.0, rest=1.0)
