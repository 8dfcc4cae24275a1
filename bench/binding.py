"""The binding controllers against a bare loader that makes the same writes on the same server.

On a real control plane where KUBEBUILDER_ASSETS has one, else on a sandbox. ``BENCH_BINDINGS=50``
measures with so many bindings instead of 500, and with a tenth of everything else too;
``BENCH_PARTS=bind,restart`` measures these parts alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from tests.support.realplane import missing_assets

from bench import planes
from bench.bindingload import BARE, SERVICE, Bare, Users, binding, deployment, namespace, secret
from bench.bindingrows import rows
from bench.pair import LOADER, NAMESPACES, Program, loader
from bench.rows import Row, emit
from bench.syncload import side
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.resource import NAMESPACES as NAMESPACE_KIND
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, servicebinding_crd
from fairlead.binding.app import install_crds as install_binding_crds
from fairlead.binding.manifests import NAME, manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.process import cancel_on, run
from fairlead.runtime import install_crds


PARTS = ("bind", "change", "selector", "namespaces", "restart", "unrelated")
SIZE = 500
BURST, RESTARTED, UNRELATED, PLACES = 0.4, 4.0, 40.0, 0.2
"""How many there are of the others, of the bindings."""
CONNECTIONS = 16
WARM = 20
IDLE_SECONDS = 10.0
KEPT_SECONDS = 20.0
"""That a connection may be kept for the next request."""
ROUNDS = 3
HOME, LOADED = NAMESPACES[0], NAMESPACES[1]
"""Where what is bound by us is, and what is written by the bare loader."""
REQUESTER = f"system:serviceaccount:default:{LOADER}"


class Turn(NamedTuple):
    """What the controllers took, and the bare loader, in seconds."""

    number: int
    seconds: float
    bare: float
    cpu: float
    """Seconds of the controllers' CPU."""
    requests: float
    """Of the controllers to the API server."""

    @property
    def ratio(self) -> float:
        return self.seconds / self.bare


class Spread(NamedTuple):
    """Bindings in as many namespaces."""

    number: int
    connections: int
    """In all, once those that nobody uses are closed."""
    memory: float
    """Bytes more than before."""


class Restart(NamedTuple):
    """A start where all bindings are Ready."""

    number: int
    seconds: float
    """Until each was looked at."""
    cpu: float
    changed: int
    """Bindings, Secrets and workloads that are of another version then."""
    new: float
    """Seconds of a binding that is created meanwhile."""
    alone: float
    """Seconds of one that is created when nothing else happens."""


class Unrelated(NamedTuple):
    """One binding, before there are so many unrelated objects beside it and after."""

    number: int
    memory: float
    """Bytes more than before."""
    idle: float
    """Seconds of CPU at rest, of one second."""
    idle_before: float
    writes: float
    bind: float
    bind_before: float
    unbind: float
    unbind_before: float


class Figures(NamedTuple):
    """Everything; None for what was left out."""

    kind: str
    burst: Turn | None = None
    unburst: Turn | None = None
    many: Turn | None = None
    unmany: Turn | None = None
    change: Turn | None = None
    selector: Turn | None = None
    spread: Spread | None = None
    restart: Restart | None = None
    unrelated: Unrelated | None = None


class Bench:
    """All that is measured in one place."""

    def __init__(self, program: Program, users: Users, bare: Bare) -> None:
        self._program = program
        self._users = users
        self._bare = bare

    async def workloads(self, prefix: str, count: int, app: str = "") -> list[str]:
        """Deployments for us and for the bare loader."""
        names = [f"{prefix}-{number}" for number in range(count)]
        labels = {"group": app} if app else {}
        await self._users.send(
            deployment(namespace, name, labels) for namespace in (HOME, LOADED) for name in names
        )
        return names

    async def bind(self, prefix: str, count: int) -> tuple[Turn, Turn]:
        """So many bindings at once, and all of them unbound again."""
        names = await self.workloads(prefix, count)
        half = count // 2
        bare = await self._bare.bind(names[:half])
        bound = await self._turn(count, self._create(names))
        bound = bound._replace(bare=bare + await self._bare.bind(names[half:]))
        bare = await self._bare.unbind(names[:half])
        unbound = await self._turn(count, self._users.delete(_keys(names)))
        return bound, unbound._replace(bare=bare + await self._bare.unbind(names[half:]))

    async def change(self, count: int) -> Turn:
        """One Secret of so many bindings changes."""
        names = await self.workloads("changed", count)
        await self._create(names)
        await self._bare.bind(names)
        turn = await self._turn(count, self._users.change(HOME, "new", names))
        turn = turn._replace(bare=await self._bare.change(names))
        await self._users.delete(_keys(names))
        return turn

    async def select(self, count: int) -> Turn:
        """One binding with a requester selects so many workloads."""
        names = await self.workloads("selected", count, "all")
        bare = await self._bare.select("selection", names, REQUESTER)
        annotations = {"servicebinding.io/requester": f'{{"username": "{REQUESTER}"}}'}
        selects: JSON = {"selector": {"matchLabels": {"group": "all"}}}
        write = binding(SERVICEBINDINGS, HOME, "selection", selects, annotations)
        key = (HOME, "selection")
        turn = await self._turn(count, self._users.create([write], [key]))
        await self._users.delete([key])
        return turn._replace(bare=bare)

    async def spread(self, count: int) -> Spread:
        """A binding in each of many namespaces."""
        places = [f"place-{number:03}" for number in range(count)]
        await self._users.send(namespace(name) for name in places)
        await self._users.send(secret(name, SERVICE) for name in places)
        await self._users.send(deployment(name, "web") for name in places)
        memory = await self._program.resident_at_rest()
        writes = [binding(SERVICEBINDINGS, name, "web") for name in places]
        await self._users.create(writes, [(name, "web") for name in places])
        memory = await self._program.resident_at_rest() - memory
        await asyncio.sleep(KEPT_SECONDS)
        found = Spread(count, self._connections(), memory)
        await self._users.delete([(name, "web") for name in places])
        return found

    async def restart(self, count: int) -> Restart:
        """Start again among so many that are Ready."""
        names = await self.workloads("settled", count)
        await self.workloads("late", ROUNDS)
        await self._create(names)
        await self._program.resident_at_rest()
        alone = min([await self._create([f"late-{number}"]) for number in range(ROUNDS)])
        await self.workloads("new", 1)
        versions = await self._users.versions(HOME)
        await self._program.stop()
        await self._program.start()
        begun, cpu = time.monotonic(), self._program.cpu()
        new = await self._create(["new-0"])

        async def settled() -> bool:
            return (await self._metrics()).passes >= count

        await self._program.until(settled)
        seconds, cpu = time.monotonic() - begun, self._program.cpu() - cpu
        await self._program.resident_at_rest()
        now = await self._users.versions(HOME)
        # What other parts have left behind is the garbage collector's, which takes its time.
        changed = sum(
            now.get(key) != version
            for key, version in versions.items()
            if key[1].startswith(("settled-", "late-"))
        )
        return Restart(count, seconds, cpu, changed, new, alone)

    async def unrelated(self, count: int) -> Unrelated:
        """Half of them Secrets, half Deployments."""
        names = await self.workloads("one", 2)
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

    async def _cycle(self, name: str) -> tuple[float, float]:
        """The best seconds of binding and of unbinding one."""
        found = [
            (await self._create([name]), await self._users.delete([(HOME, name)]))
            for _ in range(ROUNDS)
        ]
        return min(bound for bound, _ in found), min(unbound for _, unbound in found)

    async def _idle(self) -> tuple[float, float]:
        """CPU of a second, and writes of all, while nothing happens."""
        await self._program.resident_at_rest()
        cpu, before = self._program.cpu(), await self._metrics()
        await asyncio.sleep(IDLE_SECONDS)
        writes = (await self._metrics()).writes - before.writes
        return (self._program.cpu() - cpu) / IDLE_SECONDS, writes

    async def _create(self, names: list[str]) -> float:
        writes = [binding(SERVICEBINDINGS, HOME, name) for name in names]
        return await self._users.create(writes, _keys(names))

    async def _turn(self, count: int, work: Awaitable[float]) -> Turn:
        cpu, before = self._program.cpu(), await self._metrics()
        seconds = await work
        await self._program.resident_at_rest()
        after = await self._metrics()
        cpu = self._program.cpu() - cpu
        return Turn(count, seconds, 1.0, cpu, after.requests - before.requests)

    async def _metrics(self) -> Numbers:
        return Numbers.of(await self._program.metrics())

    def _connections(self) -> int:
        folder = Path(f"/proc/{self._program.pid}/fd")
        return sum(str(one.readlink()).startswith("socket:") for one in folder.iterdir())


class Numbers(NamedTuple):
    """What the controllers tell of themselves."""

    requests: float
    writes: float
    """Requests other than GET, without those that renew a Lease."""
    passes: float

    @classmethod
    def of(cls, text: str) -> Numbers:
        """From a scrape."""
        requests = writes = passes = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "rest_client_requests_total":
                    requests += sample.value
                    writes += sample.value * (sample.labels["method"] != "GET")
                elif sample.name == "controller_runtime_reconcile_total":
                    passes += sample.value
        return cls(requests, writes, passes)


def _keys(names: list[str]) -> list[tuple[str, str]]:
    return [(HOME, name) for name in names]


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[tuple[str, Bench]]:
    """A control plane, the controllers with the rights of their manifests, and a loader."""
    real = not missing_assets()
    async with AsyncExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        make = planes.kube_controlled if real else planes.sandbox
        plane = await stack.enter_async_context(make(own))
        admin = await stack.enter_async_context(Client(plane.admin))
        await install_binding_crds(admin)
        await install_crds(admin, [_bare_crd()])
        await create_all(admin, manifests(image="bench"))
        account = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        program = Program("binding", account, own)
        stack.push_async_callback(program.stop)
        await program.start()
        loading = await stack.enter_async_context(side(await _loader(admin)))
        users = Users(loading, CONNECTIONS)
        await users.send(secret(namespace, SERVICE) for namespace in (HOME, LOADED))
        bench = Bench(program, users, Bare(loading, CONNECTIONS, LOADED))
        await bench.bind("warm", WARM)
        yield "real" if real else "sandbox", bench


async def _loader(admin: Client) -> ClusterConfig:
    return await loader(
        admin,
        {"apiGroups": [SERVICEBINDINGS.group, BARE.group], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [DEPLOYMENTS.group], "resources": [DEPLOYMENTS.plural], "verbs": ["*"]},
        {
            "apiGroups": [""],
            "resources": [SECRETS.plural, NAMESPACE_KIND.plural, "events"],
            "verbs": ["*"],
        },
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["subjectaccessreviews"],
            "verbs": ["create"],
        },
    )


def _bare_crd() -> JSON:
    """ServiceBinding in another group."""
    body = servicebinding_crd()
    body["metadata"] = {"name": BARE.group_resource}
    body["spec"]["group"] = BARE.group
    body["spec"]["names"].pop("shortNames", None)
    body["spec"].pop("conversion", None)
    return body


async def measure(folder: Path, size: int, parts: set[str]) -> Figures:
    """The parts that are wanted; each finds as many objects as the ones before left."""
    async with place(folder) as (kind, bench):
        found = Figures(kind)
        if "bind" in parts:
            burst, unburst = await bench.bind("burst", int(BURST * size))
            many, unmany = await bench.bind("many", size)
            found = found._replace(burst=burst, unburst=unburst, many=many, unmany=unmany)
            _say(found)
        if "change" in parts:
            found = found._replace(change=await bench.change(size))
            _say(found)
        if "selector" in parts:
            found = found._replace(selector=await bench.select(size))
            _say(found)
        if "namespaces" in parts:
            found = found._replace(spread=await bench.spread(int(PLACES * size)))
            _say(found)
        if "restart" in parts:
            found = found._replace(restart=await bench.restart(int(RESTARTED * size)))
            _say(found)
        if "unrelated" in parts:
            found = found._replace(unrelated=await bench.unrelated(int(UNRELATED * size)))
            _say(found)
        return found


def _say(found: Figures) -> None:
    last = [value for value in found if value is not None][-1]
    print(f"bench: {last}", file=sys.stderr, flush=True)


async def compare() -> list[Row]:
    size = int(os.environ.get("BENCH_BINDINGS", SIZE))
    parts = set(os.environ.get("BENCH_PARTS", ",".join(PARTS)).split(","))
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path(__file__).parent) as folder:
        return rows(await measure(Path(folder), size, parts))


async def main(stop: asyncio.Event) -> None:
    emit(await cancel_on(stop, compare()))


if __name__ == "__main__":
    run(main)
