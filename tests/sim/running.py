"""Running a plan to its end, and saying what was wrong."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, MutableMapping
from random import Random
from typing import Any, NoReturn

import msgspec
import structlog
from tests.sim import entropy
from tests.sim.plans import WORLDS, Plan, Step
from tests.sim.planted import plant
from tests.sim.scenarios import Scenario
from tests.sim.simulation import Simulation

from fairlead.client import ClientError, ConnectionFailed


CLEAN_SECONDS = 120.0
"""Simulated seconds that cleaning up may take."""
QUIET_SECONDS = 400.0
"""Simulated seconds without a write, at the end."""
PAUSE_SECONDS = 60.0
"""Simulated seconds without a write, before anything is taken away."""
SETTLE_SECONDS = 30.0
"""Simulated seconds from the end of the clean-up to the beginning of the quiet."""


class Result(msgspec.Struct, kw_only=True):
    """What came of a plan."""

    plan: Plan
    violations: list[str]
    checksum: str
    messages: int
    simulated: float
    seconds: float
    tried: dict[str, int]
    done: dict[str, int]
    table: str = ""
    figures: dict[str, float] = {}


Next = Callable[[], Plan]
"""Called when the world has begun: the plan to go on with, perhaps in another process."""


def run(
    scenario: type[Scenario],
    plan: Plan,
    *,
    keeping: bool = False,
    slot: int = 0,
    next_plan: Next | None = None,
) -> Result:
    """Run a plan in this Python, whose clocks are then the simulation's for good.

    ``slot`` is the place among the runs of the same time, for what they cannot share. Another
    plan for the same world may take the place of ``plan`` once that has begun.
    """
    simulation = Simulation(f"world {plan.world}", keeping=keeping)
    simulation.slot = slot
    structlog.configure(processors=[_Noted(simulation)], cache_logger_on_first_use=False)
    plant(plan.options)
    world = scenario(simulation)
    played = _Play(simulation, world, plan, next_plan)
    try:
        simulation.run(played.all())
    except AssertionError as error:
        simulation.violated(str(error) or type(error).__name__)
    except Exception as error:  # noqa: BLE001 - the simulator's own fault is a finding too
        text = "".join(traceback.format_exception(error)[-4:])
        simulation.violated(f"the simulation failed: {error!r}\n{text}")
    return Result(
        plan=played.plan,
        violations=simulation.violations,
        checksum=simulation.trace.checksum(),
        messages=simulation.trace.messages,
        simulated=simulation.loop.elapsed,
        seconds=entropy.real_monotonic() - played.begun,
        tried=dict(world.tried),
        done=dict(world.done),
        table=simulation.trace.table() if keeping else "",
        figures=simulation.figures,
    )


class _Play:
    """One run: the world begins, the plan is carried out, all is healed, all is taken away."""

    def __init__(
        self, simulation: Simulation, world: Scenario, plan: Plan, next_plan: Next | None
    ) -> None:
        self.plan = plan
        self.begun = entropy.real_monotonic()
        self._simulation = simulation
        self._world = world
        self._next_plan = next_plan

    async def all(self) -> None:
        """From the beginning to the end."""
        simulation, world = self._simulation, self._world
        # Some worlds begin in bad weather.
        self._weather(delay=(0.002, 0.002, 0.05, 0.5)[self.plan.world % WORLDS])
        simulation.loop.reordering = 0.3 * (self.plan.world % 2)
        await world.begin()
        if self._next_plan is not None:
            self.plan = self._next_plan()
            self.begun = entropy.real_monotonic()
        plan = self.plan
        simulation.reseed(plan.seed)
        self._weather(delay=plan.delay, splits=plan.splits)
        simulation.loop.reordering = plan.reordering
        await self._steps()
        if not simulation.violations:
            await self._end()

    def _weather(self, *, delay: float, splits: float = 0.0) -> None:
        weather = self._simulation.network.weather
        weather.most, weather.splits = delay, splits

    async def _steps(self) -> None:
        simulation, world = self._simulation, self._world
        loop = simulation.loop
        begun = loop.time()
        tasks: list[asyncio.Task[None]] = []
        for step in self.plan.steps:
            await asyncio.sleep(max(0.0, begun + step.at - loop.time()))
            if simulation.violations:
                return
            tasks.append(asyncio.create_task(_step(simulation, world, step)))
        await asyncio.sleep(self.plan.tail)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _end(self) -> None:
        simulation, world = self._simulation, self._world
        simulation.trace.note("driver", "", "all is healed")
        await _heal(world)
        healed = simulation.loop.time()
        await _until(simulation, world.differences, world.alike, "after the last fault")
        simulation.figures["alike"] = simulation.loop.time() - healed
        # What is told of objects that are not synchronised has as long.
        await asyncio.sleep(max(0.0, healed + world.alike - simulation.loop.time()))
        await _quiet(simulation, world, PAUSE_SECONDS, "before anything is taken away")
        if simulation.violations:
            return
        simulation.trace.note("driver", "", "everything is taken away")
        await world.clean_up()
        await _until(simulation, world.leftovers, CLEAN_SECONDS, "after all was deleted")
        await _quiet(simulation, world, QUIET_SECONDS, "after all was deleted")
        for text in world.check_end():
            simulation.violated(text)


async def _step(simulation: Simulation, world: Scenario, step: Step) -> None:
    simulation.trace.note("driver", "", f"step {step.kind}")
    # What is refused, or meets a server that is away, is borne as its user would.
    with contextlib.suppress(ClientError, TimeoutError):
        await world.step(step.kind, Random(step.dice))


async def _heal(world: Scenario) -> None:
    """End all faults; a connection from before a server's restart breaks once."""
    try:
        await world.heal()
    except ConnectionFailed:
        await world.heal()


async def _until(simulation: Simulation, look: object, seconds: float, when: str) -> None:
    assert callable(look)
    end = simulation.loop.time() + seconds
    while (left := look()) and not simulation.violations:
        if simulation.loop.time() > end:
            for text in left[:5]:
                simulation.violated(f"{seconds:.0f} s {when}: {text}")
            return
        await asyncio.sleep(0.5)


async def _quiet(simulation: Simulation, world: Scenario, seconds: float, when: str) -> None:
    if simulation.violations:
        return
    await asyncio.sleep(SETTLE_SECONDS)
    known = world.writes()
    await asyncio.sleep(seconds)
    if (more := world.writes() - known) and not simulation.violations:
        what = "; ".join(world.written[known : known + 5])
        simulation.violated(f"{more} writes in {seconds:.0f} s of rest, {when}: {what}")


class _Noted:
    """Puts what programs log into the trace, and nothing onto the terminal."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def __call__(self, logger: object, method: str, event: MutableMapping[str, Any]) -> NoReturn:
        simulation = self._simulation
        text = " ".join(
            [str(event.get("event")), *(f"{k}={v}" for k, v in event.items() if k != "event")]
        )
        for hook in simulation.on_log:
            hook(text)
        if simulation.trace.keeping and method != "debug":
            process = simulation.current_name()
            simulation.trace.lines.append(
                simulation.trace.line(process, f"log {method}: {text.splitlines()[0]}")
            )
        raise structlog.DropEvent
