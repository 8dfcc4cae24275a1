"""What a scenario is: a world, what is done in it, what breaks, and what must hold at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import ClassVar

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
    alike: ClassVar[float] = 60.0
    """Simulated seconds after the last fault within which all is as it shall be."""
    least: ClassVar[dict[str, float]] = {}
    """For each operation the least share of its steps that must have achieved something."""

    forks: ClassVar[bool] = True
    """Whether all of it is in memory, so that a world can go on in several processes."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.tried: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.written: list[str] = []
        """Who wrote what, Leases and heartbeats excepted."""

    @classmethod
    def prepare(cls, slot: int) -> None:
        """Start what all runs of one process use, before any of them; ``slot`` numbers it."""

    @classmethod
    def release(cls) -> None:
        """End what :meth:`prepare` has started."""

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
