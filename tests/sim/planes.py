"""Control planes of a simulation: sandboxes in processes of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import jwt
from tests.sim.processes import Process
from tests.sim.simulation import Simulation

from fairlead.api.meta import JSON
from fairlead.client import Client, ClusterConfig, parse_kubeconfig
from fairlead_sandbox import Sandbox
from fairlead_sandbox.auth.tokens import SIGNATURE_ALONE, TokenError
from fairlead_sandbox.requests.workers import Job, JobResult
from fairlead_sandbox.storage.store import ObjectStore
from fairlead_sandbox.worker import work


_KEY = b"a key that signs the same each time"


class _Signer:
    """Signs without chance, as ES256 does not."""

    def sign(self, claims: JSON) -> str:
        return jwt.encode(claims, _KEY, "HS256")

    def verify(self, token: str) -> JSON:
        try:
            return jwt.decode(token, _KEY, ["HS256"], options=SIGNATURE_ALONE)
        except jwt.PyJWTError:
            raise TokenError("invalid bearer token") from None


class _InPlace:
    """Works heavy requests out on the loop: there are no processes."""

    async def run(self, job: Job) -> JobResult:
        result = await work(job)
        if result.failure is not None:
            raise result.failure.error()
        return result

    async def close(self) -> None:
        """There is nothing to end."""


class Plane:
    """One API server; ``sandbox`` is the one of today, after a restart another."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.simulation = simulation
        self.sandbox: Sandbox
        self.process: Process
        self.up = False
        self.skew = 0.0
        self.backups: list[tuple[float, bytes]] = []
        """Moments and contents of what was saved."""

    async def start(self) -> None:
        """Start it, with what it had stored."""
        await self._start(self._new())

    async def _start(self, sandbox: Sandbox) -> None:
        self.process = self.simulation.process(self.name)
        self.process.skew = self.skew
        self.sandbox = sandbox
        await asyncio.shield(self.process.spawn(sandbox.start()))
        self.up = True
        for hook in self.simulation.on_plane:
            hook(self)

    def _new(self) -> Sandbox:
        return Sandbox(name=self.name, tls=False, workers=_InPlace(), signer=_Signer())

    @property
    def store(self) -> ObjectStore:
        """What it holds."""
        return self.sandbox.core.store

    async def kill(self) -> None:
        """End it where it stands; what was stored is kept."""
        self.process.kill()
        self.up = False

    async def restart(self) -> None:
        """Start it again with the data, the address and the keys it had."""
        old, new = self.sandbox, self._new()
        new._log, new._address, new._secrets = old._log, old._address, old._secrets
        await self._start(new)

    async def rebuild(self) -> None:
        """Start another cluster in its place, with nothing in it, at the same address."""
        new = self._new()
        new._address, new._secrets = self.sandbox._address, self.sandbox._secrets
        await self._start(new)

    def save(self) -> None:
        """Back up what is stored now."""
        log = self.sandbox._log
        assert log is not None
        self.backups.append((self.simulation.loop.time(), log._writer.serialize()))

    async def restore(self, content: bytes) -> None:
        """Start it again with an older state of its data: versions go back."""
        log = self.sandbox._log
        assert log is not None
        log._writer.deserialize(content)
        await self.restart()

    def config(self) -> ClusterConfig:
        """The administrator's."""
        return parse_kubeconfig(self.sandbox.kubeconfig())

    def admin(self, **more: Any) -> Client:
        """A client with the administrator's rights."""
        return Client(self.config(), **more)
