"""An event loop of virtual time: it never sleeps, and a seed decides what runs first.

It is asyncio's own base loop. Waiting is a jump to the next timer, connections are made in memory
(:mod:`tests.sim.network`), and what would run in a thread runs later on the loop. Sockets of a
real PostgreSQL are waited for in lock-step (:mod:`tests.sim.sockets`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any

from tests.sim import entropy
from tests.sim.processes import Process, process_of
from tests.sim.sockets import Sockets


if TYPE_CHECKING:
    from tests.sim.network import Network


HOT = 100_000
"""Passes of the loop without any time passing after which something is taken for a hot loop."""

Handle = asyncio.Handle
_serial = itertools.count()


class HotLoopError(AssertionError):
    """Something runs and runs, and no time passes."""


class StuckError(AssertionError):
    """Everything waits, and nothing will ever happen."""


class SimTask(asyncio.Task[Any]):
    """A task that hashes by its number: sets of tasks have the same order in each run."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        loop: SimLoop,
        context: Context | None,
        **more: Any,
    ) -> None:
        self._number = next(_serial)
        context = context or copy_context()
        self.process = process_of(context)
        super().__init__(coro, loop=loop, context=context, **more)
        # Those of processes that were killed are never finished.
        self._log_destroy_pending = False

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """Virtual time; ``dice`` decides which of the tasks that are ready goes on first.

    ``reordering`` is the share of passes in which that differs from the order they came in.
    """

    network: Network
    _ready: deque[Any]
    _scheduled: list[tuple[float, int, Any]]

    def __init__(self, dice: Random, *, reordering: float = 0.0) -> None:
        super().__init__()
        self.now = entropy.BOOTED
        self.passes = 0
        self.reordering = reordering
        self.dice = dice
        self._still = 0
        self.sockets = Sockets(self)
        self.set_task_factory(_task)  # type: ignore[arg-type]

    def __del__(self, _warn: Any = None) -> None:
        """It has nothing to close."""

    def time(self) -> float:
        """What the monotonic clock shows, in simulated seconds."""
        return self.now

    @property
    def elapsed(self) -> float:
        """Simulated seconds since the beginning."""
        return self.now - entropy.BOOTED

    def resume(self, held: list[Handle]) -> None:
        """Run what was held back, in this order."""
        self._ready.extend(held)

    def tasks_of(self, process: Process) -> list[asyncio.Task[Any]]:
        """The tasks of a process that have not ended, oldest first."""
        found = [one for one in asyncio.all_tasks(self) if isinstance(one, SimTask)]
        return sorted((one for one in found if one.process is process), key=hash)

    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        self.sockets.look_again()
        while scheduled and scheduled[0][2]._cancelled:
            heapq.heappop(scheduled)
        if not ready:
            if not scheduled:
                raise StuckError("everything waits, and nothing will ever happen")
            if scheduled[0][0] > self.now:
                self.now = scheduled[0][0]
                self._still = 0
        while scheduled and scheduled[0][0] <= self.now:
            ready.append(heapq.heappop(scheduled)[2])
        self.passes += 1
        self._still += 1
        if self._still > HOT:
            raise HotLoopError(f"{HOT} passes of the loop without any time passing: {ready}")
        count = len(ready)
        if self.reordering and count > 1 and self.dice.random() < self.reordering:
            self._reorder(ready, count)
        for _ in range(count):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = process_of(handle._context)
            if process is None or (process.alive and not process.frozen):
                handle._run()
            elif process.alive:
                process.held.append(handle)

    def _reorder(self, ready: Any, count: int) -> None:
        """Have tasks go on in another order; what is no task keeps its place."""
        handles = [ready.popleft() for _ in range(count)]
        places = [number for number, one in enumerate(handles) if _is_step(one)]
        chosen = [handles[number] for number in places]
        self.dice.shuffle(chosen)
        for number, one in zip(places, chosen, strict=True):
            handles[number] = one
        ready.extendleft(reversed(handles))

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at this moment; of two for the same moment the older one is first."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, next(_serial), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    # --- threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run it a little later, on the loop."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
                future.set_exception(error)

        self.call_later(self.dice.uniform(0.0, 0.002), run)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Handle:
        """There are no threads."""
        return self.call_soon(callback, *args, context=context)

    def _write_to_self(self) -> None:
        """There are no threads."""

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""

    # --- connections in memory

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect in memory; the transport comes with :meth:`create_connection`.

        A server that :attr:`sockets` knows is connected to for real.
        """
        if tuple(address[:2]) in self.sockets.addresses:
            sock.setblocking(True)
            try:
                sock.connect(address)
            finally:
                sock.setblocking(False)
            self.sockets.opened(sock.fileno(), copy_context())
            return
        await self.network.connect(sock, address)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **more: Any
    ) -> tuple[Any, Any]:
        """A transport over a connection in memory."""
        sock = more.get("sock")
        connected = await self.network.reach((host, port)) if sock is None else sock
        if more.get("ssl"):
            raise NotImplementedError("there is no TLS in the simulation")
        return self.network.client(connected, protocol_factory)

    async def create_server(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **more: Any
    ) -> Any:
        """Listen in memory."""
        if more.get("ssl"):
            raise NotImplementedError("there is no TLS in the simulation")
        return self.network.listen(protocol_factory, host or "127.0.0.1", port or 0)

    # --- sockets of a real server, in lock-step

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Call when a real socket can be read."""
        handle = Handle(callback, args, self, copy_context())
        self.sockets.add(_number(fd), handle, writing=False)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Call when a real socket can be written."""
        handle = Handle(callback, args, self, copy_context())
        self.sockets.add(_number(fd), handle, writing=True)

    def remove_reader(self, fd: Any) -> bool:
        """Listen to it no more."""
        return self.sockets.remove(_number(fd), writing=False)

    def remove_writer(self, fd: Any) -> bool:
        """Write to it no more."""
        return self.sockets.remove(_number(fd), writing=True)

    async def sock_sendall(self, sock: socket.socket, data: Any) -> None:
        """Send all of it over a real socket, which a server reads at once."""
        sock.setblocking(True)
        try:
            sock.sendall(data)
        finally:
            sock.setblocking(False)

    async def sock_recv(self, sock: socket.socket, nbytes: int) -> bytes:
        """What a real socket has next, once all of the answer is there."""
        come = self.create_future()
        self.add_reader(sock, _set, come)
        try:
            await come
        finally:
            self.remove_reader(sock)
        return sock.recv(nbytes)


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _task(
    loop: Any, coro: Coroutine[Any, Any, Any], *, context: Context | None = None, **more: Any
) -> SimTask:
    return SimTask(coro, loop=loop, context=context, **more)


def _is_step(handle: Any) -> bool:
    """Whether a handle is a task that goes on."""
    callback = handle._callback
    return type(callback).__name__ == "TaskStepMethWrapper" or isinstance(
        getattr(callback, "__self__", None), asyncio.Task
    )
