"""The manager: one task tree of clusters, controllers, and clusters that join at run time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

import structlog

from fairlead.runtime.cluster import Cluster
from fairlead.runtime.manager.health import Checks, HealthServer
from fairlead.runtime.manager.lease import LeaderElection, LeadershipLost
from fairlead.runtime.manager.metrics import Metrics


_log = structlog.get_logger(logger_name="fairlead.runtime.manager")


class ManagerError(Exception):
    """The manager cannot go on; the text is for the person who started it."""


class ListenError(ManagerError):
    """An address cannot be listened on; ``serves`` is its purpose, health or metrics."""

    def __init__(self, address: str, serves: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address} for {serves}: {reason}")
        self.serves = serves


class Manager:
    """Starts clusters, then controllers; stops them in the reverse order.

    Addresses are ``host:port``; port 0 takes a free one, "" serves nothing. Without an own
    ``metrics_address``, metrics are served beside health. A runnable that fails ends the manager.
    """

    def __init__(
        self,
        *,
        health_address: str = "127.0.0.1:0",
        metrics_address: str = "",
        leader_election: LeaderElection | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._running = self._listening = False
        self._checks = Checks()
        self._checks.ready["running"] = lambda: "" if self._running else "it is being started"
        self._health = HealthServer(health_address, self._checks)
        self._election = leader_election
        self._clusters: list[Cluster] = []
        self._leading: list[Runnable] = []
        self._free: list[Runnable] = []
        self._engagements: list[Engagement] = []
        self._group: asyncio.TaskGroup | None = None
        if metrics_address:
            self._servers = [self._health, HealthServer(metrics_address, None, self.metrics)]
        else:
            self._health.metrics = self.metrics
            self._servers = [self._health]
        if leader_election is not None:
            self._checks.alive["leader-election"] = leader_election.stale
            self.metrics.elections.append(leader_election)

    @property
    def health_url(self) -> str:
        """URL of /healthz and /readyz without the path; "" before the manager runs."""
        return self._health.url

    @property
    def metrics_url(self) -> str:
        """URL of /metrics without the path; "" before the manager runs."""
        return self._servers[-1].url

    def add_cluster(self, cluster: Cluster) -> None:
        """Run a cluster's informers; the manager is ready when they have synced.

        Raises:
            RuntimeError: the manager is running; use :meth:`engage`.
        """
        self._refuse_when_running()
        self._fence(cluster)
        self._clusters.append(cluster)
        self.metrics.clusters.append(cluster)
        self._checks.ready[f"caches-{cluster.name}"] = cluster.unsynced

    def add(self, runnable: Runnable, *, leader_only: bool = True) -> None:
        """Add a runnable; with ``leader_only`` it starts once this process leads.

        Raises:
            RuntimeError: the manager is running; use :meth:`engage`.
        """
        self._refuse_when_running()
        self.metrics.instrument(runnable)
        (self._leading if leader_only else self._free).append(runnable)

    def add_ready_check(self, name: str, check: Callable[[], str]) -> None:
        """Add a check to /readyz; it returns the fault, "" if there is none."""
        self._checks.ready[name] = check

    async def engage(self, cluster: Cluster, runnables: Sequence[Runnable]) -> Engagement:
        """Start a cluster and its controllers at run time; they work while this process leads.

        If the cluster was added or engaged before, only the runnables are started.
        """
        self._fence(cluster)
        watch = cluster not in self._clusters and not cluster.running
        engagement = Engagement(cluster, runnables, watch=watch)
        for runnable in runnables:
            self.metrics.instrument(runnable)
        if watch:
            self.metrics.clusters.append(cluster)
            engagement.on_done = lambda: self.metrics.clusters.remove(cluster)
        # Ended engagements are dropped: the list would grow with each cluster that joins and
        # leaves.
        self._engagements = [
            engagement for engagement in self._engagements if not engagement.done.is_set()
        ]
        self._engagements.append(engagement)
        if self._group is not None:
            engagement.start(self._group)
        return engagement

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Run until ``stop`` is set or this is cancelled.

        Raises:
            ListenError: an address cannot be listened on.
            ManagerError: leadership was lost.
            Exception: an exception of a runnable.
        """
        async with AsyncExitStack() as stack:
            if not self._listening:
                await stack.enter_async_context(self.listening())
            self._running = True
            _log.info("running", health=self.health_url, metrics=self.metrics_url)
            try:
                await self._run(stop or asyncio.Event())
            except ExceptionGroup as failures:
                reason = first_error(failures)
                if isinstance(reason, LeadershipLost):
                    raise ManagerError(str(reason)) from None
                raise reason from None
            finally:
                self._running = False

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Open the addresses before :meth:`run`, for a program that does other work first.

        Raises:
            ListenError: an address cannot be listened on.
        """
        async with AsyncExitStack() as stack:
            for server in self._servers:
                try:
                    # Before any controller starts: an address that is taken ends the program.
                    await stack.enter_async_context(server)
                except OSError as error:
                    serves = "health" if server is self._health else "metrics"
                    text = os.strerror(error.errno).lower() if error.errno else str(error)
                    raise ListenError(server.address, serves, text) from error
            self._listening = True
            try:
                yield
            finally:
                self._listening = False

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            lag = group.create_task(self.metrics.measure_lag(), name="event loop lag")
            tree = group.create_task(self._tree(), name="manager")
            stopped = group.create_task(stop.wait(), name="stop")
            await asyncio.wait({tree, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (tree, stopped, lag):
                task.cancel()

    async def _tree(self) -> None:
        async with asyncio.TaskGroup() as group:
            # Caches are filled while another process leads, so that this one can begin at once
            # when its turn comes.
            for cluster in self._clusters:
                group.create_task(cluster.run(), name=f"cluster {cluster.name}")
            for runnable in self._free:
                group.create_task(runnable.run(), name=runnable.name)
            if self._election is None:
                await self._lead()
            else:
                await self._election.run(self._lead)

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for engagement in self._engagements:
                    engagement.start(group)
                await together(self._leading)
            finally:
                # From here on the group takes no new task.
                self._group = None

    def _fence(self, cluster: Cluster) -> None:
        """Refuse the writes of a process that was frozen until after the end of its leadership.

        Cancelling its tasks comes too late: a task that was about to write goes on at once when
        the process wakes up.
        """
        if self._election is not None:
            cluster.client.fence(self._election.stale)

    def _refuse_when_running(self) -> None:
        if self._running:
            raise RuntimeError("the manager is running: engage what joins later")


class Runnable(Protocol):
    """A part of a program that runs until it is cancelled, such as a controller."""

    @property
    def name(self) -> str:
        """Name for logs and tasks."""
        ...

    async def run(self) -> None:
        """Run until cancelled; an exception ends the manager or the engagement that runs this."""
        ...


class Engagement:
    """A cluster, or controllers on one, that joined at run time; it leaves with :meth:`stop`.

    ``done`` is set when its tasks have ended; ``error`` is the fault that ended them, "" if they
    were stopped.
    """

    def __init__(self, cluster: Cluster, runnables: Sequence[Runnable], *, watch: bool) -> None:
        self.cluster = cluster
        self.runnables = tuple(runnables)
        self.done = asyncio.Event()
        self.error = ""
        self.on_done: Callable[[], None] = lambda: None
        self._watch = watch
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    async def stop(self) -> None:
        """Cancel the tasks of this engagement alone, and wait until they have ended.

        None of its own tasks may call this: it would wait for its own end.
        """
        self._stopped = True
        if self._task is None:
            self._end()
            return
        self._task.cancel()
        await self.done.wait()

    def start(self, group: asyncio.TaskGroup) -> None:
        """Start the tasks in this group, unless the engagement was stopped already."""
        if not self._stopped:
            self._task = group.create_task(self._run(), name=f"cluster {self.cluster.name}")
            # A task that is cancelled before its first step never enters its own finally.
            self._task.add_done_callback(lambda _: self._end())

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                if self._watch:
                    group.create_task(self.cluster.run(), name=f"cluster {self.cluster.name}")
                await together(self.runnables)
        except ExceptionGroup as failures:
            # A fault of one cluster ends its engagement alone; the others go on.
            error = first_error(failures)
            self.error = str(error) or type(error).__name__
            _log.exception("cluster has left", cluster=self.cluster.name, exc_info=error)

    def _end(self) -> None:
        if not self.done.is_set():
            self.done.set()
            self.on_done()


async def together(runnables: Sequence[Runnable]) -> None:
    """Run all until cancelled, even if each of them ends before.

    They form a task group of their own, so that controllers end before the cluster whose caches
    they read.
    """
    async with asyncio.TaskGroup() as group:
        for runnable in runnables:
            group.create_task(runnable.run(), name=runnable.name)
        await asyncio.Event().wait()


def first_error(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception in nested groups that is no group itself."""
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
