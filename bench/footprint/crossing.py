"""Objects that cross from a consumer to its provider: konnector, provider and front door."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from tests.support.realplane import free_ports

from bench import planes
from bench.footprint.replicas import Replicas, replicas
from bench.footprint.world import BULK, CONNECTIONS
from bench.loading import NAMESPACES, Awaited, Metadata, Side, each, loader, patch, post, side
from bench.processes import Program
from bench.sync.load import Crossing, Seen, size
from bench.sync.pair import SYNCED, prepare_consumer, prepare_provider
from bench.sync.restart import all_compared
from bench.widgets import widget
from fairlead.api.kubebind import FINALIZER_SYNCER, decode_binding_response
from fairlead.api.kubebind.names import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_PROVIDER_NAMESPACE,
    ANNOTATION_PROVIDER_UID,
)
from fairlead.client import Client
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.manifests import LEASE as KONNECTOR_LEASE
from fairlead.portal import manifests as serving
from fairlead.portal.identity.embedded.passwords import hash_line
from fairlead.portal.options import DEFAULT_NAMESPACE as SERVE_NAMESPACE
from fairlead.portal.options import NAME as SERVE
from fairlead.provider.invitation import invite
from fairlead.provider.manifests import NAME as PROVIDER


class _Metadata(Metadata):
    uid: str = ""


class _Made(msgspec.Struct):
    metadata: _Metadata


class CrossingWorld:
    """A consumer and a provider that are bound; users of the consumer write widgets."""

    def __init__(
        self, consumer: Side, provider: Side, owner: str, konnector: Replicas, *others: Replicas
    ) -> None:
        self.replicas = (konnector, *others)
        self._konnector = konnector
        self._consumer = consumer
        self._provider = provider
        self._owner = owner
        self._crossing = Crossing(consumer, provider, CONNECTIONS)
        self._values = itertools.count(2)

    async def load(self, objects: int) -> None:
        """Let all cross, or write both ends of them while no konnector runs."""
        if objects < BULK:
            await self._crossing.run("widget", objects)
            return
        # The provider's namespaces are made for the first objects.
        await self._crossing.run("widget", len(NAMESPACES))
        there = {
            self._crossing.sources[name]: where for name, where in self._crossing.copies.items()
        }
        await self._konnector.stop()
        numbers = range(len(NAMESPACES), objects)
        await each(CONNECTIONS, lambda number: self._both(number, there), numbers)
        await self._konnector.start()
        await self._compared(objects)

    async def _both(self, number: int, there: Mapping[str, str]) -> None:
        """Write an object and its copy as they are in sync."""
        where = NAMESPACES[number % len(NAMESPACES)]
        name = f"widget-{number}"
        body = widget(name, where, number)
        body["metadata"]["finalizers"] = [FINALIZER_SYNCER]
        source = await self._create(self._consumer, where, body)
        body = widget(name, there[where], number)
        body["metadata"]["annotations"] |= {
            ANNOTATION_CLUSTER_NAMESPACE: self._owner,
            ANNOTATION_CONSUMER_NAMESPACE: where,
            ANNOTATION_CONSUMER_UID: source.uid,
        }
        copy = await self._create(self._provider, there[where], body)
        told = {
            ANNOTATION_PROVIDER_NAMESPACE: copy.namespace,
            ANNOTATION_PROVIDER_UID: copy.uid,
        }
        write = patch(SYNCED, where, name, {"metadata": {"annotations": told}})
        await self._consumer.send(write)
        self._crossing.sources[name] = where

    async def _create(self, where: Side, namespace: str, body: dict[str, object]) -> _Metadata:
        answer = await where.send(post(SYNCED, namespace, body))
        return msgspec.json.decode(answer, type=_Made).metadata

    async def _compared(self, objects: int) -> None:
        leader = self._konnector.leader

        async def all_are() -> bool:
            return all_compared(await leader.metrics(), objects)

        await leader.until(all_are)

    async def change(self, changes: int) -> int:
        """Change the specs of so many, and wait until their copies have that."""
        names = list(self._crossing.sources)[:changes]
        value = next(self._values)
        missing = Awaited(names)

        def look(_type: str, seen: Seen) -> None:
            if seen.spec.size == value:
                missing.told(seen.metadata.name)

        writes = [size(SYNCED, self._crossing.sources[name], name, value) for name in names]
        async with self._provider.watching(SYNCED, Seen, look):
            await each(CONNECTIONS, self._consumer.send, writes)
            await missing.wait()
        return len(names)

    @property
    def probes(self) -> Mapping[str, Callable[[], Awaitable[object]]]:
        """One change of a spec; provider and front door have nothing to do with it."""
        return {self._konnector.name: lambda: self.change(1)}


@asynccontextmanager
async def crossing(kind: str) -> AsyncIterator[CrossingWorld]:
    """Run a pair of planes of a kind, "real" or "sandbox", with all three programs."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        clients = []
        for _ in range(2):
            plane = await stack.enter_async_context(planes.plane(kind, own, fsync=False))
            clients.append(await stack.enter_async_context(Client(plane.admin)))
        here, there = clients
        account = await prepare_provider(there)
        provider = await stack.enter_async_context(replicas("provider", account, own, PROVIDER))
        account = await prepare_consumer(here)
        konnector = await stack.enter_async_context(
            replicas("konnector", account, own, KONNECTOR_LEASE)
        )
        bodies = serving.manifests(
            image="bench",
            external_url="https://bind.example.org",
            issuer_url="https://login.example.org",
            client_id="bench",
        )
        await create_all(there, bodies)
        account = await as_service_account(there, SERVE_NAMESPACE, SERVE)
        people = own / "people.yaml"
        people.write_text(f"people: [{{name: bench, password: {hash_line('bench')!r}}}]")
        flags = (
            *(f"--listen-address=127.0.0.1:{free_ports(1)[0]}", "--oidc-type=embedded"),
            f"--oidc-people-file={people}",
        )
        door = Program("provider", account, own, *flags, verb="serve")
        stack.push_async_callback(door.stop)
        await door.start()
        answer = await invite(there, name="bench", template="widgets")
        response = decode_binding_response(msgspec.json.encode(answer))
        await bind(here, response)
        configs = [await loader(admin, SYNCED.group) for admin in (here, there)]
        ours, theirs = [await stack.enter_async_context(side(config)) for config in configs]
        yield CrossingWorld(
            *(ours, theirs, response.provider_namespace, konnector, provider),
            Replicas("serve", [door], leads=False),
        )
