"""Runs of plans in processes of their own, several at a time.

A world is made once, in a process that then forks for each plan: what runs is a copy of it, and
nothing of a run is left here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import selectors
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from tests.sim import entropy
from tests.sim.catalogue import SCENARIOS
from tests.sim.plans import Plan
from tests.sim.running import Result, run


REAL_SECONDS = 120
"""Real seconds that one run may take."""

_LENGTH = struct.Struct("!I")


class _World(NamedTuple):
    """What runs have to have in common to be copies of one process."""

    scenario: str
    number: int
    options: tuple[tuple[str, str], ...]
    keeping: bool

    @classmethod
    def of(cls, plan: Plan, *, keeping: bool) -> _World:
        number = plan.world if SCENARIOS[plan.scenario].forks else 0
        return cls(plan.scenario, number, tuple(sorted(plan.options.items())), keeping)


class _Server:
    """A process that has a world and runs plans in copies of it, one at a time."""

    def __init__(self, world: _World, slot: int, others: Iterable[_Server]) -> None:
        self.begun = 0.0
        self.plan: Plan
        orders, self._orders = os.pipe()
        self.results, results = os.pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid:
            os.close(orders)
            os.close(results)
            return
        # A pipe ends when nobody has it open any more.
        for fd in (self._orders, self.results, *(fd for one in others for fd in one.pipes)):
            os.close(fd)
        status = 1
        try:
            _serve(world, slot, orders, results)
            status = 0
        except BaseException:  # noqa: BLE001 - nothing of the parent may run here
            traceback.print_exc()
        os._exit(status)

    @property
    def pipes(self) -> tuple[int, int]:
        """This process's ends."""
        return self._orders, self.results

    def order(self, plan: Plan) -> None:
        """Have a plan run."""
        self.plan, self.begun = plan, entropy.real_monotonic()
        with contextlib.suppress(BrokenPipeError):
            _write(self._orders, pickle.dumps(plan))

    def result(self) -> Result:
        """What came of it; it is there once ``results`` can be read."""
        data = _read(self.results)
        if data:
            found: Result = pickle.loads(data)
            return found
        seconds = entropy.real_monotonic() - self.begun
        return Result(
            plan=self.plan,
            violations=[f"the simulation ended without a result after {seconds:.0f} real seconds"],
            checksum="",
            messages=0,
            simulated=0.0,
            seconds=seconds,
            tried={},
            done={},
        )

    def close(self) -> None:
        """End it, and what it runs."""
        os.close(self._orders)
        os.close(self.results)
        os.waitpid(self._pid, 0)


class Pool:
    """Processes that run plans, ``jobs`` of them at a time; a context manager."""

    def __init__(self, jobs: int = 1) -> None:
        self._jobs = jobs
        self._servers: list[dict[_World, _Server]] = [{} for _ in range(jobs)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._all():
            server.close()

    def _all(self) -> list[_Server]:
        return [server for slot in self._servers for server in slot.values()]

    def run(self, plan: Plan, *, keeping: bool = False) -> Result:
        """Run one plan."""
        (result,) = self.run_all([plan], keeping=keeping)
        return result

    def run_all(self, plans: Iterable[Plan], *, keeping: bool = False) -> Iterator[Result]:
        """Run plans, and give their results as they come."""
        waiting = iter(plans)
        free = list(range(self._jobs))
        with selectors.DefaultSelector() as selector:
            while True:
                while free and (plan := next(waiting, None)) is not None:
                    slot = free.pop(0)
                    server = self._server(_World.of(plan, keeping=keeping), slot)
                    server.order(plan)
                    selector.register(server.results, selectors.EVENT_READ, (slot, server))
                if not selector.get_map():
                    return
                for key, _ in selector.select():
                    slot, server = key.data
                    selector.unregister(key.fd)
                    free.append(slot)
                    yield server.result()

    def _server(self, world: _World, slot: int) -> _Server:
        found = self._servers[slot].get(world)
        if found is None:
            found = self._servers[slot][world] = _Server(world, slot, self._all())
        return found


# --- in the process that serves


def _serve(world: _World, slot: int, orders: int, results: int) -> None:
    scenario = SCENARIOS[world.scenario]
    options = dict(world.options)
    first = Plan(scenario=world.scenario, seed="", steps=(), world=world.number, options=options)
    next_plan = _copies(orders, results, begun=scenario.forks)
    scenario.prepare(slot)
    try:
        if scenario.forks:
            result = run(scenario, first, keeping=world.keeping, slot=slot, next_plan=next_plan)
        else:
            result = run(scenario, next_plan(), keeping=world.keeping, slot=slot)
        _write(results, pickle.dumps(result))
    except _NoMoreOrders:
        scenario.release()


class _NoMoreOrders(BaseException):
    """There is nothing left to run."""


def _copies(orders: int, results: int, *, begun: bool) -> Callable[[], Plan]:
    """Gives a plan, each time in a copy of this process, and raises here when there is none.

    ``begun`` is whether a loop is running by then.
    """

    def next_plan() -> Plan:
        while True:
            data = _read(orders)
            if not data:
                raise _NoMoreOrders
            child = os.fork()
            if child == 0:
                signal.alarm(REAL_SECONDS)
                if begun:
                    # asyncio takes a loop for running in the process alone that has started it.
                    asyncio._set_running_loop(asyncio.get_event_loop_policy().get_event_loop())
                plan: Plan = pickle.loads(data)
                return plan
            _, status = os.waitpid(child, 0)
            if status:
                _write(results, b"")

    return next_plan


def _write(fd: int, data: bytes) -> None:
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        left = left[os.write(fd, left) :]


def _read(fd: int) -> bytes:
    """The next message, b"" at the end."""
    size = _exactly(fd, _LENGTH.size)
    return _exactly(fd, _LENGTH.unpack(size)[0]) if size else b""


def _exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(fd, size - len(data))
        if not more:
            return b""
        data += more
    return data
