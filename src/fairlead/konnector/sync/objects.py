"""Sets up an engine for one bound resource: both ends, the place of copies, and the policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    BOUNDSCHEMAS,
    FINALIZER_SYNCER,
    APIServiceBinding,
    BoundSchema,
    resource_name,
)
from fairlead.api.meta import Object, OwnerReference
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.konnector.consumer import Provider
from fairlead.konnector.conversions import lacks_conversion
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.copies import is_orphan, is_ours
from fairlead.konnector.policies.holding import Holding
from fairlead.konnector.policies.isolation import choose
from fairlead.konnector.policies.merge import BoundFields
from fairlead.konnector.policies.work import BoundSpec, WorkKey
from fairlead.konnector.sync.ends import EVERYWHERE, BothEnds, WatchedCollection
from fairlead.konnector.sync.engine import Engine
from fairlead.konnector.sync.passes import EngineContext
from fairlead.runtime import Delta, spec_changed


SETTLED_SECONDS = 5.0
"""Seconds after which all API servers of a cluster convert by a CRD's webhook.

The apiextensions-apiserver allows as long for a new CRD, where there are several servers.
"""


def context_of(
    provider: Provider, binding: str, verb: str, subject: str, kind: str, **more: Any
) -> EngineContext:
    """Return the context of the work on one resource or claim of one binding.

    Args:
        provider: the connection.
        binding: the binding's name.
        verb: first part of the controller's name, such as "sync" or "claim".
        subject: name of the resource or claim, the second part.
        kind: kind of the objects, for messages.
        more: fields of the context that differ from their defaults.
    """
    consumer, name = provider.consumer, f"{verb}-{subject}"
    return EngineContext(
        name=name,
        binding=binding,
        report=consumer.reports.of(binding, subject, kind),
        metrics=consumer.syncs.of(binding, subject, name),
        events=consumer.events,
        controller=provider.consumer.controller,
        workers=consumer.options.workers,
        interval=consumer.options.health_interval,
        fields=BoundFields(consumer.local_keys),
        **more,
    )


def leftovers(
    ends: BothEnds, holding: Holding, ours: Callable[[Object], bool]
) -> list[str] | None:
    """Return the copies without an original, or with one that is being deleted; sorted.

    None as long as not all of both ends is known. ``ours`` says which objects of the provider
    are copies that would be deleted.
    """
    consumer, provider = ends.consumer, ends.provider
    listed = consumer.all_listed() and provider.all_listed()
    if not (ends.namespaces.has_synced and listed):
        return None
    texts: list[str] = []
    for cached in provider.objects():
        copy, key = provider.newest(cached.key), ends.strategy.to_consumer(cached.key)
        if copy is None or key is None or copy.meta.deleting or not ours(copy):
            continue
        obj = consumer.newest(key)
        if obj is None or (holding in {"Hold", "Wait"} and obj.meta.deleting):
            texts.append(f"{copy.kind} {key}")
    return sorted(texts)


def kept_here(ends: BothEnds) -> str:
    """Return which deleted object stays for finalizers of others alone; "" if none does."""
    # The first in the order of the cache: another one each time would write the condition anew.
    for obj in ends.consumer.objects():
        left = obj.meta.finalizers
        if obj.meta.deleting and left and FINALIZER_SYNCER not in left:
            return (
                f"the konnector has let {obj.kind} {obj.key} go; the object stays in this "
                f"cluster until the programs that set its finalizers {', '.join(left)} remove "
                "them"
            )
    return ""


class BoundObjects:
    """Synchronises the objects of one bound resource of one binding."""

    def __init__(
        self, provider: Provider, binding: str, export: OwnerReference, spec: BoundSpec
    ) -> None:
        self._provider = provider
        self._binding = binding
        self._export = export
        self._spec = spec
        self._versions: tuple[str, ...] = ()
        self._lacks = False
        self._settled = 0.0

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            ClientError: the consumer's namespace on the provider cannot be read.
        """
        provider, spec = self._provider, self._spec
        namespaces, resource = provider.service_namespaces, spec.resource
        strategy = choose(
            scope=spec.scope,
            isolation=spec.isolation,
            cluster_namespace=await provider.owner(),
            namespaces=namespaces,
        )
        policy = BoundPolicy(
            cluster_namespace=provider.namespace,
            owner=msgspec.to_builtins(strategy.owner),
            status=spec.status_subresource,
            holding=spec.holding,
            orphaning=self._orphaning,
            converted=spec.converted,
            frozen=self._frozen,
            local=provider.consumer.local_keys,
        )
        here, there = provider.consumer.cluster, provider.cluster
        ends = BothEnds(
            consumer=WatchedCollection("consumer", here, resource, lambda: EVERYWHERE),
            provider=WatchedCollection(
                "provider",
                there,
                _theirs(spec),
                self._namespaces,
                provider.consumer.watches,
                namespaces.consumer,
            ),
            strategy=strategy,
            namespaces=namespaces,
            export=self._export,
        )
        context = context_of(
            provider, self._binding, "sync", resource.group_resource, resource.kind
        )
        engine = Engine(ends, policy, context)
        async with AsyncExitStack() as stack:
            self._follow_schema(stack, engine.schema_changed)
            key = WorkKey(self._binding, "objects", resource_name(resource.plural, resource.group))
            provider.retained[key] = partial(kept_here, ends)
            stack.callback(provider.retained.pop, key)
            provider.sync_versions[key] = resource.version
            stack.callback(provider.sync_versions.pop, key)
            if spec.converted:
                self._follow_conversion(stack, engine)
            if spec.holding:
                provider.leftovers[key] = partial(
                    leftovers,
                    ends,
                    spec.holding,
                    lambda copy: is_ours(copy.meta, provider.namespace),
                )
                stack.callback(provider.leftovers.pop, key)
            await engine.run()

    def _follow_schema(self, stack: AsyncExitStack, changed: Callable[[], None]) -> None:
        """Call ``changed`` when the kind's BoundSchema or the consumer's CRD has changed."""
        provider, resource = self._provider, self._spec.resource
        for lease in (
            provider.cluster.informer(BOUNDSCHEMAS, namespace=provider.namespace),
            provider.consumer.cluster.informer(CUSTOMRESOURCEDEFINITIONS),
        ):
            stack.push_async_callback(lease.close)
            lease.subscribe(partial(_replaced, resource.group_resource, changed))

    def _orphaning(self) -> bool:
        """Whether the binding is being deleted, and its copies stay."""
        binding = self._provider.consumer.bindings.get("", self._binding)
        return binding is not None and binding.meta.deleting and is_orphan(binding.meta)

    def _frozen(self) -> bool:
        """Whether objects may be read without their conversion.

        The deletion of the binding takes it away first, and so does a person who withdraws it.
        """
        if not self._spec.converted:
            return False
        binding = self._provider.consumer.bindings.get("", self._binding)
        if binding is None or binding.meta.deleting or self._lacking(binding):
            return True
        return asyncio.get_running_loop().time() < self._settled

    def _lacking(self, binding: Object) -> bool:
        provider, resource = self._provider, self._spec.resource
        name = resource_name(resource.plural, resource.group)
        schema = provider.kubebind.schemas.get(provider.namespace, name)
        crd = provider.consumer.crds.get("", resource.group_resource)
        if schema is None or crd is None:
            return self._lacks
        # Decoded once for each version of the three, and not for each object.
        versions = tuple(one.meta.resource_version for one in (binding, schema, crd))
        if versions != self._versions:
            parsed, bound_schema = (
                binding.try_decode(APIServiceBinding),
                schema.try_decode(BoundSchema),
            )
            self._versions = versions
            if parsed is None or bound_schema is None:
                return self._lacks
            lacks = lacks_conversion(parsed.status, bound_schema.spec, crd)
            lacked, self._lacks = self._lacks, lacks
            if lacked and not self._lacks:
                self._settled = asyncio.get_running_loop().time() + SETTLED_SECONDS
        return self._lacks

    def _follow_conversion(self, stack: AsyncExitStack, engine: Engine) -> None:
        """Queue all objects once their conversion is there again: passes have left them alone."""
        loop = asyncio.get_running_loop()

        def follow(_delta: Delta) -> None:
            was = self._settled
            self._frozen()
            if self._settled != was:
                later = loop.call_at(self._settled, engine.look_again)
                stack.callback(later.cancel)

        provider = self._provider
        for lease in (
            provider.cluster.informer(BOUNDSCHEMAS, namespace=provider.namespace),
            provider.consumer.cluster.informer(CUSTOMRESOURCEDEFINITIONS),
            provider.consumer.cluster.informer(APISERVICEBINDINGS),
        ):
            stack.push_async_callback(lease.close)
            lease.subscribe(follow)

    def _namespaces(self) -> frozenset[str]:
        """Return the namespaces where the konnector has the right to watch copies."""
        if self._spec.scope == "Cluster":
            flipped = self._spec.isolation == "Namespaced"
            return frozenset({self._provider.namespace}) if flipped else EVERYWHERE
        if self._spec.informer_scope == "Cluster":
            return EVERYWHERE
        return frozenset(self._provider.service_namespaces.assigned().values())


def _replaced(name: str, changed: Callable[[], None], delta: Delta) -> None:
    if delta.object.meta.name == name and not delta.initial and spec_changed(delta):
        changed()


def _theirs(spec: BoundSpec) -> Resource:
    """Return the provider's resource, which Namespaced isolation makes namespaced."""
    if spec.isolation == "Namespaced" and not spec.resource.namespaced:
        return msgspec.structs.replace(spec.resource, namespaced=True)
    return spec.resource
