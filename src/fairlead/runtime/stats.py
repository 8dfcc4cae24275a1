"""Numbers that controllers and queues count as they work; metrics read them when asked."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from fairlead.runtime.queue import WorkQueue


QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
"""Seconds; the buckets of controller-runtime's queue histograms."""

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7),
    *(0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
"""Seconds; the buckets of controller-runtime's reconcile histogram."""


class Histogram:
    """Counts of values by bucket; ``sum`` is that of the values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Bounds and cumulative counts as Prometheus has them."""
        total = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            rows.append((str(bound), total))
        return rows


class QueueStats:
    """What happened to the queues of one name."""

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.waited = Histogram(QUEUE_BUCKETS)
        self.worked = Histogram(QUEUE_BUCKETS)
        self._queues: weakref.WeakSet[WorkQueue[object]] = weakref.WeakSet()

    def attach(self, queue: object) -> None:
        """Count this queue's depth too, as long as it lives."""
        self._queues.add(queue)  # type: ignore[arg-type]

    @property
    def queues(self) -> list[WorkQueue[object]]:
        """The queues that are alive."""
        return list(self._queues)


class ControllerStats:
    """What happened in the controllers of one name."""

    def __init__(self) -> None:
        self.queue = QueueStats()
        self.results: Counter[str] = Counter()
        self.terminal_errors = 0
        self.panics = 0
        self.timeouts = 0
        self.active = 0
        self.workers = 0
        self.seconds = Histogram(RECONCILE_BUCKETS)
