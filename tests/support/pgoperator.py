"""A control plane with the PostgresAccess operator at work on it, for many tests."""

from __future__ import annotations

import asyncio

import uvloop
from tests.support.planes import LoopThread
from tests.support.postgres import prepare, running

from fairlead.client import Client, parse_kubeconfig
from fairlead.postgres.options import PostgresOptions
from fairlead_sandbox import Sandbox


class OperatorThread:
    """A sandbox and an operator on a loop of their own, which outlives the loops of tests."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._thread = LoopThread(uvloop.new_event_loop)
        self._stop: asyncio.Event
        self._task: asyncio.Task[None]
        self.kubeconfig = b""

    def start(self) -> None:
        self._thread.run(self._start())

    def stop(self) -> None:
        self._thread.run(self._end())
        self._thread.close()

    def check(self) -> None:
        """Fail where the operator has ended, rather than wait for what it does not do."""
        assert not self._task.done()

    async def _start(self) -> None:
        self._stop, ready = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run(ready))
        self._task.add_done_callback(lambda _: ready.set())
        await ready.wait()
        if self._task.done():
            await self._task

    async def _run(self, ready: asyncio.Event) -> None:
        async with Sandbox(name="rows") as sandbox:
            self.kubeconfig = sandbox.kubeconfig()
            async with Client(parse_kubeconfig(self.kubeconfig)) as admin:
                await prepare(admin)
                async with running(admin, self._options):
                    ready.set()
                    await self._stop.wait()

    async def _end(self) -> None:
        self._stop.set()
        await self._task
