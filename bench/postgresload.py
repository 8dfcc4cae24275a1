"""Who creates and changes accesses, and sees when they are ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import msgspec

from bench.pair import NAMESPACES
from bench.postgresplace import SERVER, access
from bench.syncload import CREATE, MERGE, Side, Watched, Write, each
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import Resource


READY_SECONDS = 600.0
"""Whoever is not ready by then never will be."""
OURS = "ours"
"""The operator's databases are named so."""


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    conditions: list[_Condition] = []


class Access(Watched):
    """What is looked at of an access."""

    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ready(self) -> bool:
        """Whether what is wanted now is so."""
        return self.status.observed_generation == self.metadata.generation and any(
            one.type == "Ready" and one.status == "True" for one in self.status.conditions
        )


def create(resource: Resource, name: str, number: int, prefix: str, server: str = SERVER) -> Write:
    """What a user does."""
    namespace, body = access(resource, name, number, prefix, server)
    return Write("POST", resource.path(namespace), msgspec.json.encode(body), CREATE)


def privileges(resource: Resource, name: str, number: int, prefix: str, *more: str) -> Write:
    """Ask for more privileges than :func:`access` does."""
    namespace, body = access(resource, name, number, prefix)
    body["spec"]["grants"][0]["privileges"] += more
    changed: JSON = {"spec": {"grants": body["spec"]["grants"]}}
    path = resource.path(namespace, name)
    return Write("PATCH", path, msgspec.json.encode(changed), MERGE)


def namespace_of(number: int) -> str:
    """Where the access of this number is."""
    return NAMESPACES[number % len(NAMESPACES)]


class Users:
    """Users of the operator."""

    def __init__(self, side: Side, connections: int) -> None:
        self._side = side
        self._connections = connections

    async def create(self, prefix: str, numbers: Iterable[int], server: str = SERVER) -> float:
        """Seconds from the first access created until all are ready."""
        names = {f"{prefix}-{number}": number for number in numbers}
        writes = [
            create(POSTGRESACCESSES, name, number, OURS, server) for name, number in names.items()
        ]
        return await self._until_ready(writes, set(names), self._connections)

    def creation(self, server: str, number: int) -> Callable[[], Awaitable[object]]:
        """The creation of an access on another server, which nobody waits to be ready."""
        write = create(POSTGRESACCESSES, f"at-{server}", number, OURS, server)
        return partial(self._side.send, write)

    async def delete(self, prefix: str, numbers: Iterable[int]) -> None:
        """Delete accesses and wait until they are gone."""
        names = {f"{prefix}-{number}": number for number in numbers}
        missing, done = set(names), asyncio.Event()

        def look(type_: str, found: Access) -> None:
            if type_ == "DELETED":
                missing.discard(found.metadata.name)
                if not missing:
                    done.set()

        paths = [
            POSTGRESACCESSES.path(namespace_of(number), name) for name, number in names.items()
        ]
        writes = [Write("DELETE", path, b"", CREATE) for path in paths]
        async with self._side.watching(POSTGRESACCESSES, look, Access):
            await each(self._connections, (partial(self._side.send, one) for one in writes))
            async with asyncio.timeout(READY_SECONDS):
                await done.wait()

    async def change(self, name: str, number: int, *more: str) -> float:
        """Seconds from a change until it is in force."""
        write = privileges(POSTGRESACCESSES, name, number, OURS, *more)
        return await self._until_ready([write], {name}, 1)

    async def _until_ready(
        self, writes: list[Write], missing: set[str], connections: int
    ) -> float:
        done = asyncio.Event()
        answers: dict[str, int] = {}
        ready: dict[str, int] = {}

        def settle(name: str) -> None:
            # The watch may tell of an object before its write is answered.
            if name in answers and ready.get(name, 0) >= answers[name]:
                missing.discard(name)
                if not missing:
                    done.set()

        def look(_type: str, found: Access) -> None:
            if found.ready:
                ready[found.metadata.name] = found.metadata.generation
                settle(found.metadata.name)

        async def send(write: Write) -> None:
            stored = msgspec.json.decode(await self._side.send(write), type=Access)
            answers[stored.metadata.name] = stored.metadata.generation
            settle(stored.metadata.name)

        async with self._side.watching(POSTGRESACCESSES, look, Access):
            begun = time.monotonic()
            await each(connections, (partial(send, one) for one in writes))
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await done.wait()
            except TimeoutError:
                some = ", ".join(sorted(missing)[:3])
                raise RuntimeError(f"{len(missing)} accesses are not ready: {some}") from None
            return time.monotonic() - begun
