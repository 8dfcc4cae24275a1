"""What a scenario is: a world, what is done in it, what breaks, and what must hold at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import ClassVar

from tests.sim.plans import Plan
from tests.sim.simulation import Simulation


Act = Callable[[Random], Awaitable[bool | None]]
"""An operation or a fault; an operation says whether it has changed anything."""


class Scenario:
    """The base of all; ``done`` counts by kind how often a step has achieved something.

    ``operations`` and ``faults`` give the weights of what a plan may have; the step of a kind is
    the method of that name.
    """

    name: ClassVar[str]
    operations: ClassVar[dict[str, float]]
    faults: ClassVar[dict[str, float]]
    least: ClassVar[dict[str, float]] = {}
    """For each operation the least share of its steps that must have achieved something."""

    def __init__(self, simulation: Simulation, plan: Plan) -> None:
        self.simulation = simulation
        self.plan = plan
        self.tried: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.written: list[str] = []
        """Who wrote what, Leases and heartbeats excepted."""

    async def begin(self) -> None:
        """Make the world, with everything at work and well."""
        raise NotImplementedError

    async def heal(self) -> None:
        """End every fault: all programs run, all ways are open, all clocks are right."""
        raise NotImplementedError

    def differences(self) -> list[str]:
        """What is not yet as it shall be; it is read from the stores, without a request."""
        raise NotImplementedError

    async def clean_up(self) -> None:
        """Take away what the operations have made, as its owners would."""
        raise NotImplementedError

    def leftovers(self) -> list[str]:
        """What is left over after :meth:`clean_up`."""
        raise NotImplementedError

    def writes(self) -> int:
        """How many writes there were so far, Leases and heartbeats excepted."""
        return len(self.written)

    def check_end(self) -> list[str]:
        """What else is wrong at the very end."""
        return []

    async def step(self, kind: str, dice: Random) -> None:
        """Do one step."""
        act: Act = getattr(self, kind)
        self.tried[kind] += 1
        if await act(dice):
            self.done[kind] += 1
