"""Deadlines of requests on one shared timer: a timer for each costs as much as a request."""

from __future__ import annotations

import asyncio
from typing import Any


class Deadlines:
    """Cancels tasks that run longer than ``seconds``, and remembers which it canceled.

    All tasks have the same limit, so the oldest is due first, and the timer sleeps until then.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begun: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Start the deadline of a task; :meth:`end` has to follow."""
        loop = task.get_loop()
        self._begun[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look, loop)

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Stop the deadline; return True if it had canceled the task, after undoing that."""
        self._begun.pop(task, None)
        if task not in self._overdue:
            return False
        self._overdue.discard(task)
        # A task can be canceled by several: with a number above 0 the cancellation of another,
        # such as a server that stops, has to go on.
        return not task.uncancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks that are due, and set the timer to the next one."""
        self._timer = None
        now = loop.time()
        # In the order of their beginning, so the first that has time left ends the walk.
        for task, begun in list(self._begun.items()):
            left = begun + self._seconds - now
            if left > 0:
                self._timer = loop.call_later(left, self._look, loop)
                return
            del self._begun[task]
            self._overdue.add(task)
            task.cancel()
