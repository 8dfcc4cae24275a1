"""The load on one server: connections create, replace, read and watch objects at full speed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from bench.loading import NAMESPACES, Side, Write, each, loader, side
from bench.planes import Plane
from bench.sandbox.figures import CONNECTIONS, WATCHES, Figures, Phase
from bench.widgets import WIDGETS, crd, widget
from fairlead.api.meta import JSON
from fairlead.client import Client, ClusterConfig
from fairlead.runtime import install_crds


OBJECTS = 1500
READS = 3000
WATCHED = 1000
"""Objects that are replaced while watches look at them."""
NAMESPACE = NAMESPACES[0]
PATH = WIDGETS.path(NAMESPACE)

_NAME = re.compile(rb'"name":"(widget-[0-9]+)"')


async def measure(plane: Plane, *, bare: bool = False) -> Figures:
    """Load a server that has just started; a ``bare`` one knows nothing of Kubernetes."""
    async with side(plane.admin if bare else await _prepare(plane.admin)) as loading:
        load = Load(plane, loading)
        await load.warm_up()
        writes = await load.write()
        reads = await load.read()
        events = reads if bare else await load.watch()
        return Figures(plane.ready, plane.resident(), writes, reads, events)


async def _prepare(admin: ClusterConfig) -> ClusterConfig:
    async with Client(admin) as client:
        await install_crds(client, [crd()])
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
