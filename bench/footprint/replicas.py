"""Two replicas of a program, as its Deployment has them: one leads and the other stands by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench.processes import Program
from fairlead.client import ClusterConfig


_LOOK_SECONDS = 0.05


class Replicas:
    """Those of one program; ``leads`` says whether a Lease lets one alone work."""

    def __init__(self, name: str, programs: Sequence[Program], *, leads: bool) -> None:
        self.name = name
        self.leads = leads
        self._programs = list(programs)
        self._leader = self._programs[0]

    @property
    def leader(self) -> Program:
        """The one that works."""
        return self._leader

    @property
    def standby(self) -> Program | None:
        """The one that waits; None where all work."""
        others = [one for one in self._programs if one is not self._leader]
        return others[0] if others else None

    async def start(self) -> None:
        """Start all, the one that leads first."""
        for number, one in enumerate(self._programs):
            await one.start()
            if number == 0:
                await self._leading(one)
        self._leader = self._programs[0]

    async def stop(self) -> None:
        """Stop all, those that stand by first: none of them has to take over."""
        for one in sorted(self._programs, key=lambda one: one is self._leader):
            await one.stop()

    async def tend(self) -> bool:
        """Start what has ended by itself; whether another one leads for that.

        A leader ends when it cannot renew its Lease, as when the machine is busy for ten seconds.
        """
        ended = [one for one in self._programs if not one.is_running]
        changed = self._leader in ended
        if changed:
            assert self.standby is not None
            self._leader = self.standby
            await self._leading(self._leader)
        for one in ended:
            await one.start()
        return changed

    async def kill_leader(self) -> float:
        """Kill the leader, so that the other has to find that out; tells when that was."""
        killed, standby = self._leader, self.standby
        assert standby is not None
        await killed.kill()
        self._leader = standby
        return time.monotonic()

    async def replace(self) -> Program:
        """Start the one that was killed anew, as a Deployment does; tells which."""
        started = self.standby
        assert started is not None
        await started.start()
        return started

    async def _leading(self, one: Program) -> None:
        async def says_so() -> bool:
            return (await one.metrics()).total("leader_election_master_status") == 1

        while self.leads and not await says_so():  # noqa: ASYNC110  another process is looked at
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def replicas(
    name: str, config: ClusterConfig, folder: Path, lease: str, *flags: str
) -> AsyncIterator[Replicas]:
    """Run two replicas until the context is left."""
    flags = ("--leader-elect=true", f"--lease-name={lease}", *flags)
    programs = []
    for number in (1, 2):
        own = folder / f"{name}-{number}"
        own.mkdir()
        programs.append(Program(name, config, own, *flags))
    found = Replicas(name, programs, leads=True)
    try:
        await found.start()
        yield found
    finally:
        await found.stop()
