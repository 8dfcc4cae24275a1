"""The load on two planes: what a consumer's users and a provider's operator write, and see."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import aiohttp
import msgspec

from bench.pair import BARE, NAMESPACES, SYNCED
from bench.widgets import widget
from fairlead.api.kubebind import FINALIZER_SYNCER
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import ClusterConfig
from fairlead.client.connection import build_ssl_context
from fairlead.client.wire import read_lines


MERGE = "application/merge-patch+json"
CREATE = "application/json"
PARAMETERS = {"fieldManager": "bench"}
LOADED = "bare"
"""The bare loader's objects in the measured run are named so, and numbered."""
CROSSING_SECONDS = 900.0
"""Whatever has not crossed by then never will."""
READY: JSON = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "everything is as it should be",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
}


class Write(NamedTuple):
    """A request whose body is encoded."""

    method: str
    path: str
    body: bytes
    type: str


class Metadata(msgspec.Struct, rename="camel"):
    """What tells objects and their versions apart."""

    name: str
    namespace: str
    resource_version: str
    generation: int = 0


class _Spec(msgspec.Struct):
    size: int = 0


class _Status(msgspec.Struct):
    seen: int = 0


class Watched(msgspec.Struct):
    """What a watch decodes of an object, at least."""

    metadata: Metadata


class Seen(Watched):
    """What the load looks at of an object."""

    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


T = TypeVar("T", bound=Watched)


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


Look = Callable[[str, T], None]


class Side:
    """One plane as the loader speaks to it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(self, write: Write) -> bytes:
        """Raises: RuntimeError: the server refused."""
        headers = {"Content-Type": write.type}
        async with self._session.request(
            write.method, write.path, data=write.body, params=PARAMETERS, headers=headers
        ) as answer:
            body = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{write.method} {write.path}: {body[:500]!r}")
            return body

    @asynccontextmanager
    async def watching(
        self,
        resource: Resource,
        look: Look[T],
        seen: type[T] = Seen,  # type: ignore[assignment]
    ) -> AsyncIterator[None]:
        """Tell of every change while the block runs; ``seen`` is what is decoded of an object.

        A server closes the watch of whoever reads too slowly; it goes on where it ended.
        """
        path = resource.path()
        async with self._session.get(path, params={"limit": "1"}) as answer:
            answer.raise_for_status()
            version = msgspec.json.decode(await answer.read())["metadata"]["resourceVersion"]
        stream = await self._watch(path, version)
        async with asyncio.TaskGroup() as group:
            decoder = msgspec.json.Decoder(_Event[seen])  # type: ignore[valid-type]
            task = group.create_task(self._follow(path, stream, version, look, decoder))
            yield
            task.cancel()

    async def _watch(self, path: str, version: str) -> aiohttp.ClientResponse:
        parameters = {"watch": "1", "resourceVersion": version}
        answer = await self._session.get(path, params=parameters)
        answer.raise_for_status()
        return answer

    async def _follow(
        self,
        path: str,
        stream: aiohttp.ClientResponse,
        version: str,
        look: Look[T],
        decoder: msgspec.json.Decoder[_Event[T]],
    ) -> None:
        """Until cancelled."""
        while True:
            async with stream:
                async for lines in read_lines(stream.content):
                    for line in lines:
                        event = decoder.decode(line)
                        version = event.object.metadata.resource_version
                        look(event.type, event.object)
            stream = await self._watch(path, version)


@asynccontextmanager
async def side(config: ClusterConfig) -> AsyncIterator[Side]:
    """A session of whoever the configuration names, by token where there is one."""
    headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
    async with aiohttp.ClientSession(
        config.server,
        connector=aiohttp.TCPConnector(limit=0, ssl=build_ssl_context(config)),
        timeout=aiohttp.ClientTimeout(total=None, sock_read=300),
        headers=headers,
    ) as session:
        yield Side(session)


async def each(connections: int, work: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do all, so many at once."""
    remaining = iter(work)

    async def connection() -> None:
        for one in remaining:
            await one()

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(connection())


def namespace(number: int) -> str:
    """Where the object of this number is."""
    return NAMESPACES[number % len(NAMESPACES)]


def body(resource: Resource, name: str, number: int) -> tuple[str, JSON]:
    """A namespace and an object in it, of about 2.4 KB as a server stores it."""
    where = namespace(number)
    made = widget(number)
    made["apiVersion"] = resource.api_version
    made["metadata"] |= {"name": name, "namespace": where}
    return where, made


def create(resource: Resource, name: str, number: int) -> Write:
    where, made = body(resource, name, number)
    return Write("POST", resource.path(where), msgspec.json.encode(made), CREATE)


def status(resource: Resource, where: str, name: str, seen: int = 1) -> Write:
    path = resource.path(where, name, "status")
    made = msgspec.json.encode({"status": {"conditions": [READY], "seen": seen}})
    return Write("PATCH", path, made, MERGE)


def size(resource: Resource, where: str, name: str, value: int) -> Write:
    made = msgspec.json.encode({"spec": {"size": value}})
    return Write("PATCH", resource.path(where, name), made, MERGE)


class Bare:
    """The bare loader: the same writes, without looking at anything."""

    def __init__(self, consumer: Side, provider: Side) -> None:
        self.sides = (consumer, provider)

    async def run(self, prefix: str, numbers: Iterable[int], connections: int) -> float:
        """Seconds for the objects of these numbers."""
        made = [self._writes(f"{prefix}-{number}", number) for number in numbers]
        begun = time.monotonic()
        await each(connections, (partial(self._one, one) for one in made))
        return time.monotonic() - begun

    async def _one(self, writes: list[tuple[Side, Write]]) -> None:
        for where, write in writes:
            await where.send(write)

    def _writes(self, name: str, number: int) -> list[tuple[Side, Write]]:
        """As the konnector's: what a copy carries, and what is told of it."""
        consumer, provider = self.sides
        where, made = body(BARE, name, number)
        made["metadata"]["annotations"] |= {
            "kube-bind.io/cluster-namespace": "kube-bind-xxxxxxxx",
            "kube-bind.io/consumer-namespace": where,
            "kube-bind.io/consumer-uid": "00000000-0000-0000-0000-000000000000",
        }
        told = {
            "kube-bind.io/provider-namespace": f"kube-bind-xxxxxxxx-{where}",
            "kube-bind.io/provider-uid": "00000000-0000-0000-0000-000000000000",
        }
        path = BARE.path(where, name)
        copy = Write("POST", BARE.path(where), msgspec.json.encode(made), CREATE)
        return [
            (consumer, create(BARE, name, number)),
            (consumer, _metadata(path, {"finalizers": [FINALIZER_SYNCER]})),
            (provider, copy),
            (provider, status(BARE, where, name)),
            (consumer, _metadata(path, {"annotations": told})),
            (consumer, status(BARE, where, name)),
        ]


def _metadata(path: str, metadata: JSON) -> Write:
    return Write("PATCH", path, msgspec.json.encode({"metadata": metadata}), MERGE)


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
        """Seconds from the first create until every object and every status has crossed."""
        writes = [create(SYNCED, f"{prefix}-{number}", number) for number in range(objects)]
        copies: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        missing = {f"{prefix}-{number}" for number in range(objects)}
        done = asyncio.Event()
        for number in range(objects):
            self.sources[f"{prefix}-{number}"] = namespace(number)

        def copied(type_: str, found: Seen) -> None:
            metadata = found.metadata
            if type_ == "ADDED" and metadata.name.startswith(prefix):
                self.copies[metadata.name] = metadata.namespace
                copies.put_nowait((metadata.namespace, metadata.name))

        def returned(_type: str, found: Seen) -> None:
            if found.status.seen:
                missing.discard(found.metadata.name)
                if not missing:
                    done.set()

        async with (
            self._consumer.watching(SYNCED, returned),
            self._provider.watching(SYNCED, copied),
            asyncio.TaskGroup() as group,
        ):
            begun = time.monotonic()
            operator = [group.create_task(self._operate(copies)) for _ in range(self.connections)]
            await each(
                self.connections,
                (partial(self._consumer.send, one) for one in writes),
            )
            await _until(done, missing)
            seconds = time.monotonic() - begun
            for one in operator:
                one.cancel()
        return seconds

    async def _operate(self, copies: asyncio.Queue[tuple[str, str]]) -> None:
        while True:
            where, name = await copies.get()
            await self._provider.send(status(SYNCED, where, name))


async def _until(done: asyncio.Event, missing: set[str]) -> None:
    try:
        async with asyncio.timeout(CROSSING_SECONDS):
            await done.wait()
    except TimeoutError:
        shown = ", ".join(sorted(missing)[:3])
        raise RuntimeError(f"{len(missing)} objects have not crossed: {shown}") from None


def quantile(samples: list[float], share: float) -> float:
    """The sample below which this share of them is."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
