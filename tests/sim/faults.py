"""What breaks, for every scenario: processes, ways, servers and clocks."""

from __future__ import annotations

import asyncio
from random import Random
from typing import ClassVar

from tests.sim import views
from tests.sim.networkfaults import NetworkFaults
from tests.sim.processfaults import ProcessFaults
from tests.sim.serverfaults import ServerFaults
from tests.sim.simulation import Simulation

from fairlead.client import limits


COMPARED_SECONDS = 1.25 * limits.COMPARED_SECONDS + 5 * limits.DUE_SECONDS + limits.BEHIND_SECONDS
"""Simulated seconds after which every cache has been compared with its server."""


class Breaking(ProcessFaults, NetworkFaults, ServerFaults):
    """All faults; each lasts for a while and is then over, or :meth:`heal` ends it."""

    faults: ClassVar[dict[str, float]] = {
        "kill": 3.0,
        "kill_all": 1.0,
        "freeze": 3.0,
        "torn": 4.0,
        "power_loss": 1.0,
        "plane_restarts": 2.0,
        "plane_away": 1.0,
        "silence": 2.0,
        "one_way_silence": 1.0,
        "refused": 1.0,
        "resets": 2.0,
        "slow_way": 1.0,
        "hold_watch": 3.0,
        "cut_watches": 2.0,
        "cut_event": 1.0,
        "compact": 2.0,
        "gap": 3.0,
        "behind": 4.0,
        "old_view": 3.0,
        "repeat": 2.0,
        "starve": 2.0,
        "lose": 0.02,
        "restore": 1.0,
        "errors": 3.0,
        "conflicts": 2.0,
        "busy": 1.0,
        "late_answers": 1.0,
        "lost_answers": 2.0,
        "skew": 1.0,
        "clock_jump": 1.0,
    }

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        views.install()

    async def skew(self, dice: Random) -> bool:
        """The wall clock of one machine is wrong from now on."""
        replica = dice.choice(self.replicas)
        replica.skew = dice.choice((-300.0, -20.0, 20.0, 300.0))
        if replica.process is not None:
            replica.process.skew = replica.skew
        self.say(f"clock of {replica.name} is {replica.skew:+.0f} s")
        return True

    async def clock_jump(self, dice: Random) -> bool:
        """The wall clock of an API server jumps, and is put right later."""
        plane = dice.choice(self.planes)
        by = dice.choice((-60.0, -5.0, 5.0, 60.0))
        plane.skew = by
        plane.process.skew = by
        self.say(f"clock of {plane.name} is {by:+.0f} s")
        await asyncio.sleep(30.0)
        plane.skew = plane.process.skew = 0.0
        return True

    async def heal(self) -> None:
        """End everything that lasts."""
        weather = self.simulation.network.weather
        weather.links.clear()
        weather.most, weather.splits = 0.002, 0.0
        for connection in list(self.simulation.network.connections.values()):
            connection.release()
        self.simulation.network.changed()
        for plane in self.planes:
            plane.skew = 0.0
            if not plane.up:
                await plane.restart()
            plane.process.skew = 0.0
            plane.sandbox.faults.clear()
            plane.sandbox.faults.heal()
            views.behind(plane.store).clear()
        for replica in self.replicas:
            replica.skew = 0.0
            if replica.process is not None:
                replica.process.skew = 0.0
                if replica.process.frozen:
                    replica.process.thaw()
            replica.start()
        if self.missing:
            await asyncio.sleep(COMPARED_SECONDS)
