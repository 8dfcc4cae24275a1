"""Two replicas of a program as processes with one Lease: killed, frozen, and started anew.

A Lease lasts long, so that no replica of a busy machine loses it. Where one is killed or frozen,
the administrator says in the Lease that it lasts a second, as if its duration had gone by; a
frozen replica goes by that too once it is thawed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from tests.support.process import config_file
from tests.support.requests import connections
from tests.support.waiting import SECONDS, when

from fairlead.api.meta import JSON
from fairlead.api.resource import LEASES
from fairlead.client import Client, ClusterConfig


_LASTING = """
from pathlib import Path
from fairlead.client import limits
from fairlead.runtime.manager import lease
limits.GRACE_SECONDS = 0.5
def lasting(until, after):
    def seconds(self):
        return after if Path({overdue!r}).exists() else until
    return property(seconds, lambda self, value: None)
election = lease.LeaderElection
election._duration, election._deadline = lasting(504.0, 1.0), lasting(503.0, 0.9)
election.__init__.__kwdefaults__.update(retry_period=0.2)
lease.default_identity = lambda: {name!r}
"""


class Mate:
    """One replica; ``name`` is its identity in the Lease."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.name = name
        self.process = process
        self._folder = folder

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    async def says(self, text: str) -> None:
        """Wait until its log has this."""
        async with asyncio.timeout(SECONDS):
            while text not in self.log:
                assert self.process.returncode is None, self.log[-2000:]
                await asyncio.sleep(0.02)

    def freeze(self) -> set[tuple[int, int]]:
        """Stop it where it stands; the connections that it has."""
        self.process.send_signal(signal.SIGSTOP)
        (self._folder / "overdue").touch()
        return connections(self.process.pid)

    async def thaw(self) -> None:
        """Let it go on, and wait until it has ended for it leads no more."""
        self.process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(SECONDS):
            assert await self.process.wait() == 1, self.log[-2000:]
        assert "lost the lease" in self.log

    async def kill(self) -> None:
        """End it as a node that is lost does."""
        self.process.kill()
        await self.process.wait()


class Mates:
    """Replicas of one program.

    Args:
        command: what follows ``fairlead``, without flags of the connection and the election.
        admin: of the cluster that the Lease is in.
        account: the program's ServiceAccount.
        lease: name and namespace of the Lease.
        folder: for kubeconfigs and logs.
    """

    def __init__(
        self,
        command: tuple[str, ...],
        admin: Client,
        account: ClusterConfig,
        lease: tuple[str, str],
        folder: Path,
    ) -> None:
        self._command = command
        self._admin = admin
        self._account = account
        self._lease = lease
        self._folder = folder
        self._names = map("mate-{}".format, count(1))
        self._all: list[Mate] = []

    async def start(self) -> Mate:
        """Start one more, and wait until it leads or stands by."""
        name = next(self._names)
        folder = self._folder / name
        folder.mkdir()
        (folder / "kubeconfig").write_text(config_file(self._account))
        prelude = _LASTING.format(overdue=str(folder / "overdue"), name=name)
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", f"{prelude}\nfrom fairlead.cli import main\nmain()"),
                *(*self._command, "--kubeconfig", str(folder / "kubeconfig")),
                *("--leader-elect=true", f"--lease-name={self._lease[0]}"),
                *("--health-probe-bind-address=", "--metrics-bind-address="),
                "--log-format=json",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"POD_NAMESPACE": self._lease[1]},
            )
        mate = Mate(name, process, folder)
        self._all.append(mate)
        await mate.says('"msg": "leading"' if len(self._living) == 1 else "waiting for leadership")
        return mate

    async def succeed(self, gone: Mate) -> Mate:
        """Have the Lease of one that is dead or frozen run out, and wait for the next leader."""
        over: JSON = {"spec": {"leaseDurationSeconds": 1}}
        name, namespace = self._lease
        await self._admin.merge_patch(LEASES, name, namespace, over)

        def another(body: JSON) -> bool:
            return body["spec"].get("holderIdentity") not in {None, "", gone.name}

        body: Mapping[str, JSON] = await when(self._admin, LEASES, name, namespace, until=another)
        return next(one for one in self._all if one.name == body["spec"]["holderIdentity"])

    async def end(self) -> None:
        """Kill all that live."""
        for one in self._living:
            await one.kill()

    @property
    def _living(self) -> list[Mate]:
        return [one for one in self._all if one.process.returncode is None]


@asynccontextmanager
async def mates(
    command: tuple[str, ...],
    admin: Client,
    account: ClusterConfig,
    lease: tuple[str, str],
    folder: Path,
) -> AsyncIterator[Mates]:
    """None yet; those that are started are killed at the end."""
    found = Mates(command, admin, account, lease, folder)
    try:
        yield found
    finally:
        await found.end()
