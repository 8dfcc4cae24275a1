"""Keeps the objects of one permission claim and their copies in step."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import msgspec

from fairlead.api.kubebind.claims import Targets
from fairlead.api.meta import Key, Object, OwnerReference
from fairlead.api.resource import CONFIGMAPS, SECRETS, SERVICEACCOUNTS
from fairlead.client import ApiError, Conflict
from fairlead.konnector.ahead import LAG
from fairlead.konnector.claims.copies import is_consumer_copy
from fairlead.konnector.claims.execution import Executor
from fairlead.konnector.claims.selection import Referrers, Selection, keys
from fairlead.konnector.claims.steps import Sides
from fairlead.konnector.claims.walk import Walker
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.apiserviceexport.reconcile import ClaimSpec
from fairlead.konnector.reserved import Reserved
from fairlead.konnector.rights import remedy
from fairlead.konnector.syncer.copies import is_orphan, is_ours
from fairlead.konnector.syncer.view import EVERYWHERE, View
from fairlead.runtime import Delta, Informer, Request, Result


CLAIMABLE = {one.plural: one for one in (SECRETS, CONFIGMAPS, SERVICEACCOUNTS)}


class ClaimRun:
    """One run of a claim: its leases, its queue and what it remembers."""

    def __init__(
        self,
        provider: Provider,
        binding: OwnerReference,
        export: OwnerReference,
        wanted: ClaimSpec,
    ) -> None:
        self._provider = provider
        self._consumer = provider.consumer
        self._binding = binding
        self._wanted = wanted
        self._source = f"claim {wanted.claim.name}"
        self._refused = ""
        self._referring: list[Informer] = []
        self._resource = resource = CLAIMABLE[wanted.claim.resource]
        self._reserved = Reserved(
            self._consumer.bindings, self._consumer.options.namespace, self._consumer.bundles
        )
        self._consumers = View(
            self._consumer.cluster,
            resource,
            self._consumer_namespaces,
            handler=self._consumer_changed,
            on_synced=self._consumers_known,
            opened=lambda lease: self._metrics.watch(lease, "consumer"),
        )
        self._providers = View(
            provider.cluster,
            resource,
            self._provider_namespaces,
            handler=self._provider_changed,
            on_synced=self._providers_known,
            opened=lambda lease: self._metrics.watch(lease, "provider"),
        )
        self._executor = Executor(
            resource,
            {"consumer": self._consumer.client, "provider": provider.client},
            provider.service_namespaces,
            export,
            forbidden=self._forbidden,
        )
        name = f"claim-{wanted.claim.name}"
        self._metrics = self._consumer.syncs.of(binding.name, wanted.claim.name, name)
        self._walker = Walker(
            self._executor,
            self._metrics,
            kind=resource.kind,
            conflicts=self._consumer.conflicts,
            source=self._source,
            selected=self._selected,
            tell=self._tell,
        )
        self._controller = self._provider.controller(
            name,
            self._reconcile,
            workers=self._consumer.options.workers,
        )
        self._selection = self._select([])

    async def run(self, referrers: list[Referrers]) -> None:
        """Synchronise until cancelled."""
        self._referring = [informer for one in referrers for informer in one.informers]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_after())
            await self._run(referrers)

    async def _run(self, referrers: list[Referrers]) -> None:
        namespaces = self._provider.service_namespaces
        async with AsyncExitStack() as stack:
            await namespaces.synced()
            for informer in self._referring:
                await informer.synced()
            self._selection = self._select(referrers)
            self._selection.start()
            namespaces.listen(self._namespace_changed)
            stack.callback(namespaces.unlisten, self._namespace_changed)
            report = (self._binding.name, self._wanted.claim.name)
            self._provider.claims[report] = self
            stack.callback(self._provider.claims.pop, report)
            stack.callback(self._consumer.conflicts.clear, self._binding.name, self._source)
            self._metrics.queue(lambda: len(self._controller.queue))
            stack.callback(self._metrics.stopped)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._consumers.run())
                group.create_task(self._providers.run())
                group.create_task(self._controller.run())

    def remaining(self) -> list[str]:
        """Copies that are still there while the binding goes."""
        if not self._wanted.unbinding or not (
            self._consumers.settled() and self._providers.settled()
        ):
            return [f"claimed {self._wanted.claim.resource}"]
        found = [
            (obj, obj.meta.namespace)
            for obj in self._consumers.objects()
            if is_consumer_copy(obj, None, bindings=frozenset({self._binding.uid}))
        ]
        found += [
            (obj, self._provider.service_namespaces.consumer(obj.meta.namespace))
            for obj in self._providers.objects()
            if is_ours(obj.meta, self._provider.namespace)
        ]
        return [
            f"{obj.kind} {obj.key}"
            for obj, namespace in found
            if not self._others_claim(obj, namespace)
        ]

    def verdict(self, resource: str, obj: Object, namespace: str) -> bool:
        """Whether this claim is about an object, given the consumer's namespace for it."""
        return resource == self._wanted.claim.resource and self._claimed(obj, namespace)

    def problem(self, message: str) -> None:
        """Have the binding say what keeps claimed objects from being synchronised."""
        self._consumer.problems.report(self._binding.name, self._source, message)

    def _others_claim(self, obj: Object | None, namespace: str) -> bool:
        """Whether another binding of this connection claims the object, or might."""
        if obj is None:
            return False
        resource = self._wanted.claim.resource
        others = [one for one in self._provider.claims.values() if one is not self]
        if any(one.verdict(resource, obj, namespace) for one in others):
            return True
        return not self._wanted.unbinding and self._provider.claims_pending(resource)

    def _select(self, referrers: list[Referrers]) -> Selection:
        return Selection(
            self._wanted.claim,
            referrers,
            changed=self._referrer_changed,
            moved=self._consumers.mark,
        )

    def _consumer_namespaces(self) -> frozenset[str]:
        if self._selection.everywhere():
            return EVERYWHERE
        assigned = self._provider.service_namespaces.assigned()
        return self._selection.namespaces() | assigned.keys()

    def _provider_namespaces(self) -> frozenset[str]:
        """Never the whole cluster: claims give rights in the consumer's namespaces alone."""
        return frozenset(self._provider.service_namespaces.assigned().values())

    async def _look_after(self) -> None:
        """Watches that fail are nobody's event."""
        while True:
            errors = [informer.error for informer in self._referring] + self._consumers.errors()
            faults = [self._advised(error) for error in errors]
            faults += [self._advised(self._refused)]
            faults += [f"on the provider: {error}" for error in self._providers.errors()]
            self.problem("; ".join(fault for fault in faults if fault))
            self._walker.count()
            await asyncio.sleep(self._consumer.options.health_interval)

    def _forbidden(self, message: str) -> None:
        self._refused = message

    def _advised(self, message: str) -> str:
        advice = remedy(self._binding.name)
        return f"{message}. {advice}" if "forbidden" in message.lower() else message

    def _consumer_changed(self, delta: Delta) -> None:
        self._executor.ahead["consumer"].seen(delta.object.key)
        self._metrics.spec.arrived(delta.object.key)
        self._controller.enqueue(Request("", *delta.object.key))

    def _provider_changed(self, delta: Delta) -> None:
        self._executor.ahead["provider"].seen(delta.object.key)
        namespace = self._provider.service_namespaces.consumer(delta.object.meta.namespace)
        if namespace:
            self._metrics.status.arrived(Key(namespace, delta.object.meta.name))
            self._controller.enqueue(Request("", namespace, delta.object.meta.name))

    def _consumers_known(self, namespace: str) -> None:
        self._enqueue_all(namespace)

    def _providers_known(self, namespace: str) -> None:
        consumer = self._provider.service_namespaces.consumer(namespace)
        if consumer or not namespace:
            self._enqueue_all(consumer)

    def _namespace_changed(self, consumer: str, _assigned: str) -> None:
        self._consumers.mark()
        self._providers.mark()
        self._executor.ahead["provider"].clear()
        self._enqueue_all(consumer)

    def _referrer_changed(self, targets: Targets) -> None:
        anywhere = "" in targets.namespaces
        known = {obj.key for obj in self._consumers.objects()} if anywhere else ()
        for key in keys(targets, known):
            self._controller.enqueue(Request("", *key))

    def _enqueue_all(self, namespace: str) -> None:
        for obj in self._consumers.objects(namespace):
            self._consumer_changed(Delta("MODIFIED", obj, obj))
        assigned = self._provider.service_namespaces.provider(namespace)
        if assigned or not namespace:
            for obj in self._providers.objects(assigned):
                self._provider_changed(Delta("MODIFIED", obj, obj))

    async def _reconcile(self, request: Request) -> Result | None:
        key = Key(request.namespace, request.name)
        sides = self._look(key)
        if sides is None:
            return None
        claimed = sides.consumer_claimed or sides.provider_claimed
        if not claimed and (
            self._others_claim(sides.consumer, key.namespace)
            or self._others_claim(sides.provider, key.namespace)
        ):
            return None
        if not claimed and any(informer.error for informer in self._referring):
            # What cannot be read at the moment may well refer to it: nothing is taken away.
            return Result(LAG)
        try:
            await self._walker.walk(sides)
        except Conflict:
            self._executor.ahead["consumer"].forget(key)
            if sides.target is not None:
                self._executor.ahead["provider"].forget(sides.target)
            raise
        except ApiError as error:
            self._tell(sides.consumer, "ClaimFailed", self._advised(error.message))
            raise
        ahead = self._executor.ahead
        unconfirmed = ahead["consumer"].unconfirmed(key) or ahead["provider"].unconfirmed(
            sides.target
        )
        return Result(LAG) if unconfirmed else None

    def _look(self, key: Key) -> Sides | None:
        """What the caches say; None as long as one of them is not filled."""
        namespaces = self._provider.service_namespaces
        assigned = namespaces.provider(key.namespace)
        target = Key(assigned, key.name) if assigned else None
        if not self._consumers.ready(key.namespace):
            return None
        if target is not None and not self._providers.ready(target.namespace):
            return None
        ahead = self._executor.ahead
        consumer = ahead["consumer"].newest(key, self._consumers.get(key))
        provider = None
        if target is not None:
            provider = ahead["provider"].newest(target, self._providers.get(target))
        return Sides(
            key=key,
            consumer=consumer,
            provider=provider,
            target=target,
            service_namespace=namespaces.asked(key.namespace),
            cluster_namespace=self._provider.namespace,
            binding_name=self._binding.name,
            binding_uid=self._binding.uid,
            bindings=self._provider.binding_uids() | {self._binding.uid},
            consumer_claimed=self._claimed(consumer, key.namespace),
            provider_claimed=self._claimed(provider, key.namespace),
            consumer_namespace=self._namespace_usable(key.namespace),
            orphan=self._wanted.unbinding and self._orphan(),
        )

    def _orphan(self) -> bool:
        binding = self._consumer.bindings.get("", self._binding.name)
        return binding is not None and is_orphan(binding.meta)

    def _claimed(self, obj: Object | None, namespace: str) -> bool:
        if obj is None or self._wanted.unbinding:
            return False
        if self._reserved.has(self._resource, Key(namespace, obj.meta.name)):
            return False
        return self._selection.claims(obj.meta, namespace)

    def _namespace_usable(self, name: str) -> bool:
        found = self._consumer.namespaces.get("", name)
        return found is not None and not found.meta.deleting

    def _selected(self, sides: Sides) -> Sides:
        """What was read or written anew may be claimed where the old was not."""
        namespace = sides.key.namespace
        return msgspec.structs.replace(
            sides,
            consumer_claimed=self._claimed(sides.consumer, namespace),
            provider_claimed=self._claimed(sides.provider, namespace),
        )

    def _tell(self, obj: Object | None, reason: str, message: str) -> None:
        if obj is not None:
            self._consumer.events.event(obj, "Warning", reason, message)
