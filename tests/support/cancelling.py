"""Cancellations of a coroutine at a chosen one of its awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Generator
from functools import partial
from typing import Any


class _Interrupted:
    """Awaits a coroutine, and cancels the task at the chosen awaits, counted from 0."""

    def __init__(self, work: Coroutine[Any, Any, object], steps: Collection[int]) -> None:
        self._work = work
        self._steps = steps
        self.taken = 0
        """Number of awaits so far."""

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        go_on: Callable[[], Any] = partial(self._work.send, None)
        while True:
            try:
                awaited = go_on()
            except StopIteration:
                return
            if self.taken in self._steps:
                task.cancel()
            self.taken += 1
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the work decides what it means
                go_on = partial(self._work.throw, error)
            else:
                go_on = partial(self._work.send, None)


async def cancelled_at(step: int, work: Coroutine[Any, Any, object], *, times: int = 1) -> bool:
    """Run the work, and cancel it at an await, and at the ``times - 1`` awaits after it.

    Returns:
        Whether the work had so many awaits.
    """
    interrupted = _Interrupted(work, range(step, step + times))

    async def run() -> None:
        await interrupted

    running = asyncio.create_task(run())
    await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()) is not None:
        raise error
    return interrupted.taken > step


async def all_ended() -> None:
    """Wait until no other task is left."""
    while left := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(left)
