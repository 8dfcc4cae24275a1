"""The work queue: every key once, one worker per key, failures later, live events first."""

from __future__ import annotations

import asyncio
import enum
import heapq
import random
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from fairlead.client import limits
from fairlead.client.metrics import Histogram
from fairlead.client.outages import Outages
from fairlead.runtime import delays
from fairlead.runtime.backoff import BackoffPolicy


K = TypeVar("K", bound=Hashable)

_SPREAD_LEAST, _SPREAD_MOST = 1.0, 30.0
"""Least and most seconds within which all keys that waited for a server are retried."""


class Band(enum.IntEnum):
    """Priorities of a key: live changes go before the objects of the first list.

    ``INITIAL`` is also for keys that are added again without an event of their own: they wait
    until no live change is left.
    """

    LIVE = 0
    INITIAL = 1


class QueueClosed(Exception):  # noqa: N818
    """The queue is shut down and gives out no keys."""


class _Waiting(Generic[K]):
    """Waiting keys with their start times: the oldest first, groups in turn."""

    def __init__(self, group: Callable[[K], Hashable] | None) -> None:
        self._group = group
        self._groups: OrderedDict[Hashable, OrderedDict[K, float]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __contains__(self, key: K) -> bool:
        return key in self._groups.get(self._group_of(key), ())

    def add(self, key: K, since: float) -> None:
        self._groups.setdefault(self._group_of(key), OrderedDict())[key] = since

    def _group_of(self, key: K) -> Hashable:
        return self._group(key) if self._group is not None else None

    def take(self, key: K) -> float | None:
        """Remove a waiting key; return since when it has waited, None if it did not wait."""
        group = self._group_of(key)
        keys = self._groups.get(group)
        since = keys.pop(key, None) if keys is not None else None
        if not keys:
            self._groups.pop(group, None)
        return since

    def next(self) -> tuple[K, float]:
        """Return the next key, and since when it has waited."""
        group, keys = next(iter(self._groups.items()))
        key, since = keys.popitem(last=False)
        # A dict keeps its largest table, so that an empty one is thrown away.
        if not keys:
            del self._groups[group]
        elif len(self._groups) > 1:
            self._groups.move_to_end(group)
        return key, since


class _InOutage(NamedTuple):
    """A key that failed during an outage, with the number of its failures before."""

    outages: Outages
    before: int


class WorkQueue(Generic[K]):
    """Keys to be worked on, without duplicates.

    A key added while it waits is not added again; one added while it is worked on comes again
    when that is done. Times are those of the running loop, in seconds.

    Args:
        stats: counts the keys.
        group: returns the group of a key; groups take turns, however many of their keys wait.
    """

    def __init__(
        self,
        stats: QueueStats | None = None,
        *,
        group: Callable[[K], Hashable] | None = None,
    ) -> None:
        self.stats = stats or QueueStats()
        self.stats.attach(self)
        self._bands: tuple[_Waiting[K], _Waiting[K]] = (_Waiting(group), _Waiting(group))
        self._processing: dict[K, float] = {}
        self._again: dict[K, Band] = {}
        self._failures: dict[K, int] = {}
        self._away: dict[K, _InOutage] = {}
        self._heap: list[tuple[float, int, K, Band]] = []
        self._due: dict[K, tuple[float, int]] = {}
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        # uvloop's handle of a very short delay does not know when it is due.
        self._timer_at = 0.0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return sum(len(band) for band in self._bands)

    @property
    def delayed(self) -> int:
        """The number of keys that are delayed."""
        return len(self._due)

    @property
    def idle(self) -> bool:
        """Whether no key waits or is being worked on; delayed keys do not count."""
        return not (self._processing or len(self))

    def adopt(self, stats: QueueStats) -> None:
        """Count into these numbers from now on."""
        self.stats = stats
        stats.attach(self)

    def depth(self, band: Band) -> int:
        """Return the number of keys that wait in a band."""
        return len(self._bands[band])

    def started(self) -> list[float]:
        """Return when each key that is being worked on was given out."""
        return list(self._processing.values())

    def add(self, key: K, band: Band = Band.LIVE) -> None:
        """Add the key; it is given out as soon as a worker is free."""
        if key in self._processing:
            # Two workers on one object would undo each other's work: the key comes again after the
            # first worker is done.
            self._again[key] = min(band, self._again.get(key, band))
            return
        live, initial = self._bands
        if key in live:
            return
        if key in initial:
            if band is Band.LIVE:
                live.add(key, initial.take(key) or self._now())
            return
        self._bands[band].add(key, self._now())
        self.stats.adds += 1
        self._wake()

    def add_after(self, key: K, delay: float, band: Band = Band.LIVE) -> None:
        """Add the key after ``delay`` seconds; of several delays of a key the shortest counts."""
        if delay <= 0:
            self.add(key, band)
            return
        when = self._now() + delay
        due = self._due.get(key)
        if due is not None and due[0] <= when:
            return
        self._number += 1
        self._due[key] = (when, self._number)
        # An older entry of the key stays in the heap; its number no longer fits, so it is skipped.
        heapq.heappush(self._heap, (when, self._number, key, band))
        self._schedule()

    def retry(
        self, key: K, policy: BackoffPolicy | None = None, *, outages: Outages | None = None
    ) -> float:
        """Add the key after its back-off, which grows with each retry; return it in seconds.

        Retries in a row are counted per key, whatever policy each has; the default policy is
        ``delays.FAILED_PASS``. With ``outages`` the cause is a server that is away: the key comes
        soon after that server answers again.
        """
        failures = self._failures.get(key, 0)
        self._note(key, outages, failures)
        self._failures[key] = failures + 1
        self.stats.retries += 1
        delay = (policy or delays.FAILED_PASS).delay(failures)
        self.add_after(key, delay)
        return delay

    def failures(self, key: K) -> int:
        """Return how often the key was retried since it was forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """Start the key's next back-off from the beginning, because work on it has succeeded."""
        self._failures.pop(key, None)
        self._away.pop(key, None)

    def recovered(self, outages: Outages) -> None:
        """Retry the keys that failed during an outage which is over, spread over some seconds.

        Failures from before the outage still count, for they have another cause.
        """
        waiting = {key: one for key, one in self._away.items() if one.outages is outages}
        spread = min(max(_SPREAD_LEAST, limits.SPREAD_SECONDS * len(waiting)), _SPREAD_MOST)
        for key, key_waits in waiting.items():
            del self._away[key]
            failures = self._failures.get(key, 0)
            self._failures[key] = max(key_waits.before, min(failures, limits.RECOVERED_FAILURES))
            self._bring(key, spread)

    def hurry(self, keys: Iterable[K] | None = None, *, spread: float = 0.0) -> None:
        """Retry failed keys now, because the cause of their failures is gone.

        Args:
            keys: keys whose cause is gone; None for all failed keys.
            spread: seconds within which the keys come, each at a random time.
        """
        for key in list(self._failures if keys is None else keys):
            self.forget(key)
            self._bring(key, spread)

    def put_back(self, key: K) -> None:
        """Take back a key that the caller did not finish; it comes again after :meth:`done`."""
        self._again[key] = Band.LIVE

    async def get(self) -> K:
        """Wait for the next key; it is the caller's until :meth:`done`.

        Raises:
            QueueClosed: the queue was shut down.
        """
        live, initial = self._bands
        while not (live or initial):
            if self._closed:
                raise QueueClosed
            await self._wait()
        if self._closed:
            raise QueueClosed
        # The oldest of the live ones; keys of the first list wait until there is none.
        band = live or initial
        key, since = band.next()
        now = self._now()
        self._processing[key] = now
        self.stats.waited.observe(now - since)
        return key

    def done(self, key: K) -> None:
        """Release a key after its work; queue it again if it was added meanwhile."""
        begun = self._processing.pop(key)
        self.stats.worked.observe(self._now() - begun)
        band = self._again.pop(key, None)
        if band is not None:
            self.add(key, band)

    def open(self) -> None:
        """Give out keys again after :meth:`close`."""
        self._closed = False
        if self._heap:
            self._schedule()

    def close(self) -> None:
        """Give out no more keys; waiting ones stay, and more may be added."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _note(self, key: K, outages: Outages | None, failures: int) -> None:
        if outages is None:
            self._away.pop(key, None)
            return
        since = self._away.get(key)
        self._away[key] = _InOutage(outages, failures if since is None else since.before)
        outages.listen(self)

    def _bring(self, key: K, spread: float) -> None:
        """Bring a delayed key forward, to a random time within ``spread`` seconds."""
        due = self._due.get(key)
        delay = random.uniform(0.0, spread)  # noqa: S311
        if due is not None and self._now() + delay < due[0]:
            del self._due[key]
            self.add_after(key, delay)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            # The notification that woke this worker was meant for a worker that stays.
            if waiter.done() and not waiter.cancelled():
                self._wake()
            raise
        finally:
            self._waiters.remove(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
                return

    def _schedule(self) -> None:
        if self._closed:
            return
        first = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= first:
                return
            self._timer.cancel()
        self._timer_at = first
        self._timer = asyncio.get_running_loop().call_at(first, self._fire)

    def _fire(self) -> None:
        self._timer = None
        # A timer may fire within the clock's resolution before its time.
        now = self._now() + 1e-6
        while self._heap and self._heap[0][0] <= now:
            _, number, key, band = heapq.heappop(self._heap)
            if self._due.get(key, (0.0, 0))[1] == number:
                del self._due[key]
                self.add(key, band)
        if self._heap:
            self._schedule()


QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
"""Upper bounds of waiting and working times in seconds, those of controller-runtime."""


class QueueStats:
    """Counters and durations of the queues of one controller name."""

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
