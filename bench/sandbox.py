"""The sandbox against kube-apiserver with etcd, in rounds that take turns."""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.support.realplane import missing_assets

from bench.loading import NAMESPACES, WIDGETS, Side, Write, each, loader, side, widget, widget_crd
from bench.planes import Plane, kube_apiserver, sandbox, scratch
from bench.rows import MIB, Row, report, say
from bench.sizes import SANDBOX_ROUNDS
from fairlead.api.meta import JSON
from fairlead.client import Client, ClusterConfig
from fairlead.runtime import install_crds


AIM_READY = 8.0
AIM_MEMORY = 0.2
AIM_WRITES = 1.0
CONNECTIONS = 16
WATCHES = 10


class Phase(NamedTuple):
    """Speed of one phase of the load, and its cost."""

    per_second: float
    cpu: float
    """Seconds of the server's CPU per operation."""


class Figures(NamedTuple):
    """One server, one round; bytes and seconds."""

    ready: float
    resident: int
    writes: Phase
    reads: Phase
    events: Phase


Rounds = dict[str, list[Figures]]
"""Figures of each server: "real" and "sandbox"."""


def rows(rounds: Rounds) -> Iterator[Row]:
    """Print ratios with their aims, and the numbers that they are made of."""

    def row(
        key: str,
        title: str,
        of: Callable[[Figures], float],
        unit: str,
        aim: float | None = None,
        *,
        smaller: bool = False,
        note: str = "",
    ) -> Row:
        ours, real = (statistics.median(map(of, rounds[name])) for name in ("sandbox", "real"))
        value = real / ours if key == "ready" else ours / real
        numbers = f"{ours:,.2f} {unit} against {real:,.2f} {unit}"
        return Row(
            f"sandbox_{key}",
            f"Sandbox: {title} kube-apiserver with etcd",
            value,
            aim=aim,
            smaller_is_better=smaller,
            note=f"{numbers}; {note}" if note else numbers,
        )

    listed = "from exec to the first authorized list"
    yield row("ready", "ready sooner than", lambda one: one.ready, "s", AIM_READY, note=listed)
    resident = "resident memory after the load, of"
    yield row("memory", resident, lambda one: one.resident / MIB, "MiB", AIM_MEMORY, smaller=True)
    durable = (
        "SQLite in WAL mode with synchronous=FULL: like etcd it answers after fsync, and "
        "a power failure loses nothing that was answered"
    )
    writes = "writes, durable, against"
    yield row("writes", writes, lambda one: one.writes.per_second, "/s", AIM_WRITES, note=durable)
    yield row("writes_cpu", "CPU of a durable write, of", lambda one: 1e6 * one.writes.cpu, "us")
    yield row("reads", "reads of one object against", lambda one: one.reads.per_second, "/s")
    watches = f"{WATCHES} watches of what {CONNECTIONS} connections write"
    yield row(
        "watch", "watch events against", lambda one: one.events.per_second, "/s", note=watches
    )


OBJECTS = 1500
READS = 3000
WATCHED = 1000
"""Objects that are replaced while watches look at them."""
NAMESPACE = NAMESPACES[0]
PATH = WIDGETS.path(NAMESPACE)

_NAME = re.compile(rb'"name":"(widget-[0-9]+)"')


async def measure(plane: Plane) -> Figures:
    """Load a server that has just started."""
    async with side(await _prepare(plane.admin)) as loading:
        load = Load(plane, loading)
        await load.warm_up()
        writes = await load.write()
        reads = await load.read()
        events = await load.watch()
        return Figures(plane.ready, plane.resident(), writes, reads, events)


async def _prepare(admin: ClusterConfig) -> ClusterConfig:
    async with Client(admin) as client:
        await install_crds(client, [widget_crd()])
        return await loader(client, WIDGETS.group)


class Load:
    """One client of one server."""

    def __init__(self, plane: Plane, side: Side) -> None:
        self._plane = plane
        self._side = side
        self._bodies: list[bytes] = []

    async def warm_up(self) -> None:
        """Open every connection."""
        await self._each(Write("GET", PATH) for _ in range(4 * CONNECTIONS))

    async def write(self) -> Phase:
        """Create every object, then replace it."""

        async def work() -> None:
            await self._keep(
                Write("POST", PATH, msgspec.json.encode(_widget(number)))
                for number in range(OBJECTS)
            )
            await self._replace(OBJECTS, 2)

        return await self._timed(2 * OBJECTS, work)

    async def read(self) -> Phase:
        """Get objects, one by one."""

        async def work() -> None:
            paths = [path_of(body) for body in self._bodies]
            await self._each(Write("GET", paths[number % OBJECTS]) for number in range(READS))

        return await self._timed(READS, work)

    async def watch(self) -> Phase:
        """Count events that watches get while objects are replaced at full speed."""
        version = await self._side.version(PATH)
        async with asyncio.TaskGroup() as group:
            opened = asyncio.Barrier(WATCHES + 1)
            watches = [group.create_task(self._follow(version, opened)) for _ in range(WATCHES)]
            await opened.wait()

            async def work() -> None:
                await self._replace(WATCHED, 3)
                await asyncio.wait(watches)

            return await self._timed(WATCHED * WATCHES, work)

    async def _follow(self, version: str, opened: asyncio.Barrier) -> None:
        async with await self._side.watch(PATH, version) as answer:
            await opened.wait()
            missing = WATCHED
            while missing > 0:
                missing -= (await answer.content.readany()).count(b"\n")

    async def _timed(self, count: int, work: Callable[[], Awaitable[None]]) -> Phase:
        cpu, begun = self._plane.cpu(), time.monotonic()
        await work()
        seconds = time.monotonic() - begun
        return Phase(count / seconds, (self._plane.cpu() - cpu) / count)

    async def _replace(self, count: int, size: int) -> None:
        old, new = f'"size":{size - 1}'.encode(), f'"size":{size}'.encode()
        changed = [body.replace(old, new, 1) for body in self._bodies[:count]]
        await self._keep(Write("PUT", path_of(body), body) for body in changed)

    async def _keep(self, writes: Iterable[Write]) -> None:
        """Write, and keep the answers."""
        answers: list[bytes] = []

        async def send(write: Write) -> None:
            answers.append(await self._side.send(write))

        await each(CONNECTIONS, send, writes)
        self._bodies = answers

    async def _each(self, reads: Iterable[Write]) -> None:
        await each(CONNECTIONS, self._side.send, reads)


def _widget(number: int) -> JSON:
    return widget(f"widget-{number}", NAMESPACE, number)


def path_of(body: bytes) -> str:
    """Find the path of an object that a server has answered with."""
    name = _NAME.search(body)
    assert name is not None
    return f"{PATH}/{name[1].decode()}"


NEEDED = ("etcd", "kube-apiserver")
STARTS = 3
"""Starts of each server in a round, of which the median counts."""


async def one_round(folder: Path) -> dict[str, Figures]:
    """Load every server, one after the other, alone on the machine."""
    return {
        "real": await loaded(lambda: kube_apiserver(folder)),
        "sandbox": await loaded(lambda: sandbox(folder, "--data")),
    }


async def loaded(start: Callable[[], AbstractAsyncContextManager[Plane]]) -> Figures:
    """Load a server, and find how soon it is ready in the middle of some starts."""
    ready = []
    for _ in range(STARTS - 1):
        async with start() as plane:
            ready.append(plane.ready)
    async with start() as plane:
        figures = await measure(plane)
    return figures._replace(ready=statistics.median([*ready, figures.ready]))


async def compare() -> list[Row]:
    """Measure all rounds; whatever ends them, no server is left behind."""
    if missing := missing_assets(NEEDED):
        say(f"sandbox left out: {missing}")
        return []
    rounds: Rounds = {}
    with scratch() as folder:
        for _ in range(SANDBOX_ROUNDS):
            for name, figures in (await one_round(folder)).items():
                rounds.setdefault(name, []).append(figures)
                say(f"{name:6} {figures}")
    return list(rows(rounds))


if __name__ == "__main__":
    report(compare)
