"""Keeps all objects of one bound resource and their copies in step."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import msgspec

from fairlead.api.meta import Key, Object, OwnerReference
from fairlead.api.resource import Resource
from fairlead.client.errors import ApiError, Conflict
from fairlead.konnector.ahead import LAG
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.apiserviceexport.reconcile import SyncerSpec
from fairlead.konnector.rights import remedy
from fairlead.konnector.syncer.copies import is_orphan
from fairlead.konnector.syncer.execution import Ends, Executor
from fairlead.konnector.syncer.isolation import Strategy, choose
from fairlead.konnector.syncer.steps import Sides
from fairlead.konnector.syncer.view import EVERYWHERE, View
from fairlead.konnector.syncer.walk import Walker
from fairlead.runtime import Delta, Informer, Request, Result


class Syncer:
    """The spec and the status syncer of one resource of one export.

    Both work on one queue, so that they never write the same object at the same time.
    """

    def __init__(
        self, provider: Provider, binding: str, export: OwnerReference, wanted: SyncerSpec
    ) -> None:
        self._provider = provider
        self._binding = binding
        self._export = export
        self._wanted = wanted

    async def run(self) -> None:
        """Synchronise until cancelled."""
        namespaces = self._provider.service_namespaces
        strategy = choose(
            scope=self._wanted.scope,
            isolation=self._wanted.isolation,
            cluster_namespace=await self._provider.owner(),
            provider_namespace=namespaces.provider,
            consumer_namespace=namespaces.consumer,
        )
        run = _Run(self._provider, self._binding, self._export, self._wanted, strategy)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(run.objects.close)
            stack.callback(run.end)
            await run.run()


class _Run:
    """One run of a syncer: its leases, its queue and what it remembers."""

    def __init__(
        self,
        provider: Provider,
        binding: str,
        export: OwnerReference,
        wanted: SyncerSpec,
        strategy: Strategy,
    ) -> None:
        self._strategy = strategy
        self._provider = provider
        self._consumer = provider.consumer
        self._wanted = wanted
        self._binding = binding
        self._source = f"sync {wanted.resource.group_resource}"
        self._refused = ""
        name = f"sync-{wanted.resource.group_resource}"
        self._metrics = self._consumer.syncs.of(binding, wanted.resource.group_resource, name)
        self.objects: Informer = self._consumer.cluster.informer(wanted.resource)
        self._view = self._new_view()
        self._executor = Executor(
            Ends(
                consumer=self._consumer.client,
                provider=provider.client,
                consumer_resource=wanted.resource,
                provider_resource=_provider_resource(wanted),
                strategy=strategy,
                namespaces=provider.service_namespaces,
                export=export,
            ),
            forbidden=self._forbidden,
        )
        self._walker = Walker(
            self._executor,
            wanted.resource,
            self._metrics,
            conflicts=self._consumer.conflicts,
            source=self._source,
            tell=self._tell,
        )
        self._controller = self._provider.controller(
            name, self._reconcile, workers=self._consumer.options.workers
        )

    def end(self) -> None:
        """Take back what was said of the binding."""
        self.problem("")
        self._metrics.stopped()
        self._consumer.conflicts.clear(self._binding, self._source)

    def problem(self, message: str) -> None:
        """Have the binding say what keeps its objects from being synchronised."""
        self._consumer.problems.report(self._binding, self._source, message)

    async def run(self) -> None:
        namespaces = self._provider.service_namespaces
        # Objects without a namespace over there have no copy to wait for: that must be known.
        await namespaces.synced()
        self._metrics.queue(lambda: len(self._controller.queue))
        self._metrics.watch(self.objects, "consumer")
        self._controller.watch(self.objects, predicate=self._news)
        namespaces.listen(self._namespace_changed)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._view.run())
                group.create_task(self._controller.run())
                group.create_task(self._look_after())
        finally:
            namespaces.unlisten(self._namespace_changed)

    def _new_view(self) -> View:
        return View(
            self._provider.cluster,
            _provider_resource(self._wanted),
            self._provider_namespaces,
            handler=self._copy_changed,
            on_synced=self._copies_known,
            opened=lambda lease: self._metrics.watch(lease, "provider"),
        )

    def _provider_namespaces(self) -> frozenset[str]:
        """Where the konnector has the right to watch copies."""
        if self._wanted.scope == "Cluster":
            flipped = self._wanted.isolation == "Namespaced"
            return frozenset({self._provider.namespace}) if flipped else EVERYWHERE
        if self._wanted.informer_scope == "Cluster":
            return EVERYWHERE
        return frozenset(self._provider.service_namespaces.assigned().values())

    async def _look_after(self) -> None:
        """Watches that fail are nobody's event."""
        while True:
            faults = [self._advised(self.objects.error), self._advised(self._refused)]
            faults += [f"on the provider: {error}" for error in self._view.errors()]
            self.problem("; ".join(fault for fault in faults if fault))
            self._walker.count()
            await asyncio.sleep(self._consumer.options.health_interval)

    def _forbidden(self, message: str) -> None:
        self._refused = message

    def _advised(self, message: str) -> str:
        return f"{message}. {remedy(self._binding)}" if "forbidden" in message.lower() else message

    def _news(self, delta: Delta) -> bool:
        """Whether a change of the consumer's object is anybody's but ours."""
        if delta.new is not None and self._executor.consumers.echoes(delta.new):
            return False
        self._metrics.spec.arrived(delta.object.key)
        return True

    def _copy_changed(self, delta: Delta) -> None:
        self._executor.providers.seen(delta.object.key)
        if delta.new is not None and self._executor.providers.echoes(delta.new):
            return
        key = self._strategy.to_consumer(delta.object.key)
        if key is not None:
            self._metrics.status.arrived(key)
            self._controller.enqueue(Request("", *key))

    def _copies_known(self, namespace: str) -> None:
        mapped = self._provider.service_namespaces.consumer(namespace)
        self._enqueue_all(mapped if self._strategy.needs_namespace and namespace else "")

    def _namespace_changed(self, consumer: str, _assigned: str) -> None:
        self._view.mark()
        self._executor.providers.clear()
        if self._strategy.needs_namespace:
            self._enqueue_all(consumer)

    def _enqueue_all(self, namespace: str) -> None:
        for found in self.objects.list(namespace):
            self._controller.enqueue(Request("", *found.key))

    async def _reconcile(self, request: Request) -> Result | None:
        key = Key(request.namespace, request.name)
        sides = self._look(key)
        if sides is None:
            return None
        try:
            result = await self._walker.walk(key, sides)
        except Conflict:
            self._executor.consumers.forget(key)
            if sides.target is not None:
                self._executor.providers.forget(sides.target)
            raise
        except ApiError as error:
            self._tell(sides, "SyncFailed", self._advised(error.message))
            raise
        unconfirmed = sides.target and self._executor.providers.unconfirmed(sides.target)
        return Result(LAG) if unconfirmed else result

    def _look(self, key: Key) -> Sides | None:
        """What the caches say; None as long as the provider's is not filled."""
        target = self._strategy.to_provider(key)
        if target is not None and not self._view.ready(target.namespace):
            return None
        consumer = self.objects.get(key.namespace, key.name)
        return Sides(
            consumer=self._executor.consumers.newest(key, consumer),
            provider=(
                self._executor.providers.newest(target, self._view.get(target)) if target else None
            ),
            target=target,
            cluster_namespace=self._provider.namespace,
            service_namespace=(
                not self._strategy.needs_namespace
                or self._provider.service_namespaces.asked(key.namespace)
            ),
            namespace_refusal=self._provider.service_namespaces.refusal(key.namespace),
            status_subresource=self._wanted.status_subresource,
            orphan=consumer is not None and self._orphan(consumer),
        )

    def _orphan(self, consumer: Object) -> bool:
        """By its own annotation, or by that of its binding when the binding goes."""
        binding = self._consumer.bindings.get("", self._binding)
        leaving = binding is not None and binding.meta.deleting and is_orphan(binding.meta)
        return leaving or is_orphan(consumer.meta)

    def _tell(self, sides: Sides, reason: str, message: str) -> None:
        if sides.consumer is not None:
            self._consumer.events.event(sides.consumer, "Warning", reason, message)


def _provider_resource(wanted: SyncerSpec) -> Resource:
    """Under Namespaced isolation the provider's resource is namespaced, the consumer's is not."""
    if wanted.isolation == "Namespaced" and not wanted.resource.namespaced:
        return msgspec.structs.replace(wanted.resource, namespaced=True)
    return wanted.resource
