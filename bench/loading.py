"""Load on API servers: encoded requests over many connections, and watches that see the outcome.

A ServiceAccount sends them, so that what it asks is authorized as what programs ask is.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

import aiohttp
import msgspec

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, ClusterConfig
from fairlead.client.connection import build_ssl_context
from fairlead.client.wire import PARTIAL_LIST, read_lines
from fairlead.demo.identity import as_service_account, create_all


NAMESPACES = tuple(f"team-{number:02}" for number in range(20))
"""Namespaces of all objects."""
LOADER = "loader"
"""The name of the ServiceAccount in ``default``, and of its rights."""
LIMIT_SECONDS = 900.0
"""The longest time until all that was written has had its effect."""
READY: JSON = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "everything is as it should be",
    "lastTransitionTime": "2024-01-01T00:00:00Z",
}
"""A condition as controllers write it."""

_HEADERS = {"Content-Type": "application/json", "User-Agent": "bench"}
_MERGE = {"Content-Type": "application/merge-patch+json"}
_METADATA_ONLY = {"Accept": PARTIAL_LIST}

T = TypeVar("T")


class Write(NamedTuple):
    """A request whose body is encoded, as JSON unless the headers say otherwise."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] | None = None


def post(resource: Resource, namespace: str, body: JSON) -> Write:
    whole = {**body, "apiVersion": resource.api_version, "kind": resource.kind}
    return Write("POST", resource.path(namespace), msgspec.json.encode(whole))


def patch(resource: Resource, namespace: str, name: str, body: JSON, part: str = "") -> Write:
    """Merge a body into an object, or into ``part`` of it, a subresource."""
    path = resource.path(namespace, name, part)
    return Write("PATCH", path, msgspec.json.encode(body), _MERGE)


def delete(resource: Resource, namespace: str, name: str) -> Write:
    return Write("DELETE", resource.path(namespace, name))


def encoded(data: dict[str, str]) -> dict[str, str]:
    """Encode the values of a Secret."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


Place = tuple[str, str]
"""Namespace and name of an object."""


class Metadata(msgspec.Struct, rename="camel"):
    """Members that tell objects and their versions apart."""

    name: str
    namespace: str
    resource_version: str
    generation: int = 0

    @property
    def place(self) -> Place:
        return self.namespace, self.name


class Watched(msgspec.Struct):
    """An object, as little of it as a watch decodes at least."""

    metadata: Metadata


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    conditions: list[_Condition] = []


class Conditioned(Watched):
    """An object with conditions."""

    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ready(self) -> bool:
        """Whether it is Ready as it is now."""
        return self.status.observed_generation == self.metadata.generation and any(
            one.type == "Ready" and one.status == "True" for one in self.status.conditions
        )


W = TypeVar("W", bound=Watched)


class _Event(msgspec.Struct, Generic[W]):
    type: str
    object: W


class _List(msgspec.Struct, Generic[W]):
    items: list[W]


class Side:
    """One plane as the loader speaks to it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(self, write: Write) -> bytes:
        """Send a request and read the answer; a server that is not ready for it is asked again.

        Raises:
            RuntimeError: the server refused.
        """
        async with self._session.request(
            write.method, write.path, data=write.body, headers=write.headers
        ) as answer:
            body = await answer.read()
        if answer.status == 429:
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
            return await self.send(write)
        if answer.status >= 300:
            raise RuntimeError(f"{write.method} {write.path}: {body[:500]!r}")
        return body

    async def settle(
        self,
        resource: Resource,
        seen: type[W],
        is_done: Callable[[str, W], bool],
        places: Iterable[Place],
        work: Callable[[], Awaitable[object]],
    ) -> float:
        """Time some work until a watch has told of all these objects what is waited for."""
        missing = Awaited(places)

        def look(type_: str, one: W) -> None:
            if is_done(type_, one):
                missing.told(one.metadata.place)

        async with self.watching(resource, seen, look):
            begun = time.monotonic()
            await work()
            await missing.wait()
            return time.monotonic() - begun

    async def until_ready(
        self,
        resource: Resource,
        places: Sequence[Place],
        writes: Iterable[Write],
        connections: int,
    ) -> float:
        """Time the writes until all these objects are Ready as written."""
        missing = Awaited(places)
        written: dict[Place, int] = {}
        ready: dict[Place, int] = {}

        def compare(place: Place) -> None:
            # The watch may tell of an object before its write is answered.
            if place in written and ready.get(place, 0) >= written[place]:
                missing.told(place)

        def look(_type: str, one: Conditioned) -> None:
            if one.ready:
                ready[one.metadata.place] = one.metadata.generation
                compare(one.metadata.place)

        async def send(write: Write) -> None:
            stored = msgspec.json.decode(await self.send(write), type=Conditioned).metadata
            written[stored.place] = stored.generation
            compare(stored.place)

        async with self.watching(resource, Conditioned, look):
            begun = time.monotonic()
            await each(connections, send, writes)
            await missing.wait()
            return time.monotonic() - begun

    async def until_gone(
        self, resource: Resource, places: Sequence[Place], connections: int
    ) -> float:
        """Time from the first deletion until all these objects are gone."""
        writes = [delete(resource, *place) for place in places]
        return await self.settle(
            resource,
            Watched,
            lambda type_, _: type_ == "DELETED",
            places,
            lambda: each(connections, self.send, writes),
        )

    async def items(self, resource: Resource, namespace: str, seen: type[W]) -> list[W]:
        """List objects; ``seen`` is what is decoded of each."""
        body = await self.send(Write("GET", resource.path(namespace)))
        return msgspec.json.decode(body, type=_List[seen]).items  # type: ignore[valid-type]

    async def versions(
        self, resource: Resource, namespace: str = ""
    ) -> dict[tuple[str, str, str], str]:
        """List the resourceVersions, by plural, namespace and name."""
        write = Write("GET", resource.path(namespace), headers=_METADATA_ONLY)
        found = msgspec.json.decode(await self.send(write), type=_List[Watched]).items
        metadata = (one.metadata for one in found)
        return {
            (resource.plural, one.namespace, one.name): one.resource_version for one in metadata
        }

    async def version(self, path: str) -> str:
        """Ask for the resourceVersion of a collection."""
        async with self._session.get(path, params={"limit": "1"}) as answer:
            answer.raise_for_status()
            return str(msgspec.json.decode(await answer.read())["metadata"]["resourceVersion"])

    async def watch(self, path: str, version: str) -> aiohttp.ClientResponse:
        """Begin to watch a collection."""
        parameters = {"watch": "1", "resourceVersion": version}
        answer = await self._session.get(path, params=parameters)
        answer.raise_for_status()
        return answer

    @asynccontextmanager
    async def watching(
        self, resource: Resource, seen: type[W], look: Callable[[str, W], None]
    ) -> AsyncIterator[None]:
        """Tell of every change while the block runs; ``seen`` is what is decoded of an object.

        A server closes the watch of whoever reads too slowly; it goes on where it ended.
        """
        path = resource.path()
        version = await self.version(path)
        stream = await self.watch(path, version)
        async with asyncio.TaskGroup() as group:
            decoder = msgspec.json.Decoder(_Event[seen])  # type: ignore[valid-type]
            task = group.create_task(self._follow(path, stream, version, look, decoder))
            yield
            task.cancel()

    async def _follow(
        self,
        path: str,
        stream: aiohttp.ClientResponse,
        version: str,
        look: Callable[[str, W], None],
        decoder: msgspec.json.Decoder[_Event[W]],
    ) -> None:
        """Look at all events until cancelled."""
        while True:
            async with stream:
                async for lines in read_lines(stream.content):
                    for line in lines:
                        event = decoder.decode(line)
                        version = event.object.metadata.resource_version
                        look(event.type, event.object)
            stream = await self.watch(path, version)


@asynccontextmanager
async def side(config: ClusterConfig) -> AsyncIterator[Side]:
    """Open a session of the user that the configuration names, by token where there is one."""
    headers = {"Authorization": f"Bearer {config.token}"} if config.token else {}
    async with aiohttp.ClientSession(
        config.server,
        connector=aiohttp.TCPConnector(limit=0, ssl=build_ssl_context(config)),
        timeout=aiohttp.ClientTimeout(total=None, sock_read=300),
        headers=_HEADERS | headers,
    ) as session:
        yield Side(session)


async def each(
    connections: int, do: Callable[[T], Awaitable[object]], things: Iterable[T]
) -> None:
    """Do it with each thing, so many at once."""
    remaining = iter(things)

    async def connection() -> None:
        for one in remaining:
            await do(one)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(connection())


async def fastest(candidates: Iterable[int], run: Callable[[int], Awaitable[float]]) -> int:
    """Find the number of connections with which a run takes the fewest seconds."""
    seconds = {connections: await run(connections) for connections in candidates}
    return min(seconds, key=lambda connections: seconds[connections])


class Awaited:
    """Names of which a watch has yet to tell."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._missing = set(names)
        self._none = asyncio.Event()

    def told(self, name: Hashable) -> None:
        """Cross out a name, if it is still there."""
        self._missing.discard(name)
        if not self._missing:
            self._none.set()

    async def wait(self) -> None:
        """Wait until all are crossed out.

        Raises:
            RuntimeError: some are left after :data:`LIMIT_SECONDS`.
        """
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await self._none.wait()
        except TimeoutError:
            some = ", ".join(sorted(map(str, self._missing))[:3])
            raise RuntimeError(f"{len(self._missing)} are not done: {some}") from None


def namespace_of(number: int) -> str:
    """Choose the namespace of the object of this number."""
    return NAMESPACES[number % len(NAMESPACES)]


def twin(resource: Resource) -> Resource:
    """Name the same kind once more, in a group that only the bare loader writes."""
    return Resource("bare.bench", "v1", resource.plural, resource.kind)


def regrouped(crd: JSON, resource: Resource) -> JSON:
    """Give a CRD the group of another resource, without what one CRD alone may have."""
    crd["metadata"] = {"name": resource.group_resource}
    crd["spec"]["group"] = resource.group
    crd["spec"]["names"].pop("shortNames", None)
    crd["spec"].pop("conversion", None)
    return crd


async def loader(admin: Client, *groups: str) -> ClusterConfig:
    """Make a ServiceAccount with all rights on these API groups, and the namespaces."""
    group = "rbac.authorization.k8s.io"
    named: JSON = {"metadata": {"name": LOADER}}
    account: JSON = {"kind": "ServiceAccount", "name": LOADER, "namespace": "default"}
    bodies: list[JSON] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in NAMESPACES
    ]
    bodies += [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": LOADER, "namespace": "default"},
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "rules": [{"apiGroups": list(groups), "resources": ["*"], "verbs": ["*"]}],
            **named,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "subjects": [account],
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": LOADER},
            **named,
        },
    ]
    await create_all(admin, bodies)
    return await as_service_account(admin, "default", LOADER)


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")
FIELDS = 24
"""Members of a spec beside those that have a meaning."""

_TEXT: JSON = {"type": "string", "maxLength": 64, "pattern": "^[a-z0-9-]+$"}


def widget_crd() -> JSON:
    """Make a CRD with patterns, an enum, bounds, a list map and a status, as many have."""
    condition: JSON = {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": {"type": "string"},
            "message": {"type": "string", "maxLength": 1024},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    }
    conditions: JSON = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    spec: JSON = {
        "type": "object",
        "required": ["mode", "size"],
        "properties": {
            "mode": {"type": "string", "enum": ["fast", "safe"]},
            "size": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
            "retries": {"type": "integer", "default": 3},
            **{f"field{index}": _TEXT for index in range(FIELDS)},
        },
    }
    schema: JSON = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"conditions": conditions}},
        },
    }
    version: JSON = {
        "name": WIDGETS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS.group_resource},
        "spec": {
            "group": WIDGETS.group,
            "scope": "Namespaced",
            "names": {
                "plural": WIDGETS.plural,
                "singular": "widget",
                "kind": WIDGETS.kind,
                "listKind": f"{WIDGETS.kind}List",
            },
            "versions": [version],
        },
    }


def widget(name: str, namespace: str, number: int) -> JSON:
    """Make an object of about 1.5 KB as a client writes it."""
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": WIDGETS.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": f"app-{number % 50}", "team": f"team-{number % 7}"},
            "annotations": {"example.org/description": f"widget number {number}"},
        },
        "spec": {
            "mode": "fast",
            "size": 1,
            **{f"field{index}": f"{number}-{index}".ljust(39, "v") for index in range(FIELDS)},
        },
    }
