"""The load on two planes: users of the consumer create, an operator of the provider answers."""

from __future__ import annotations

import asyncio
import time

import msgspec

from bench.loading import READY, Awaited, Side, Watched, Write, each, namespace_of, patch, post
from bench.sync.pair import SYNCED
from bench.widgets import widget
from fairlead.api.resource import Resource


class _Spec(msgspec.Struct):
    size: int = 0


class _Status(msgspec.Struct):
    seen: int = 0


class Seen(Watched):
    """An object as the load looks at it."""

    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def create(resource: Resource, name: str, number: int) -> Write:
    """Create an object of about 2.4 KB as a server stores it."""
    where = namespace_of(number)
    return post(resource, where, widget(name, where, number))


def status(resource: Resource, where: str, name: str, seen: int = 1) -> Write:
    made = {"status": {"conditions": [READY], "seen": seen}}
    return patch(resource, where, name, made, "status")


def size(resource: Resource, where: str, name: str, value: int) -> Write:
    return patch(resource, where, name, {"spec": {"size": value}})


class Crossing:
    """The measured run: users create, an operator answers each copy with a status."""

    def __init__(self, consumer: Side, provider: Side, connections: int) -> None:
        self._consumer = consumer
        self._provider = provider
        self.connections = connections
        self.sources: dict[str, str] = {}
        """The consumer namespaces of the objects, by name."""
        self.copies: dict[str, str] = {}
        """The provider namespaces of the copies, by name."""

    async def run(self, prefix: str, objects: int) -> float:
        """Time from the first create until every object and every status has crossed."""
        names = {f"{prefix}-{number}": number for number in range(objects)}
        writes = [create(SYNCED, name, number) for name, number in names.items()]
        copies: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        missing = Awaited(names)
        self.sources |= {name: namespace_of(number) for name, number in names.items()}

        def copied(type_: str, found: Seen) -> None:
            metadata = found.metadata
            if type_ == "ADDED" and metadata.name.startswith(prefix):
                self.copies[metadata.name] = metadata.namespace
                copies.put_nowait((metadata.namespace, metadata.name))

        def returned(_type: str, found: Seen) -> None:
            if found.status.seen:
                missing.told(found.metadata.name)

        async with (
            self._consumer.watching(SYNCED, Seen, returned),
            self._provider.watching(SYNCED, Seen, copied),
            asyncio.TaskGroup() as group,
        ):
            begun = time.monotonic()
            operator = [group.create_task(self._operate(copies)) for _ in range(self.connections)]
            await each(self.connections, self._consumer.send, writes)
            await missing.wait()
            seconds = time.monotonic() - begun
            for one in operator:
                one.cancel()
        return seconds

    async def _operate(self, copies: asyncio.Queue[tuple[str, str]]) -> None:
        while True:
            where, name = await copies.get()
            await self._provider.send(status(SYNCED, where, name))
