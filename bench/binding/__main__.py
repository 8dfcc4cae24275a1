"""The binding controllers against a bare loader that makes the same writes on the same server.

On a real control plane where KUBEBUILDER_ASSETS has one, else on a sandbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.realplane import missing_assets

from bench import planes
from bench.binding.bare import BARE, Bare
from bench.binding.figures import Bound, Figures, Restart, Spread, Turn, Unrelated, rows
from bench.binding.load import SERVICE, Place, Users, binding, deployment, namespace, secret
from bench.loading import LOADER, NAMESPACES, loader, regrouped, side
from bench.processes import Program, running
from bench.rows import Row, report, say
from bench.sizes import BINDINGS, PARTS
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SUBJECTACCESSREVIEWS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, servicebinding_crd
from fairlead.binding.app import install_crds as install_binding_crds
from fairlead.binding.manifests import NAME, manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.client import Client
from fairlead.client.exchange import IDLE_SECONDS
from fairlead.demo.identity import as_service_account, create_all
from fairlead.runtime import install_crds


BURST, PLACES, RESTARTED, UNRELATED = 0.4, 0.2, 4.0, 40.0
"""Numbers of the others, each a multiple of that of all bindings at once."""
CONNECTIONS = 16
WARM = 20
AT_REST_SECONDS = 10.0
"""Time for which a program that has nothing to do is looked at."""
ROUNDS = 3
HOME, LOADED = NAMESPACES[0], NAMESPACES[1]
"""Namespaces of what is bound by us, and of what is written by the bare loader."""
REQUESTER = f"system:serviceaccount:default:{LOADER}"


class Bench:
    """All that is measured in one place; each part finds what the ones before it left."""

    def __init__(self, program: Program, users: Users, bare: Bare) -> None:
        self._program = program
        self._users = users
        self._bare = bare

    async def bind(self, count: int) -> Bound:
        """Bind few at once and unbind them, then many."""
        burst = await self.turns("burst", int(BURST * count))
        return Bound(*burst, *await self.turns("many", count))

    async def turns(self, prefix: str, count: int) -> tuple[Turn, Turn]:
        """Bind so many at once, and unbind all of them again."""
        names = await self._workloads(prefix, count)
        half = count // 2
        bare = await self._bare.bind(names[:half])
        bound = await self._turn(count, self._create(names))
        bound = bound._replace(bare=bare + await self._bare.bind(names[half:]))
        bare = await self._bare.unbind(names[:half])
        unbound = await self._turn(count, self._users.delete(_places(names)))
        return bound, unbound._replace(bare=bare + await self._bare.unbind(names[half:]))

    async def change(self, count: int) -> Turn:
        """Change one Secret of so many bindings."""
        names = await self._workloads("changed", count)
        await self._create(names)
        await self._bare.bind(names)
        turn = await self._turn(count, self._users.change(HOME, "new", names))
        turn = turn._replace(bare=await self._bare.change(names))
        await self._users.delete(_places(names))
        return turn

    async def select(self, count: int) -> Turn:
        """Select so many workloads with one binding that has a requester."""
        names = await self._workloads("selected", count, "all")
        bare = await self._bare.select("selection", names, REQUESTER)
        annotations = {"servicebinding.io/requester": f'{{"username": "{REQUESTER}"}}'}
        selects: JSON = {"selector": {"matchLabels": {"group": "all"}}}
        write = binding(SERVICEBINDINGS, HOME, "selection", selects, annotations)
        places = _places(["selection"])
        turn = await self._turn(count, self._users.create([write], places))
        await self._users.delete(places)
        return turn._replace(bare=bare)

    async def spread(self, count: int) -> Spread:
        """Bind in each of many namespaces."""
        places = [(f"place-{number:03}", "web") for number in range(count)]
        await self._users.send(namespace(name) for name, _ in places)
        await self._users.send(secret(name, SERVICE) for name, _ in places)
        await self._users.send(deployment(*place) for place in places)
        memory = await self._program.resident_at_rest()
        writes = [binding(SERVICEBINDINGS, *place) for place in places]
        await self._users.create(writes, places)
        memory = await self._program.resident_at_rest() - memory
        # A connection that nobody uses is closed after twice as long at most.
        await asyncio.sleep(2 * IDLE_SECONDS)
        found = Spread(count, self._connections(), memory)
        await self._users.delete(places)
        return found

    async def restart(self, count: int) -> Restart:
        """Start again among so many that are Ready."""
        names = await self._workloads("settled", count)
        await self._workloads("late", ROUNDS)
        await self._create(names)
        await self._program.resident_at_rest()
        alone = min([await self._create([f"late-{number}"]) for number in range(ROUNDS)])
        await self._workloads("new", 1)
        versions = await self._users.versions(HOME)
        await self._program.stop()
        await self._program.start()
        begun, cpu = time.monotonic(), self._program.cpu()
        new = await self._create(["new-0"])

        async def settled() -> bool:
            told = await self._program.metrics()
            return told.total("controller_runtime_reconcile_total") >= count

        await self._program.until(settled)
        seconds, cpu = time.monotonic() - begun, self._program.cpu() - cpu
        await self._program.resident_at_rest()
        now = await self._users.versions(HOME)
        # What other parts have left behind is the garbage collector's, which takes its time.
        changed = sum(
            now.get(key) != version
            for key, version in versions.items()
            if key[-1].startswith(("settled-", "late-"))
        )
        return Restart(count, seconds, cpu, changed, new, alone)

    async def unrelated(self, count: int) -> Unrelated:
        """Add unrelated objects, half of them Secrets, half Deployments."""
        names = await self._workloads("one", 2)
        await self._create(names[:1])
        memory = await self._program.resident_at_rest()
        bind, unbind = await self._cycle(names[1])
        idle, _ = await self._idle()
        half = range(count // 2)
        await self._users.send(secret(HOME, f"unrelated-{number}") for number in half)
        await self._users.send(deployment(HOME, f"unrelated-{number}") for number in half)
        memory = await self._program.resident_at_rest() - memory
        after, writes = await self._idle()
        later = await self._cycle(names[1])
        return Unrelated(count, memory, after, idle, writes, later[0], bind, later[1], unbind)

    async def _workloads(self, prefix: str, count: int, group: str = "") -> list[str]:
        """Make Deployments for us and for the bare loader."""
        names = [f"{prefix}-{number}" for number in range(count)]
        labels = {"group": group} if group else {}
        await self._users.send(
            deployment(namespace, name, labels) for namespace in (HOME, LOADED) for name in names
        )
        return names

    async def _cycle(self, name: str) -> tuple[float, float]:
        """Find the best seconds of binding and of unbinding one."""
        found = [
            (await self._create([name]), await self._users.delete(_places([name])))
            for _ in range(ROUNDS)
        ]
        return min(bound for bound, _ in found), min(unbound for _, unbound in found)

    async def _idle(self) -> tuple[float, float]:
        """Measure the CPU of a second, and the writes of all, while nothing happens."""
        await self._program.resident_at_rest()
        cpu, before = self._program.cpu(), await self._program.metrics()
        await asyncio.sleep(AT_REST_SECONDS)
        writes = (await self._program.metrics()).writes - before.writes
        return (self._program.cpu() - cpu) / AT_REST_SECONDS, writes

    async def _create(self, names: list[str]) -> float:
        writes = [binding(SERVICEBINDINGS, HOME, name) for name in names]
        return await self._users.create(writes, _places(names))

    async def _turn(self, count: int, work: Awaitable[float]) -> Turn:
        cpu, before = self._program.cpu(), await self._program.metrics()
        seconds = await work
        await self._program.resident_at_rest()
        after = await self._program.metrics()
        cpu = self._program.cpu() - cpu
        return Turn(count, seconds, 1.0, cpu, after.requests - before.requests)

    def _connections(self) -> int:
        folder = Path(f"/proc/{self._program.pid}/fd")
        return sum(str(one.readlink()).startswith("socket:") for one in folder.iterdir())


def _places(names: list[str]) -> list[Place]:
    return [(HOME, name) for name in names]


@asynccontextmanager
async def place(kind: str) -> AsyncIterator[Bench]:
    """Run a control plane, the controllers with the rights of their manifests, and a loader."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        plane = await stack.enter_async_context(planes.plane(kind, own))
        admin = await stack.enter_async_context(Client(plane.admin))
        await install_binding_crds(admin)
        await install_crds(admin, [regrouped(servicebinding_crd(), BARE)])
        await create_all(admin, manifests(image="bench"))
        account = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        program = await stack.enter_async_context(running("binding", account, own))
        groups = (SERVICEBINDINGS, BARE, DEPLOYMENTS, SUBJECTACCESSREVIEWS)
        config = await loader(admin, "", *(one.group for one in groups))
        loading = await stack.enter_async_context(side(config))
        users = Users(loading, CONNECTIONS)
        await users.send(secret(namespace, SERVICE) for namespace in (HOME, LOADED))
        bench = Bench(program, users, Bare(loading, CONNECTIONS, LOADED))
        await bench.turns("warm", WARM)
        yield bench


async def compare() -> list[Row]:
    """Measure all parts, or the chosen ones."""
    kind = "sandbox" if missing_assets() else "real"
    async with place(kind) as bench:
        parts: dict[str, Callable[[], Awaitable[Any]]] = {
            "bind": partial(bench.bind, BINDINGS),
            "change": partial(bench.change, BINDINGS),
            "selector": partial(bench.select, BINDINGS),
            "namespaces": partial(bench.spread, int(PLACES * BINDINGS)),
            "restart": partial(bench.restart, int(RESTARTED * BINDINGS)),
            "unrelated": partial(bench.unrelated, int(UNRELATED * BINDINGS)),
        }
        found = {}
        for part, measure in parts.items():
            if not PARTS or part in PARTS:
                found[part] = await measure()
                say(str(found[part]))
    return list(rows(Figures(kind, **found)))


if __name__ == "__main__":
    report(compare)
