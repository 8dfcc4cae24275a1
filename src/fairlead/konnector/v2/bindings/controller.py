"""Follows ClusterBindings and Bindings: their finalizer, their APIs, their status, their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

from fairlead.api.kbind import (
    BINDINGS,
    CLUSTERBINDINGS,
    CONNECTIONS,
    BoundAPI,
    ClusterBinding,
)
from fairlead.api.kbind.names import ANNOTATION_NEVER_BOUND, FIELD_MANAGER, FINALIZER_CLEANUP
from fairlead.api.meta import Key, Object
from fairlead.api.resource import Resource
from fairlead.api.timestamps import now
from fairlead.client.errors import Conflict
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.metrics import connection_label
from fairlead.konnector.reports import Reports
from fairlead.konnector.statuses import refresh, with_whole_status
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.v2.bindings.api import SyncedAPI
from fairlead.konnector.v2.bindings.coverage import (
    BindingSummary,
    CopiesRecord,
    record_of,
    recorded_owner,
    recorded_places,
    stands_back,
    summary,
)
from fairlead.konnector.v2.bindings.crds import owner_of
from fairlead.konnector.v2.bindings.environment import Environment
from fairlead.konnector.v2.bindings.status import APIView, binding_status
from fairlead.konnector.v2.providers import ConnectedProvider, ConnectedProviders
from fairlead.konnector.v2.related.copies import RelatedCopies, with_related
from fairlead.runtime import Delta, Request, add_finalizer, commit, remove_finalizer
from fairlead.runtime.cache.expectations import Expectations


class BindingsController:
    """Watches ClusterBindings and Bindings, Connections and CRDs of the consumer."""

    name = "kbind-bindings"

    def __init__(self, consumer: Consumer, providers: ConnectedProviders) -> None:
        cluster = consumer.cluster
        self._consumer = consumer
        self._providers = providers
        self._cluster_bindings = consumer.kbind_informer(CLUSTERBINDINGS)
        self._bindings = consumer.kbind_informer(BINDINGS)
        self._connections = consumer.kbind_informer(CONNECTIONS)
        self._reports = Reports()
        self._environment = Environment(
            consumer=consumer,
            providers=providers,
            connections=self._connections,
            events=cluster.events(FIELD_MANAGER),
            reports=self._reports,
        )
        self._related = RelatedCopies(self._environment, self._related_changed)
        self._controller = consumer.controller("kbind-bindings", self._reconcile)
        self._apis: dict[str, SyncedAPI] = {}
        self._work: Supervisor[str] = Supervisor("bound APIs")
        self._summaries: dict[Key, BindingSummary] = {}
        self._records: list[CopiesRecord] = []
        """Records of the bindings, as the process before this one has left them."""
        self._changed = asyncio.Event()
        self._written = Expectations()
        self._followed: dict[str, ConnectedProvider] = {}
        self._is_following = False
        """Whether there is work on each API: not before all bindings and CRDs are known."""
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call the listener when the copies that leave a provider may have changed."""
        self._listeners.append(listener)

    def leaving(self, connection: str) -> list[str]:
        """Return the copies that go from the provider of a Connection, each kind as words.

        Args:
            connection: name of a Connection that no binding names any more.
        """
        if not self._is_following:
            return ["bindings are looked at first"]
        apis = sorted(name for name, api in self._apis.items() if api.leaves(connection))
        return [*(f"copies of {name}" for name in apis), *self._related.leaving(connection)]

    async def run(self) -> None:
        """Work until cancelled."""
        controller = self._controller
        async with AsyncExitStack() as stack:
            for informer in (self._cluster_bindings, self._bindings, self._connections):
                stack.push_async_callback(informer.close)
            for informer in (self._cluster_bindings, self._bindings):
                controller.watch(informer)
                informer.subscribe(self._binding_changed)
            self._connections.subscribe(self._connection_changed)
            crds = self._consumer.cluster.informer(self._consumer.crds.resource)
            stack.push_async_callback(crds.close)
            crds.subscribe(self._crd_changed)
            for informer in (self._cluster_bindings, self._bindings, self._connections, crds):
                await informer.synced()
            stack.callback(self._providers.listen(self._provider_changed))
            every = (*self._cluster_bindings.list(), *self._bindings.list())
            self._records = [record for obj in every if (record := record_of(obj)) is not None]
            async with asyncio.TaskGroup() as group:
                group.create_task(self._work.run())
                group.create_task(self._related.run())
                group.create_task(self._follow_apis(crds.list()))
                group.create_task(self._look_after())
                group.create_task(controller.run())

    def _binding_changed(self, delta: Delta) -> None:
        """Have the APIs looked at that a binding lists, or has listed."""
        key = delta.object.key
        before, after = self._summaries.get(key), None
        if delta.new is not None:
            after = summary(delta.new)
        if before == after:
            return
        if after is None:
            self._summaries.pop(key, None)
        else:
            self._summaries[key] = after
        for binding in (before, after):
            for api in binding.apis if binding is not None else ():
                self._poke(api)
        self._changed.set()

    def _connection_changed(self, delta: Delta) -> None:
        connection = delta.object.meta.name
        if delta.new is None:
            self._followed.pop(connection, None)
            self._consumer.syncs.forget(connection_label(connection))
        for binding in self._summaries.values():
            if binding.connection == connection:
                for api in binding.apis:
                    self._poke(api)
        # An API may belong to a Connection that none of its bindings names any more.
        for name, work in self._apis.items():
            if owner_of(self._consumer.crds.get("", name)) == connection:
                work.poke()

    def _crd_changed(self, delta: Delta) -> None:
        self._poke(delta.object.meta.name)

    def _provider_changed(self, connection: str) -> None:
        provider = self._providers.of(connection)
        if provider is not None and provider is not self._followed.get(connection):
            # The subscription ends with the provider's cluster, which may come and go as it is.
            self._followed[connection] = provider
            provider.schemas.subscribe(self._poke)
        for api in self._apis.values():
            if api.connection in {"", connection}:
                api.poke()

    def _poke(self, api: str) -> None:
        if api in self._apis:
            self._apis[api].poke()

    async def _follow_apis(self, crds: Iterable[Object]) -> None:
        """Run the work on each API that a binding lists, and on those that were left before."""
        await self._work.running()
        left = {
            crd.meta.name
            for crd in crds
            if owner_of(crd) and ANNOTATION_NEVER_BOUND not in crd.meta.annotations
        }
        while True:
            self._changed.clear()
            listed = {api for binding in self._summaries.values() for api in binding.apis}
            for name in sorted((listed | left) - self._apis.keys()):
                api = self._apis[name] = SyncedAPI(
                    name,
                    self._environment,
                    self._summaries.values,
                    self._api_changed,
                    self._tell,
                    recorded_places(name, self._records) if name in left else frozenset(),
                    recorded_owner(name, self._records),
                )
                self._work.start(name, api, failed=api.failed)
            # What is bound from here on, this process knows.
            left, self._records = set(), []
            self._is_following = True
            self._tell_listeners()
            for name in sorted(self._apis.keys() - listed):
                if (api := self._apis[name]).finished:
                    del self._apis[name]
                    self._consumer.syncs.forget(connection_label(api.connection), name)
                    await self._work.stop(name)
                    self._reports.forget(name)
            await self._changed.wait()

    async def _look_after(self) -> None:
        """Look at the reports of all APIs, since no event tells of a failing watch."""
        while True:
            await asyncio.sleep(self._consumer.options.health_interval)
            for api in self._apis.values():
                api.check_watches()
            for key in self._summaries:
                self._controller.enqueue(Request("", *key))

    def _listing(self, api: str) -> list[BindingSummary]:
        return [binding for binding in self._summaries.values() if api in binding.apis]

    def _api_changed(self, api: str) -> None:
        for binding in self._listing(api):
            self._controller.enqueue(Request("", *binding.key))
        if api in self._apis and self._apis[api].finished:
            self._changed.set()
        self._tell_listeners()

    def _related_changed(self, key: Key) -> None:
        self._controller.enqueue(Request("", *key))
        self._tell_listeners()

    def _tell_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def _tell(self, binding: BindingSummary, reason: str, message: str) -> None:
        obj = self._object(binding.key)
        if obj is not None:
            self._environment.events.event(obj, "Warning", reason, message)

    def _object(self, key: Key) -> Object | None:
        informer = self._bindings if key.namespace else self._cluster_bindings
        return informer.get(*key)

    async def _reconcile(self, request: Request) -> None:
        key = Key(request.namespace, request.name)
        # A cache that is behind would have each look write what has been written.
        obj = self._written.newest(key, self._object(key))
        binding = self._summaries.get(key)
        if obj is None or binding is None:
            self._written.forget(key)
            return
        if stands_back(self._connections.get("", binding.connection)):
            return
        resource = BINDINGS if key.namespace else CLUSTERBINDINGS
        try:
            await self._settle(resource, obj, binding)
        except Conflict:
            await refresh(self._written, self._consumer.client, resource, key)
            raise

    async def _settle(self, resource: Resource, obj: Object, binding: BindingSummary) -> None:
        client = self._consumer.client
        if not obj.meta.deleting:
            obj = self._wrote(obj, await add_finalizer(client, resource, obj, FINALIZER_CLEANUP))
        obstacles = [why for api in binding.apis if (why := self._obstacle(api, binding))]
        if binding.deleting and not self._is_following:
            obstacles.append("the konnector has not looked at its APIs yet")
        if binding.deleting:
            bound = {api.name for api in obj.decode(ClusterBinding).status.bound_apis}
            obstacles += [
                why
                for name, work in self._apis.items()
                if name not in binding.apis
                and (why := work.residue(binding, reported=name in bound))
            ]
        if binding.deleting and (why := self._related.obstacle(obj)):
            obstacles.append(why)
        if binding.deleting and not obstacles:
            await remove_finalizer(client, resource, obj, FINALIZER_CLEANUP)
            return
        # A status of the process before this one stands until there is something to say.
        works = [self._apis.get(api) for api in binding.apis]
        if binding.deleting or all(work is not None and work.settled for work in works):
            await self._report(resource, obj, binding, obstacles)

    def _wrote(self, old: Object, new: Object) -> Object:
        if new is not old:
            self._written.wrote(new)
        return new

    def _obstacle(self, api: str, binding: BindingSummary) -> str:
        if not binding.deleting:
            return ""
        work = self._apis.get(api)
        return work.obstacle(binding) if work is not None else f"{api} is looked at first"

    async def _report(
        self, resource: Resource, obj: Object, binding: BindingSummary, obstacles: list[str]
    ) -> None:
        views = [self._view(name, binding) for name in binding.apis]
        parsed = obj.decode(ClusterBinding)
        before = {api.name for api in parsed.status.bound_apis}
        left = [
            BoundAPI(name=name)
            for name, api in sorted(self._apis.items())
            if name not in binding.apis and api.is_left(binding, reported=name in before)
        ]
        status = binding_status(parsed, views, obstacles, left=left, now=now())
        faults = self._related.faults(binding.key)
        status = with_related(status, faults, obj.meta.generation, now=now())
        body = with_whole_status(obj, status)
        client = self._consumer.client
        self._wrote(obj, await commit(client, resource, obj, body, subresource="status"))

    def _view(self, name: str, binding: BindingSummary) -> APIView:
        api = self._apis.get(name)
        if api is None:
            return APIView(name)
        return APIView(
            name,
            crd_hash=api.crd_hash,
            fault=api.fault(binding),
            note=api.note(binding),
            conflicts=api.conflicts(binding),
            failing=self._reports.failing(name),
            rewritten=self._reports.rewritten(name),
        )
