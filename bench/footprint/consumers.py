"""Consumers of a provider and their namespaces: the provider's controllers."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from bench import planes
from bench.footprint.replicas import Replicas, replicas
from bench.footprint.world import CONNECTIONS
from bench.loading import Awaited, Side, Watched, each, loader, post, side
from bench.sync.pair import prepare_provider
from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICENAMESPACES,
    decode_binding_response,
)
from fairlead.client import Client
from fairlead.provider.invitation import invite
from fairlead.provider.manifests import NAME


CONSUMERS = 20
"""Consumers; the namespaces are spread over them."""


class _Status(msgspec.Struct):
    namespace: str = ""


class _Asked(Watched):
    status: _Status = msgspec.field(default_factory=_Status)


class ConsumerWorld:
    """Konnectors that ask for namespaces, of which each has Roles and RoleBindings."""

    def __init__(self, side: Side, homes: Sequence[str], provider: Replicas) -> None:
        self.replicas = (provider,)
        self._provider = provider
        self._side = side
        self._homes = homes
        self._more = itertools.count()

    async def load(self, objects: int) -> None:
        """Ask for so many namespaces, and wait until all are there."""
        await self._ask("team", range(objects))

    async def _ask(self, prefix: str, numbers: Iterable[int]) -> None:
        places = [
            (self._homes[number % len(self._homes)], f"{prefix}-{number}") for number in numbers
        ]
        missing = Awaited(places)

        def look(_type: str, found: _Asked) -> None:
            if found.status.namespace:
                missing.told((found.metadata.namespace, found.metadata.name))

        writes = [
            post(APISERVICENAMESPACES, home, {"metadata": {"name": name}, "spec": {}})
            for home, name in places
        ]
        async with self._side.watching(APISERVICENAMESPACES, _Asked, look):
            await each(CONNECTIONS, self._side.send, writes)
            await missing.wait()

    async def change(self, changes: int) -> int:
        """Ask for so many namespaces more: to change one that is there does nothing."""
        await self._ask(f"more-{next(self._more)}", range(changes))
        return changes

    @property
    def probes(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """One namespace more."""
        return {self._provider.name: lambda: self.change(1)}


@asynccontextmanager
async def consumers(kind: str) -> AsyncIterator[ConsumerWorld]:
    """Run a plane of a kind and the provider's controllers, with consumers that have exports."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        plane = await stack.enter_async_context(planes.plane(kind, own, fsync=False))
        admin = await stack.enter_async_context(Client(plane.admin))
        account = await prepare_provider(admin)
        provider = await stack.enter_async_context(replicas("provider", account, own, NAME))
        loading = await stack.enter_async_context(
            side(await loader(admin, APISERVICENAMESPACES.group))
        )
        homes = []
        for number in range(CONSUMERS):
            answer = await invite(admin, name=f"team-{number}", template="widgets")
            response = decode_binding_response(msgspec.json.encode(answer))
            homes.append(response.provider_namespace)
            for request in answer["requests"]:
                await loading.send(post(APISERVICEEXPORTREQUESTS, homes[-1], request))
        yield ConsumerWorld(loading, homes, provider)
