"""Programs of a simulation: replicas, which a kubelet starts again when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tests.sim.planes import Plane
from tests.sim.processes import Process
from tests.sim.simulation import Simulation

from fairlead.api.meta import JSON
from fairlead.api.resource import SERVICEACCOUNTS
from fairlead.client import Client, ClientError, ClusterConfig
from fairlead.runtime import Cluster, LeaderElection, Manager, ManagerError, strip_managed_fields


TOKEN_SECONDS = 7 * 86400
"""A kubelet would renew the token; no simulation lasts as long."""
RESTART_SECONDS = 10.0
"""After which a kubelet starts a container again that has ended."""
RETRY_SECONDS = 4.0
"""Time between two looks at a Lease; most requests of a simulation would be these otherwise."""

Build = Callable[[Manager, Cluster], Awaitable[object]]


@dataclass(frozen=True)
class Program:
    """What runs: the name of its ServiceAccount, client and Lease, and how it is put together."""

    name: str
    namespace: str
    lease: str
    build: Build


class Replica:
    """One replica of a program, on a machine of its own; ``incarnation`` counts its starts."""

    def __init__(self, simulation: Simulation, program: Program, home: Plane, name: str) -> None:
        self.name = name
        self.program = program
        self.home = home
        self.process: Process | None = None
        self.incarnation = 0
        self.ends = 0
        """How often it has ended by itself."""
        self.skew = 0.0
        self.config: ClusterConfig
        self._simulation = simulation

    @property
    def identity(self) -> str:
        """What its Lease calls the process of now."""
        return f"{self.name}#{self.incarnation}"

    @property
    def running(self) -> bool:
        """Whether it is there, frozen or not."""
        return self.process is not None and self.process.alive

    async def authorize(self) -> None:
        """Get a token; the program's manifests have been applied."""
        request: JSON = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {},
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        async with self.home.admin() as admin:
            answer = await admin.create(
                SERVICEACCOUNTS,
                request,
                self.program.namespace,
                name=self.program.name,
                subresource="token",
            )
        token = answer.to_dict()["status"]["token"]
        self.config = replace(self.home.config(), token=token, namespace=self.program.namespace)

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.running:
            return
        self.incarnation += 1
        self.process = process = self._simulation.process(self.name)
        process.skew = self.skew
        process.spawn(self._forever())

    def kill(self) -> None:
        """End it where it stands."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    async def _forever(self) -> None:
        """The container, started anew in the same machine each time it ends."""
        while True:
            try:
                await self._main(self.identity)
            except (ClientError, ManagerError) as error:
                self._simulation.trace.note(self.name, "", f"ends: {error}")
            except Exception as error:  # noqa: BLE001 - the next start is the kubelet's business
                self._simulation.violated(f"{self.name} ended with {error!r}")
            self.ends += 1
            await asyncio.sleep(RESTART_SECONDS)
            self.incarnation += 1

    async def _main(self, identity: str) -> None:
        program = self.program
        async with Client(
            self.config, user_agent=program.name, field_manager=program.name
        ) as client:
            election = LeaderElection(
                client, program.namespace, program.lease, identity, retry_period=RETRY_SECONDS
            )
            manager = Manager(health_address="", leader_election=election)
            await program.build(
                manager, Cluster(self.home.name, client, transform=strip_managed_fields)
            )
            await manager.run()
