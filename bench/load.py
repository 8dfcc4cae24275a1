"""The load: many connections that create, replace, read and watch objects at full speed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import aiohttp
from msgspec import json

from bench.planes import Plane
from bench.widgets import PATH, prepare, widget
from fairlead.client.connection import build_ssl_context


CONNECTIONS = 16
OBJECTS = 1500
READS = 3000
WATCHES = 10
WATCHED = 1000

_NAME = re.compile(rb'"name":"(widget-[0-9]+)"')

Request = tuple[str, str, bytes]


class Phase(NamedTuple):
    """What one phase achieved."""

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
    """The same as reads for a server that has no watches."""


async def measure(plane: Plane) -> Figures:
    """Load a server that has just started."""
    token = await prepare(plane.admin)
    async with _session(plane, token) as session:
        load = Load(session)
        await load.warm_up()
        writes = await _timed(plane, 2 * OBJECTS, load.write)
        reads = await _timed(plane, READS, load.read)
        events = await load.watch(plane)
        return Figures(plane.ready, plane.resident(), writes, reads, events)


async def measure_bare(plane: Plane) -> Figures:
    """The same requests to a server that knows nothing of Kubernetes."""
    async with _session(plane, "none") as session:
        load = Load(session)
        await load.warm_up()
        writes = await _timed(plane, 2 * OBJECTS, load.write)
        reads = await _timed(plane, READS, load.read)
        return Figures(plane.ready, plane.resident(), writes, reads, reads)


def _session(plane: Plane, token: str) -> aiohttp.ClientSession:
    """A session of the account; the administrator's certificate is left out of it."""
    config = replace(plane.admin, client_certificate=b"", client_key=b"")
    return aiohttp.ClientSession(
        config.server,
        connector=aiohttp.TCPConnector(limit=0, ssl=build_ssl_context(config)),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )


async def _timed(plane: Plane, count: int, work: Callable[[], Awaitable[None]]) -> Phase:
    cpu, begun = plane.cpu(), time.monotonic()
    await work()
    seconds = time.monotonic() - begun
    return Phase(count / seconds, (plane.cpu() - cpu) / count)


class Load:
    """One client of one server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._bodies: list[bytes] = []

    async def warm_up(self) -> None:
        """Open every connection."""
        await self._each(("GET", PATH, b"") for _ in range(4 * CONNECTIONS))

    async def write(self) -> None:
        """Create every object, then replace it."""
        new = (json.encode(widget(number)) for number in range(OBJECTS))
        self._bodies = await self._each(("POST", PATH, body) for body in new)
        await self._replace(OBJECTS, 2)

    async def _replace(self, count: int, size: int) -> None:
        old, new = f'"size":{size - 1}'.encode(), f'"size":{size}'.encode()
        changed = [body.replace(old, new, 1) for body in self._bodies[:count]]
        self._bodies = await self._each(("PUT", path_of(body), body) for body in changed)

    async def read(self) -> None:
        """Get objects, one by one."""
        paths = [path_of(body) for body in self._bodies]
        await self._each(("GET", paths[number % OBJECTS], b"") for number in range(READS))

    async def watch(self, plane: Plane) -> Phase:
        """Events that watches get while objects are replaced at full speed."""
        async with self._session.get(PATH, params={"limit": "1"}) as answer:
            version = json.decode(await answer.read())["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as group:
            opened = asyncio.Barrier(WATCHES + 1)
            watches = [group.create_task(self._follow(version, opened)) for _ in range(WATCHES)]
            await opened.wait()

            async def work() -> None:
                await self._replace(WATCHED, 3)
                await asyncio.wait(watches)

            return await _timed(plane, WATCHED * WATCHES, work)

    async def _follow(self, version: str, opened: asyncio.Barrier) -> None:
        parameters = {"watch": "1", "resourceVersion": version}
        async with self._session.get(PATH, params=parameters) as answer:
            answer.raise_for_status()
            await opened.wait()
            missing = WATCHED
            while missing > 0:
                missing -= (await answer.content.readany()).count(b"\n")

    async def _each(self, requests: Iterable[Request]) -> list[bytes]:
        """The answers to requests that are sent over a number of connections at once."""
        answers: list[bytes] = []
        remaining = iter(requests)

        async def connection() -> None:
            for method, path, body in remaining:
                async with self._session.request(method, path, data=body or None) as answer:
                    answers.append(await answer.read())
                    answer.raise_for_status()

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(connection())
        return answers


def path_of(body: bytes) -> str:
    """The path of an object that a server has answered with."""
    name = _NAME.search(body)
    assert name is not None
    return f"{PATH}/{name[1].decode()}"
