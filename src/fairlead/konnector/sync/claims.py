"""Sets up an engine for one permission claim: both ends, the selection, and the policy."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack

from fairlead.api.kubebind import LABEL_OWNER, OWNER_CONSUMER, BoundSchema, SelectorReference
from fairlead.api.kubebind.claims import Targets, reference_allowed, reference_versions
from fairlead.api.meta import Key, Object, OwnerReference
from fairlead.api.resource import CONFIGMAPS, SECRETS, SERVICEACCOUNTS, Resource
from fairlead.konnector.consumer import Provider
from fairlead.konnector.policies.claimcopies import is_consumer_copy, owner_of
from fairlead.konnector.policies.claims import ClaimPolicy, ClaimState
from fairlead.konnector.policies.copies import is_orphan, is_ours, is_system
from fairlead.konnector.policies.steps import Pair, Read, Side, Step
from fairlead.konnector.policies.work import ClaimSpec, WorkKey
from fairlead.konnector.reports import SyncFault
from fairlead.konnector.sync.ends import (
    EVERYWHERE,
    BothEnds,
    WatchedCollection,
    faults_of,
    has_body,
)
from fairlead.konnector.sync.engine import Engine
from fairlead.konnector.sync.objects import context_of, leftovers
from fairlead.konnector.sync.selection import (
    Referrers,
    Reserved,
    Selection,
    keys,
    selected_labels,
)
from fairlead.runtime import Informer


_SIDES: tuple[Side, ...] = ("consumer", "provider")
CLAIMABLE = {one.plural: one for one in (SECRETS, CONFIGMAPS, SERVICEACCOUNTS)}


class ClaimedObjects:
    """Synchronises the objects of one claim of one binding."""

    def __init__(
        self,
        provider: Provider,
        binding: OwnerReference,
        export: OwnerReference,
        spec: ClaimSpec,
    ) -> None:
        self._provider = provider
        self._binding = binding
        self._export = export
        self._spec = spec

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            ClientError: the kind of a referring object is not known.
        """
        async with AsyncExitStack() as stack:
            # While the binding is deleted no object is claimed, so that referrers do not matter.
            referrers = [] if self._spec.unbinding else await self._referrers(stack)
            run = _Run(self._provider, self._binding, self._export, self._spec, referrers)
            await run.run()

    async def _referrers(self, stack: AsyncExitStack) -> list[Referrers]:
        result = []
        for reference in self._spec.claim.selector.references:
            if not reference_allowed(
                reference, self._spec.resources, isolation=self._spec.isolation
            ):
                continue
            informers: list[Informer] = []
            for version in reference_versions(reference, self._spec.resources):
                resource = await self._resource(reference, version)
                informer = self._provider.consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                informers.append(informer)
            result.append(Referrers(reference, informers))
        return result

    async def _resource(self, reference: SelectorReference, version: str) -> Resource:
        """Find a resource; bound kinds are known before discovery shows their CRDs.

        Raises:
            ClientError: the kind is not bound, and discovery does not name it.
        """
        for item in self._spec.resources:
            if item.group_resource == reference.group_resource:
                schema = self._provider.kubebind.schemas.get(self._provider.namespace, item.name)
                bound_schema = schema.try_decode(BoundSchema) if schema is not None else None
                if bound_schema is not None:
                    return bound_schema.spec.resource(version)
        discovery = self._provider.consumer.cluster.client.discovery
        return await discovery.resource_by_plural(reference.group, reference.resource, version)


class _Run:
    """Work on one claim: which of the objects are claimed, by it and by other bindings' claims.

    It is the engine's policy, since the decision about a pair needs both.
    """

    def __init__(
        self,
        provider: Provider,
        binding: OwnerReference,
        export: OwnerReference,
        spec: ClaimSpec,
        referrers: list[Referrers],
    ) -> None:
        consumer, namespaces = provider.consumer, provider.service_namespaces
        self._provider = provider
        self._consumer = consumer
        self._binding = binding
        self._spec = spec
        self._key = WorkKey(binding.name, "claim", spec.claim.name)
        self._referring = [informer for one in referrers for informer in one.informers]
        self._resource = resource = CLAIMABLE[spec.claim.resource]
        self._reserved = Reserved(consumer.bindings, consumer.options.namespace, consumer.bundles)
        # A namespace may have any number of large objects that no claim selects: the watches have
        # metadata alone, and what is selected is read.
        self._consumers = WatchedCollection(
            "consumer",
            consumer.cluster,
            resource,
            self._consumer_namespaces,
            consumer.watches,
            metadata_only=True,
        )
        self._providers = WatchedCollection(
            "provider",
            provider.cluster,
            resource,
            self._provider_namespaces,
            consumer.watches,
            namespaces.consumer,
            metadata_only=True,
        )
        self._policy = ClaimPolicy(
            cluster_namespace=provider.namespace,
            binding_name=binding.name,
            binding_uid=binding.uid,
            holding=spec.holding,
            local=consumer.local_keys,
            named=selected_labels(spec.claim.selector),
        )
        self.outcome = self._policy.outcome
        self._selection = Selection(
            spec.claim, referrers, changed=self._referrer_changed, moved=self._consumers.mark
        )
        self._ends = ends = BothEnds(
            consumer=self._consumers,
            provider=self._providers,
            strategy=namespaces,
            namespaces=namespaces,
            export=export,
        )
        context = context_of(
            provider,
            binding.name,
            "claim",
            spec.claim.name,
            resource.kind,
            failed="ClaimFailed",
            faults=self._faults,
            ready=self._ready,
        )
        self._engine = Engine(ends, self, context)

    async def run(self) -> None:
        try:
            await self._engine.run()
        finally:
            self._provider.claims.pop(self._key, None)
            self._provider.leftovers.pop(self._key, None)

    async def _ready(self) -> None:
        """Wait for the referring objects: without a referrer a copy would be deleted."""
        for informer in self._referring:
            await informer.synced()
        self._selection.start()
        self._provider.claims[self._key] = self
        if self._spec.holding:
            self._provider.leftovers[self._key] = self._leftovers

    def _faults(self) -> Iterable[SyncFault]:
        return [faults_of(informer) for informer in self._referring if informer.error]

    def next_step(self, pair: Pair) -> Step:
        state = self._state(pair)
        claimed = state.consumer or state.provider
        if not claimed:
            self._consumers.forget_body(pair.key)
            if pair.target is not None:
                self._providers.forget_body(pair.target)
        # A copy that is claimed no more is read once, to be released.
        if claimed or (not state.others and _is_marked(pair)):
            for side in _SIDES:
                if not has_body(pair.at(side)):
                    return Read(side)
        return self._policy.next_step(pair, state)

    def remaining(self) -> list[str]:
        """Return the copies whose end the binding's deletion awaits; the claim while unknown."""
        # A list that is not complete would let the binding go before its copies.
        if not self._spec.unbinding or not (
            self._consumers.all_listed() and self._providers.all_listed()
        ):
            return [f"claimed {self._spec.claim.resource}"]
        names = [
            (obj, obj.meta.namespace)
            for obj in self._consumers.objects()
            if is_consumer_copy(obj, None, bindings=frozenset({self._binding.uid}))
        ]
        names += [
            (obj, self._provider.service_namespaces.consumer(obj.meta.namespace))
            for obj in self._providers.objects()
            if is_ours(obj.meta, self._provider.namespace)
        ]
        return [
            f"{obj.kind} {obj.key}"
            for obj, namespace in names
            if not self._others_claim(obj, namespace)
        ]

    def _leftovers(self) -> list[str] | None:
        """Return copies without an object here, which no other claim selects."""
        provider = self._provider
        if provider.claims_pending(self._spec.claim.resource):
            return None
        names = provider.service_namespaces

        def ours(copy: Object) -> bool:
            return (
                owner_of(copy) == OWNER_CONSUMER
                and is_ours(copy.meta, provider.namespace)
                and not self._others_claim(copy, names.consumer(copy.meta.namespace))
            )

        return leftovers(self._ends, self._spec.holding, ours)

    def verdict(self, resource: str, obj: Object, namespace: str) -> bool:
        """Whether this claim selects an object, given the consumer's namespace for it."""
        return resource == self._spec.claim.resource and self._claimed(obj, namespace)

    def _state(self, pair: Pair) -> ClaimState:
        """Return which claims select the objects of a pair; a write may change that."""
        namespace = pair.key.namespace
        consumer = self._claimed(pair.consumer, namespace)
        provider = self._claimed(pair.provider, namespace)
        claimed = consumer or provider
        return ClaimState(
            consumer=consumer,
            provider=provider,
            others=not claimed
            and (
                self._others_claim(pair.consumer, namespace)
                or self._others_claim(pair.provider, namespace)
            ),
            readable=claimed or not any(informer.error for informer in self._referring),
            bindings=self._provider.binding_uids() | {self._binding.uid},
            consumer_namespace=self._namespace_usable(namespace),
            expected=self._expected(pair.provider, namespace),
            orphan=self._spec.holding == "Keep" or (self._spec.unbinding and self._orphan()),
        )

    def _others_claim(self, obj: Object | None, namespace: str) -> bool:
        """Whether another binding of this connection claims the object, or might."""
        if obj is None:
            return False
        resource = self._spec.claim.resource
        others = [one for one in self._provider.claims.values() if one is not self]
        if any(one.verdict(resource, obj, namespace) for one in others):
            return True
        # A claim that has not started may select the object: no copy is deleted until it has
        # answered.
        return not self._spec.unbinding and self._provider.claims_pending(resource)

    def _claimed(self, obj: Object | None, namespace: str) -> bool:
        if obj is None or self._spec.unbinding:
            return False
        if self._reserved.has(self._resource, Key(namespace, obj.meta.name)):
            return False
        return self._selection.claims(obj.meta, namespace)

    def _expected(self, obj: Object | None, namespace: str) -> bool:
        """Whether a provider's object may come into a namespace, regardless of selectors."""
        return (
            obj is None or not is_system(namespace) or self._selection.names(obj.meta, namespace)
        )

    def _namespace_usable(self, name: str) -> bool:
        namespace = self._consumer.namespaces.get("", name)
        return namespace is not None and not namespace.meta.deleting

    def _orphan(self) -> bool:
        binding = self._consumer.bindings.get("", self._binding.name)
        return binding is not None and is_orphan(binding.meta)

    def _consumer_namespaces(self) -> frozenset[str]:
        if self._selection.everywhere():
            return EVERYWHERE
        assigned = self._provider.service_namespaces.assigned()
        # Copies of the provider's objects are in the namespaces that have a counterpart, even if
        # the selector names others.
        return self._selection.namespaces() | assigned.keys()

    def _provider_namespaces(self) -> frozenset[str]:
        """Return the namespaces to watch, never all: claims give rights in the consumer's."""
        return frozenset(self._provider.service_namespaces.assigned().values())

    def _referrer_changed(self, targets: Targets) -> None:
        anywhere = "" in targets.namespaces
        present = {obj.key for obj in self._consumers.objects()} if anywhere else ()
        for key in sorted(keys(targets, present)):
            self._engine.enqueue(key)


def _is_marked(pair: Pair) -> bool:
    """Whether one of the two says that it is a copy, or has one."""
    ends = (pair.at(side) for side in _SIDES)
    return any(obj is not None and LABEL_OWNER in obj.meta.labels for obj in ends)
