"""What every fault needs: whom it meets, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random

from tests.sim.planes import Plane
from tests.sim.programs import Replica
from tests.sim.scenarios import Scenario

from fairlead.client import ClientError


WRITING = frozenset({b"POST", b"PUT ", b"PATC", b"DELE"})
"""What writes begin with."""
LEASE = b"/leases"
"""What stands in the paths of Leases."""


class Base(Scenario):
    """``planes`` are the API servers, ``replicas`` all programs' processes."""

    planes: list[Plane]
    replicas: list[Replica]
    resources: tuple[str, ...] = ()
    """The plurals that faults are aimed at."""

    missing = False
    """Whether some programs may lack an event, and nothing has told them."""

    def leads(self, replica: Replica) -> bool:
        """Whether its Lease is its own, as the API server has it."""
        raise NotImplementedError

    def _someone(self, dice: Random) -> Replica | None:
        """A replica that runs, most often one that leads."""
        candidates = [one for one in self.replicas if one.running and not _frozen(one)]
        leading = [one for one in candidates if self.leads(one)]
        if not candidates:
            return None
        return dice.choice(leading if leading and dice.random() < 0.8 else candidates)

    async def operate(self, dice: Random, times: int, pause: float) -> None:
        """Do some operations one after the other, with pauses of so many seconds at most."""
        for _ in range(times):
            likely = self.likely()
            kind = dice.choices(list(likely), weights=list(likely.values()))[0]
            with contextlib.suppress(ClientError, TimeoutError):
                await asyncio.wait_for(self.step(kind, Random(dice.getrandbits(32))), 10.0)
            await asyncio.sleep(dice.uniform(0.0, pause))

    def likely(self) -> dict[str, float]:
        """What may be done now, with weights."""
        return self.operations

    def focused(
        self, dice: Random, plane: Plane | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Have operations meet at one object for a while, if that can be at this API server."""
        return contextlib.nullcontext()

    def say(self, text: str) -> None:
        """Note a fault in the trace."""
        self.simulation.trace.note("fault", "", text)

    def _resource(self, dice: Random) -> str:
        return dice.choice(("*", *self.resources))


def _frozen(replica: Replica) -> bool:
    return replica.process is not None and replica.process.frozen
