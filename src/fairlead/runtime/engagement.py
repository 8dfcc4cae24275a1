"""Clusters and controllers that join at run time: a subtree of tasks that leaves by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from fairlead.runtime.cluster import Cluster


_log = structlog.get_logger(logger_name="fairlead.runtime.engagement")


class Runnable(Protocol):
    """Something that works until it is cancelled."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    async def run(self) -> None:
        """Work; an exception ends the manager or engagement that runs this."""
        ...


class Engagement:
    """A cluster, or controllers on one, that joined at run time; it leaves with :meth:`stop`.

    ``done`` is set when its tasks have ended; ``error`` says why they ended by themselves, "" when
    they were stopped.
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
        """Cancel this subtree, nothing else, and wait until it has ended.

        Must not be called by one of its own tasks, which cannot outlive it.
        """
        self._stopped = True
        if self._task is None:
            self._end()
            return
        self._task.cancel()
        await self.done.wait()

    def start(self, group: asyncio.TaskGroup) -> None:
        """Run in this group, unless it was stopped already."""
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
            # One cluster's trouble is its own; the others go on.
            error = first_error(failures)
            self.error = str(error) or type(error).__name__
            _log.exception("cluster has left", cluster=self.cluster.name, exc_info=error)

    def _end(self) -> None:
        if not self.done.is_set():
            self.done.set()
            self.on_done()


async def together(runnables: Sequence[Runnable]) -> None:
    """Run all until cancelled, though each may come to its end before.

    A group of their own makes them end before the cluster that they read from.
    """
    async with asyncio.TaskGroup() as group:
        for runnable in runnables:
            group.create_task(runnable.run(), name=runnable.name)
        await asyncio.Event().wait()


def first_error(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first exception that is no group."""
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
