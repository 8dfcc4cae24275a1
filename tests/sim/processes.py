"""Simulated processes of one operating-system process: whose turn it is, who is dead or asleep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol


class Scheduler(Protocol):
    """What a process needs of the loop."""

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None
    ) -> asyncio.Task[Any]:
        """Start a task in this context."""
        ...

    def resume(self, held: list[asyncio.Handle]) -> None:
        """Run what was held back, in this order."""
        ...

    def tasks_of(self, process: Process) -> list[asyncio.Task[Any]]:
        """The tasks of a process that have not ended."""
        ...


class Process:
    """A simulated process, which can be killed, frozen, and have a clock that is wrong.

    Everything that runs in ``context`` belongs to it: its tasks, their timers, and what arrives
    for its connections. ``skew`` is by how many seconds its wall clock is wrong.
    """

    def __init__(self, loop: Scheduler, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.skew = 0.0
        self.held: list[asyncio.Handle] = []
        """What would have run while the process is frozen."""
        self.on_death: dict[object, Callable[[], None]] = {}
        """What its connections and listeners do when it dies."""
        self._loop = loop
        self._kept: list[Any] = []
        self.context = copy_context()
        self.context.run(_process.set, self)

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def spawn(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run this as a task of the process."""
        return self._loop.create_task(main, context=self.context, name=self.name)

    def kill(self) -> None:
        """End it where it stands: no ``finally`` runs, and its peers see a reset."""
        if not self.alive:
            return
        self.alive = False
        self.held.clear()
        # A coroutine that nothing refers to would be closed, and run what stands in ``finally``.
        self._kept += self._loop.tasks_of(self)
        for die in list(self.on_death.values()):
            die()
        self.on_death.clear()

    def freeze(self) -> None:
        """Let nothing of it run until it thaws: its machine sleeps, or its cgroup has no quota."""
        self.frozen = True

    def thaw(self) -> None:
        """Go on, with all that has come due meanwhile."""
        self.frozen = False
        held, self.held = self.held, []
        self._loop.resume(held)


_process: ContextVar[Process | None] = ContextVar("process", default=None)


def current() -> Process | None:
    """The process whose code is running, None outside of all."""
    return _process.get()


def process_of(context: Context) -> Process | None:
    """The process to which a context belongs."""
    return context.get(_process)


def skew() -> float:
    """By how many seconds the wall clock of the running process is wrong."""
    process = _process.get()
    return 0.0 if process is None else process.skew
