"""Tasks that start and end while a controller runs, each in the supervisor's own task tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, KeysView
from typing import Generic, Protocol, TypeVar

import structlog

from fairlead.client import ClientError
from fairlead.runtime import delays
from fairlead.runtime.backoff import Backoff


K = TypeVar("K", bound=Hashable)

_log = structlog.get_logger(logger_name="fairlead.konnector.supervisor")


class SupervisedPart(Protocol):
    """A child of a supervisor: it works until it is cancelled."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


class Supervisor(Generic[K]):
    """Runs children, each under a key; a failed child is started again after a back-off, alone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._group: asyncio.TaskGroup | None = None
        self._running = asyncio.Event()
        self._tasks: dict[K, asyncio.Task[None]] = {}

    @property
    def keys(self) -> KeysView[K]:
        """Return the keys of the running children, in the order in which they were started."""
        return self._tasks.keys()

    async def run(self) -> None:
        """Run the children until cancelled, then end them."""
        try:
            async with asyncio.TaskGroup() as self._group:
                self._running.set()
                await asyncio.Event().wait()
        finally:
            self._group = None
            self._running.clear()
            self._tasks.clear()

    async def running(self) -> None:
        """Wait until children can be started."""
        await self._running.wait()

    def start(
        self, key: K, child: SupervisedPart, *, failed: Callable[[str], None] = lambda _why: None
    ) -> None:
        """Run a child under a key that none has.

        ``failed`` is called with the reason when the child fails, and with "" when the child is
        started again or stopped.

        Raises:
            RuntimeError: the supervisor does not run, or the key is taken.
        """
        if self._group is None or key in self._tasks:
            raise RuntimeError(f"{self.name} cannot start {key}")
        work = self._keep(str(key), child, failed)
        self._tasks[key] = self._group.create_task(work, name=str(key))

    async def stop(self, key: K) -> None:
        """End a child and wait until it has ended; an unknown key is no error."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            # To await the task itself would raise its CancelledError here.
            await asyncio.wait([task])

    async def _keep(self, name: str, child: SupervisedPart, failed: Callable[[str], None]) -> None:
        backoff = Backoff(delays.CHILD)
        try:
            while True:
                failed("")
                await self._attempt(name, child, failed, backoff)
        finally:
            failed("")

    async def _attempt(
        self, name: str, child: SupervisedPart, failed: Callable[[str], None], backoff: Backoff
    ) -> None:
        backoff.good(asyncio.get_running_loop().time())
        try:
            await child.run()
        except ClientError as error:
            failed(str(error))
            _log.error("child failed and is started again", child=name, error=str(error))
        except Exception:  # noqa: BLE001  a bad child must not end the others
            _log.exception("child failed and is started again", child=name)
        # A child that merely returns has ended too soon as well, and waits like a failed one.
        await asyncio.sleep(backoff.failed(asyncio.get_running_loop().time()))
