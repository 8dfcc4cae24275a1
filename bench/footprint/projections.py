"""Bindings, each of a Deployment of its own to a Secret: the binding controllers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from bench import planes
from bench.binding.load import SERVICE, Users, binding, deployment, secret
from bench.footprint.replicas import Replicas, replicas
from bench.footprint.world import CONNECTIONS
from bench.loading import NAMESPACES, loader, namespace_of, side
from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.app import install_crds
from fairlead.binding.manifests import NAME, manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.client import Client
from fairlead.demo.identity import as_service_account, create_all


AT_ONCE = 5000
"""Bindings that are created before those of before are waited for."""


class ProjectionWorld:
    """Users who bind a Secret of each namespace to workloads in it."""

    def __init__(self, users: Users, controllers: Replicas) -> None:
        self.replicas = (controllers,)
        self._controllers = controllers
        self._users = users
        self._names: defaultdict[str, list[str]] = defaultdict(list)
        self._passwords = itertools.count()
        self._probes = itertools.count()

    async def load(self, objects: int) -> None:
        """Create workloads and bindings, and wait until all are Ready."""
        for first in range(0, objects, AT_ONCE):
            await self._bind("app", range(first, min(first + AT_ONCE, objects)))

    async def _bind(self, prefix: str, numbers: Iterable[int]) -> None:
        places = [(namespace_of(number), f"{prefix}-{number}") for number in numbers]
        await self._users.send(deployment(*place) for place in places)
        await self._users.create([binding(SERVICEBINDINGS, *place) for place in places], places)
        for namespace, name in places:
            self._names[namespace].append(name)

    async def change(self, changes: int) -> int:
        """Change the passwords of whole namespaces, and wait until workloads mount new Secrets."""
        done = 0
        for namespace, names in self._names.items():
            if done < changes:
                await self._users.change(namespace, f"new-{next(self._passwords)}", names)
                done += len(names)
        return done

    @property
    def probes(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """One binding more."""
        return {self._controllers.name: lambda: self._bind(f"probe-{next(self._probes)}", [0])}


@asynccontextmanager
async def projections(kind: str) -> AsyncIterator[ProjectionWorld]:
    """Run a plane of a kind and the controllers."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        plane = await stack.enter_async_context(planes.plane(kind, own, fsync=False))
        admin = await stack.enter_async_context(Client(plane.admin))
        await install_crds(admin)
        await create_all(admin, manifests(image="bench"))
        account = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        controllers = await stack.enter_async_context(replicas("binding", account, own, NAME))
        config = await loader(admin, "", SERVICEBINDINGS.group, DEPLOYMENTS.group)
        users = Users(await stack.enter_async_context(side(config)), CONNECTIONS)
        await users.send(secret(namespace, SERVICE) for namespace in NAMESPACES)
        yield ProjectionWorld(users, controllers)
