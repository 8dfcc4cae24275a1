"""Controllers: informers, a queue of requests, and workers that survive a reconciler's errors."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import NamedTuple, cast

import structlog

from fairlead.api.meta import Undecodable
from fairlead.api.nesting import NestedTooDeeply
from fairlead.client import limits
from fairlead.client.errors import (
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from fairlead.client.metrics import Histogram
from fairlead.client.outages import outages_of
from fairlead.runtime import delays
from fairlead.runtime.cache.informer import Delta, Informer, InformerClosed
from fairlead.runtime.controller.memory import Bursts
from fairlead.runtime.controller.queue import (
    Band,
    QueueClosed,
    QueueStats,
    WorkQueue,
)
from fairlead.runtime.controller.reconcile import (
    Mapper,
    Predicate,
    Reconciler,
    Request,
    Result,
    TerminalError,
    object_mapper,
)


_log = structlog.get_logger(logger_name="fairlead.runtime.controller")


_PASSING = (ServerError, Conflict, Forbidden, TooManyRequests)
"""Errors whose cause may end without a change of the object, so that only a retry finds out."""
RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7),
    *(0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
"""Upper bounds of a reconcile's duration in seconds, those of controller-runtime."""


class ControllerStats:
    """Counters and durations of the controllers of one name."""

    def __init__(self) -> None:
        self.queue = QueueStats()
        self.results: Counter[str] = Counter()
        self.terminal_errors = 0
        self.panics = 0
        self.timeouts = 0
        self.active = 0
        self.workers = 0
        self.seconds = Histogram(RECONCILE_BUCKETS)


class _Source(NamedTuple):
    informer: Informer
    mapper: Mapper
    predicate: Predicate | None


class _Limit:
    """Timeout for each pass of a worker, with one timer for all passes.

    The timer is not moved at each pass: when it fires, it is set again for the present pass. Most
    passes end long before, so that thousands of them cost one timer.
    """

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._cancelling = 0
        self._until: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self.expired = False
        self._cancelling = self._task.cancelling()
        self._until = self._loop.time() + self._seconds
        if self._timer is None:
            self._timer = self._loop.call_at(self._until, self._check_idle)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._until = None
        # A cancellation that comes from outside passes through.
        ours = self.expired and self._task.uncancel() <= self._cancelling
        if ours and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _check_idle(self) -> None:
        self._timer = None
        if self._until is None:
            return
        if self._until > self._loop.time():
            self._timer = self._loop.call_at(self._until, self._check_idle)
        else:
            self.expired = True
            self._task.cancel()


class Controller:
    """Calls a reconciler for every object that changes, each key by one worker at a time.

    ``timeout`` limits one call of the reconciler, in seconds. An exception of the reconciler is
    logged and the request retried with back-off, except after :class:`TerminalError`; requests
    that failed in an outage of a server are retried soon after its end. ``stopped`` is called when
    the last worker has ended. Requests of several groups take turns.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconciler,
        *,
        workers: int = 2,
        timeout: float = 120.0,
        stopped: Callable[[], Awaitable[None]] | None = None,
        group: Callable[[Request], Hashable] | None = None,
    ) -> None:
        self.name = name
        self.stats = ControllerStats()
        self.queue: WorkQueue[Request] = WorkQueue(self.stats.queue, group=group)
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._stopped = stopped
        self._sources: list[_Source] = []
        self._bursts = Bursts()
        # A request's log lines share an identifier; a counter costs less than a UUID each.
        self._series = uuid.uuid4().hex[:12]
        self._numbers = itertools.count(1)

    def watch(
        self,
        informer: Informer,
        mapper: Mapper | None = None,
        *,
        predicate: Predicate | None = None,
        cluster: str = "",
    ) -> None:
        """Turn an informer's changes into requests; without a mapper, for the changed object.

        ``cluster`` goes into the requests of the default mapper. May be called while running.
        """
        source = _Source(informer, mapper or object_mapper(cluster), predicate)
        # A controller outlives informers that join and leave at run time.
        self._sources = [source for source in self._sources if not source.informer.closed]
        self._sources.append(source)
        informer.subscribe(lambda delta: self._take(source, delta))

    def enqueue(self, request: Request, *, after: float = 0.0) -> None:
        """Add a request to the queue, ``after`` seconds from now."""
        self.queue.add_after(request, after)

    def adopt(self, stats: ControllerStats) -> None:
        """Count into these numbers from now on."""
        self.stats = stats
        self.queue.adopt(stats.queue)

    async def run(self) -> None:
        """Wait until the watched informers have synced, then work until cancelled."""
        for source in list(self._sources):
            try:
                # With half a list, the reconciler would take the other objects for deleted.
                await source.informer.synced()
            except InformerClosed:
                # The informer has left before the controller began, and no object of it can be
                # missing.
                continue
        self.queue.open()
        self.stats.workers += self._workers
        self._bursts.begin()
        try:
            async with asyncio.TaskGroup() as group:
                workers = [
                    group.create_task(self._work(), name=f"{self.name}-{number}")
                    for number in range(self._workers)
                ]
                await self._stand(workers)
        finally:
            self.stats.workers -= self._workers
            self._bursts.close()
            if self._stopped is not None:
                await self._stopped()

    async def _stand(self, workers: list[asyncio.Task[None]]) -> None:
        """Wait until cancelled, then let the requests that are being worked on finish."""
        try:
            await asyncio.Event().wait()
        finally:
            self.queue.close()
            await asyncio.wait(workers, timeout=limits.GRACE_SECONDS)

    def _take(self, source: _Source, delta: Delta) -> None:
        if source.predicate is not None and not source.predicate(delta):
            return
        # After a start thousands of unchanged objects wait: live changes go first.
        band = Band.INITIAL if delta.initial else Band.LIVE
        for request in source.mapper(delta):
            self.queue.add(request, band)

    async def _work(self) -> None:
        structlog.contextvars.bind_contextvars(controller=self.name)
        limit = _Limit(self._timeout)
        try:
            while True:
                request = await self.queue.get()
                self.stats.active += 1
                try:
                    await self._process(request, limit)
                except asyncio.CancelledError:
                    # The work was not finished: the next run of this controller takes it up.
                    self.queue.put_back(request)
                    raise
                finally:
                    self.stats.active -= 1
                    self.queue.done(request)
                self._bursts.worked()
        except QueueClosed:
            return
        finally:
            limit.close()

    async def _process(self, request: Request, limit: _Limit) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        # Every worker is a task with a context of its own: the next request overwrites this one.
        structlog.contextvars.bind_contextvars(
            cluster=request.cluster,
            namespace=request.namespace,
            name=request.name,
            reconcileID=f"{self._series}-{next(self._numbers)}",
        )
        outcome = await self._call(request, limit)
        self.stats.results[outcome] += 1
        self.stats.seconds.observe(loop.time() - begun)

    async def _call(self, request: Request, limit: _Limit) -> str:
        """Reconcile once; returns the value of the ``result`` label of the metrics."""
        try:
            with limit:
                result = await self._reconcile(request)
        except TerminalError as error:
            self.stats.terminal_errors += 1
            self.queue.forget(request)
            _log.error("reconcile failed and is not retried", error=str(error))
            return "error"
        except asyncio.CancelledError:
            # A cancellation from outside ends the worker; one raised by the reconciler is its
            # defect.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._retry(request, RuntimeError("the reconciler was cancelled from within"))
        except Exception as error:  # noqa: BLE001
            if not limit.expired:
                return self._retry(request, error)
            self.stats.timeouts += 1
            return self._retry(request, TimeoutError(f"not done after {self._timeout:g} s"))
        return self._settle(request, result)

    def _settle(self, request: Request, result: Result | None) -> str:
        if result is not None and result.backoff is not None:
            self.queue.retry(request, result.backoff)
            return "requeue"
        if result is not None and result.waiting:
            return "success"
        self.queue.forget(request)
        if result is None or result.requeue_after is None:
            return "success"
        self.queue.add_after(request, result.requeue_after)
        return "requeue_after"

    def _retry(self, request: Request, error: Exception) -> str:
        policy = delays.REFUSED_WRITE if isinstance(error, _PASSING) else None
        unreadable = isinstance(error, Undecodable | NestedTooDeeply)
        if unreadable:
            policy = delays.UNDECODABLE
        delay = self.queue.retry(request, policy, outages=outages_of(error))
        first = self.queue.failures(request) == 1
        if unreadable:
            # The writer of the object is at fault, and one line tells it until the object changes.
            message = error.message if isinstance(error, Undecodable) else str(error)
            log = _log.warning if first else _log.debug
            log("an object is left alone", error=message, retry_in=round(delay, 3))
            return "error"
        gone = first and isinstance(error, NotFound) and error.concerns(request.name)
        if gone or isinstance(error, Conflict):
            # Another writer was faster, as happens; the next look sees the write or the deletion.
            _log.debug("gone" if gone else "conflict", retry_in=delay)
            return "requeue"
        expected = isinstance(error, ClientError | TimeoutError)
        if not expected:
            self.stats.panics += 1
        _log.error(
            "reconcile failed",
            error=str(error) or type(error).__name__,
            retry_in=round(delay, 3),
            exc_info=None if expected else error,
        )
        return "error"
