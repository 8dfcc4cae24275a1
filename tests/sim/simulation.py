"""One simulation: its loop, its network, its processes, and what is watched meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.sim import entropy, processes
from tests.sim.loop import SimLoop
from tests.sim.network import Network
from tests.sim.processes import Process
from tests.sim.trace import Trace


class Violation(AssertionError):  # noqa: N818 - it is what the simulation is after
    """An invariant does not hold; the text is the broken sentence."""


class Simulation:
    """Everything of one run; ``seed`` decides all that is not said otherwise."""

    def __init__(self, seed: str, *, keeping: bool = False) -> None:
        self.seed = seed
        self.slot = 0
        """The place among the runs of the same time, for what they cannot share."""
        self.loop = SimLoop(self.dice("tasks"))
        self.trace = Trace(lambda: self.loop.elapsed, keeping=keeping)
        self.network = Network(self.loop, self.dice("network"), self.trace)
        self.loop.set_exception_handler(self._unhandled)
        self.processes: list[Process] = []
        self.on_plane: list[Callable[[Any], None]] = []
        """Called with each control plane that has started."""
        self.on_log: list[Callable[[str], None]] = []
        """Called with what any program logs."""
        self.violations: list[str] = []
        self.figures: dict[str, float] = {}
        """What was measured, by name."""

    def _unhandled(self, _loop: object, context: dict[str, Any]) -> None:
        """Note what ended a task that nothing awaits: whatever it had to do stays undone."""
        error = context.get("exception")
        if error is not None:
            self.violated(f"{context['message']}: {error!r}")

    def reseed(self, seed: str) -> None:
        """Have another seed decide from now on."""
        self.seed = seed
        self.loop.dice = self.dice("tasks")
        self.network.dice = self.dice("network")
        entropy.begin(seed, lambda: self.loop.elapsed, processes.skew)

    def dice(self, name: str) -> Random:
        """Dice of their own for one purpose: others throwing more often does not change them."""
        return Random(f"{self.seed}/{name}")

    def process(self, name: str) -> Process:
        """A new process."""
        made = Process(self.loop, name)
        self.processes.append(made)
        return made

    def current_name(self) -> str:
        """The name of the process that is running."""
        process = processes.current()
        return "outside" if process is None else process.name

    def violated(self, text: str) -> None:
        """Note a broken sentence; the run goes on to the end of the turn and is then over."""
        if text not in self.violations:
            self.violations.append(text)
            self.trace.note("invariant", "", text)

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Run to the end of ``main`` on virtual time.

        Raises:
            HotLoopError: something ran without time passing.
            StuckError: nothing could happen any more.
        """
        entropy.begin(self.seed, lambda: self.loop.elapsed, processes.skew)
        gc.disable()
        asyncio.set_event_loop(self.loop)
        driver = self.process("driver")
        task = driver.spawn(main)
        self.loop.run_until_complete(task)
