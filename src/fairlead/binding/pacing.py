"""Pacing: when to warn of what does not come, and when to stop fighting another writer.

And how often the same is done, whatever the reason: a binding may depend on what its own write
changes, and would have its workload rolled out without an end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

import msgspec


PATIENCE_SECONDS = 60.0
"""That a binding may lack something that has not come yet before an Event warns of it."""

WRITES = 5
"""Times that the same projection is written at once within the window; more is a fight."""
WINDOW_SECONDS = 60.0
"""The window in which writes of the same projection are counted."""
CALM_SECONDS = 2 * WINDOW_SECONDS
"""Without such a write, after which a fight is over."""

_REMEMBERED = 20_000
"""Workloads, or bindings, of which it is known how often something was done."""


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


class Fight(msgspec.Struct):
    """The writes of one content: when they were in the window, and when the last one was."""

    content: Hashable
    # A list of a few: each binding has one for as long as it is there, and a deque takes 0.7 KiB.
    times: list[float] = []
    last: float = 0.0
    on: bool = False


class Fights:
    """Notices that another writer undoes the same write time and again.

    Once one is noticed there is a write in each window, and no other burst, until there was none
    for longer. ``clock`` gives seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._fights: dict[Hashable, Fight] = {}

    def pause(self, key: Hashable, content: Hashable) -> float:
        """How many seconds to wait before writing this content; 0 for none."""
        fight, moment = self._fights.get(key), self._clock()
        # Other content is a change of what is wanted, not somebody who undoes it.
        if fight is None or fight.content != content:
            return 0.0
        if moment - fight.last > CALM_SECONDS:
            fight.on = False
        while fight.times and moment - fight.times[0] > WINDOW_SECONDS:
            fight.times.pop(0)
        fight.on = fight.on or len(fight.times) >= WRITES
        return max(WINDOW_SECONDS - (moment - fight.last), 0.0) if fight.on else 0.0

    def arrived(self, key: Hashable, content: Hashable) -> None:
        """Count a write of this content that the server has taken."""
        fight = self._fights.get(key)
        if fight is None or fight.content != content:
            fight = self._fights[key] = Fight(content)
        fight.last = self._clock()
        fight.times.append(fight.last)

    def forget(self, key: Hashable) -> None:
        """Forget the binding, which is gone."""
        self._fights.pop(key, None)


class Pace:
    """How often something is done: at once for a while, then ever more seldom.

    Args:
        clock: gives seconds.
        burst: times that it may be done at once.
        first: seconds until it may be done once more after that, twice as many each time.
        most: seconds that this comes to at most.
        rest: seconds in which one of the times is forgotten.
    """

    def __init__(
        self, clock: Callable[[], float], *, burst: int, first: float, most: float, rest: float
    ) -> None:
        self._clock = clock
        self._burst, self._first, self._most, self._rest = burst, first, most, rest
        self._known: OrderedDict[Hashable, tuple[float, float, float]] = OrderedDict()

    def left(self, key: Hashable) -> float:
        """Seconds until it may be done again; 0 for now."""
        _, _, due = self._known.get(key, (0.0, 0.0, 0.0))
        return max(due - self._clock(), 0.0)

    def done(self, key: Hashable) -> None:
        """Count that it was done."""
        moment = self._clock()
        count, last, _ = self._known.pop(key, (0.0, moment, 0.0))
        count = max(count - (moment - last) / self._rest, 0.0) + 1
        over = min(count - self._burst, 30.0)
        pause = 0.0 if over < 0 else min(self._first * 2.0**over, self._most)
        self._known[key] = (count, moment, moment + pause)
        # Whoever is forgotten begins with a burst anew.
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def workload_pace(clock: Callable[[], float]) -> Pace:
    """How often bindings change one workload: each change makes its pods anew."""
    return Pace(clock, burst=10, first=5.0, most=60.0, rest=60.0)


def pass_pace(clock: Callable[[], float]) -> Pace:
    """How often one binding is looked at: what changes all the time is seen once a second."""
    return Pace(clock, burst=20, first=0.5, most=1.0, rest=1.0)
