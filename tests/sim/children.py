"""Runs of plans in children of this process, several at a time; nothing of a run is left here."""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tests.sim import entropy
from tests.sim.catalogue import SCENARIOS
from tests.sim.plans import Plan
from tests.sim.running import Result, run


REAL_SECONDS = 120.0
"""Real seconds that one run may take."""


class _Child(NamedTuple):
    pid: int
    slot: int
    plan: Plan
    pieces: list[bytes]
    begun: float


def run_apart(plan: Plan, *, keeping: bool = False) -> Result:
    """Run one plan in a child."""
    (result,) = run_all([plan], jobs=1, keeping=keeping)
    return result


def run_all(
    plans: Iterable[Plan],
    *,
    jobs: int,
    keeping: bool = False,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[Result]:
    """Run plans, so many at a time, and give their results as they come.

    ``enough`` says when no other is begun; those that run are awaited.
    """
    waiting = iter(plans)
    free = list(range(jobs))
    with selectors.DefaultSelector() as selector:
        running: dict[int, _Child] = {}
        try:
            while True:
                while free and not enough():
                    plan = next(waiting, None)
                    if plan is None:
                        break
                    reader, child = _fork(plan, free.pop(0), keeping=keeping)
                    running[reader] = child
                    selector.register(reader, selectors.EVENT_READ)
                if not running:
                    return
                for reader, child in _ended(selector, running):
                    free.append(child.slot)
                    free.sort()
                    selector.unregister(reader)
                    del running[reader]
                    os.close(reader)
                    os.waitpid(child.pid, 0)
                    yield _result(child)
        finally:
            for child in running.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)


def _fork(plan: Plan, slot: int, *, keeping: bool) -> tuple[int, _Child]:
    reader, writer = os.pipe()
    sys.stdout.flush()
    begun = entropy.real_monotonic()
    pid = os.fork()
    if pid:
        os.close(writer)
        return reader, _Child(pid, slot, plan, [], begun)
    os.close(reader)
    with contextlib.suppress(BaseException), os.fdopen(writer, "wb") as sink:
        pickle.dump(run(SCENARIOS[plan.scenario], plan, keeping=keeping, slot=slot), sink)
    os._exit(0)


def _ended(
    selector: selectors.BaseSelector, running: dict[int, _Child]
) -> list[tuple[int, _Child]]:
    """Those whose result is there, or who have taken too long."""
    found = []
    for key, _ in selector.select(1.0):
        data = os.read(key.fd, 1 << 20)
        if data:
            running[key.fd].pieces.append(data)
        else:
            found.append((key.fd, running[key.fd]))
    for reader, child in running.items():
        if entropy.real_monotonic() - child.begun > REAL_SECONDS:
            os.kill(child.pid, signal.SIGKILL)
            child.pieces.clear()
            if (reader, child) not in found:
                found.append((reader, child))
    return found


def _result(child: _Child) -> Result:
    seconds = entropy.real_monotonic() - child.begun
    if child.pieces:
        found: Result = pickle.loads(b"".join(child.pieces))
        return found
    text = f"the simulation ended without a result after {seconds:.0f} real seconds"
    return Result(
        plan=child.plan,
        violations=[text],
        checksum="",
        messages=0,
        simulated=0.0,
        seconds=seconds,
        tried={},
        done={},
    )
