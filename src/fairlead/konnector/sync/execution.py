"""Carries out the steps of one object, and tells what is known after each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from fairlead.api.kubebind import FINALIZER_SYNCER
from fairlead.api.meta import JSON, Key, Object, OwnerReference
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.client.errors import AlreadyExists, Conflict, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.konnector.policies.copies import in_step, payload, status_in_step, status_of
from fairlead.konnector.policies.isolation import Strategy, place
from fairlead.konnector.policies.merge import owned_fields
from fairlead.konnector.policies.steps import (
    AskNamespace,
    AskOwned,
    ConfirmConsumerGone,
    ConfirmProviderGone,
    CreateProvider,
    DeleteProvider,
    PatchConsumer,
    Settle,
    Sides,
    Step,
    UpdateProvider,
    UpdateStatus,
)
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.syncer.convergence import Convergence
from fairlead.runtime.expectations import Expectations


T = TypeVar("T")


class Ends(msgspec.Struct, frozen=True):
    """Both ends of the synchronisation of one resource."""

    consumer: Client
    provider: Client
    consumer_resource: Resource
    provider_resource: Resource
    strategy: Strategy
    namespaces: ServiceNamespaces
    export: OwnerReference


class Executor:
    """One write or question per step; what came of it goes into the sides.

    ``forbidden`` is told what the consumer's server refused, "" when it allowed something.
    ``consumers`` and ``providers`` hold what was written and is not in the caches yet.
    """

    def __init__(self, ends: Ends, *, forbidden: Callable[[str], None]) -> None:
        self._ends = ends
        self._forbidden = forbidden
        self.consumers = Expectations()
        self.providers = Expectations()
        self._specs = Convergence()
        self._statuses = Convergence()

    def compare(self, key: Key, sides: Sides) -> Sides:
        """The sides with what is known of their being in step."""
        if sides.consumer is None or sides.provider is None:
            return sides
        consumer, provider = sides.consumer, sides.provider
        return msgspec.structs.replace(
            sides,
            spec_converged=in_step(consumer, provider)
            or self._specs.converged(key, payload_of(consumer), payload_of(provider)),
            status_converged=status_in_step(consumer, provider)
            or self._statuses.converged(key, status_of(provider), status_of(consumer)),
        )

    def forget(self, key: Key) -> None:
        """The object is gone on both sides."""
        self._specs.forget(key)
        self._statuses.forget(key)

    async def carry_out(self, key: Key, step: Step, sides: Sides) -> Sides | None:
        """Do one step; None when there is nothing more to do until something happens.

        Raises:
            ClientError: a server refused or cannot be reached, or said 404 of something else
                than the provider's object.
        """
        match step:
            case AskNamespace():
                await self._ends.namespaces.ask(key.namespace, self._ends.export)
                return None
            case PatchConsumer():
                return await self._patch_consumer(key, step, sides)
            case CreateProvider():
                return await self._create(key, step.body, sides)
            case UpdateProvider():
                return await self._update(key, step.body, sides)
            case AskOwned():
                return await self._ask_provider(sides)
            case Settle():
                return self._settle(key, sides)
            case DeleteProvider():
                return await self._delete(step, sides)
            case UpdateStatus():
                return await self._update_status(key, step.body, sides)
            case ConfirmProviderGone():
                return await self._ask_provider(sides)
            case ConfirmConsumerGone():
                return await self._ask_consumer(key, sides)
        raise TypeError(f"{step} is no step to carry out")

    async def _patch_consumer(self, key: Key, step: PatchConsumer, sides: Sides) -> Sides | None:
        consumer = sides.consumer
        if consumer is None:
            return None
        metadata: JSON = {
            "uid": consumer.meta.uid,
            "resourceVersion": consumer.meta.resource_version,
            "finalizers": list(step.finalizers),
        }
        if step.annotations:
            metadata["annotations"] = dict(step.annotations)
        try:
            written = await self._on_consumer(
                self._ends.consumer.merge_patch(
                    self._ends.consumer_resource, key.name, key.namespace, {"metadata": metadata}
                )
            )
        except NotFound:
            return None
        if consumer.meta.deleting and FINALIZER_SYNCER not in step.finalizers:
            return None
        self.consumers.wrote(written)
        return msgspec.structs.replace(sides, consumer=written)

    async def _create(self, key: Key, body: JSON, sides: Sides) -> Sides | None:
        target = sides.target
        if target is None or sides.consumer is None:
            return None
        placed = place(body, target, self._ends.strategy)
        try:
            created = await self._ends.provider.create(
                self._ends.provider_resource, placed, target.namespace
            )
        except AlreadyExists:
            return await self._ask_provider(sides)
        self._applied(key, sides.consumer, created)
        self.providers.wrote(created, created=True)
        return msgspec.structs.replace(sides, provider=created)

    async def _update(self, key: Key, body: JSON, sides: Sides) -> Sides | None:
        try:
            written = await self._ends.provider.update(self._ends.provider_resource, body)
        except NotFound:
            if sides.target is not None:
                self.providers.forget(sides.target)
            return msgspec.structs.replace(sides, provider=None)
        if sides.consumer is not None:
            self._applied(key, sides.consumer, written)
        self.providers.wrote(written)
        return msgspec.structs.replace(sides, provider=written)

    def _settle(self, key: Key, sides: Sides) -> Sides | None:
        if sides.consumer is not None and sides.provider is not None:
            self._applied(key, sides.consumer, sides.provider)
        return sides

    def _applied(self, key: Key, consumer: Object, provider: Object) -> None:
        """Remember what came of the consumer's payload, where that is not the same."""
        if in_step(consumer, provider):
            self._specs.forget(key)
        else:
            self._specs.applied(key, payload_of(consumer), payload_of(provider))

    async def _delete(self, step: DeleteProvider, sides: Sides) -> Sides | None:
        try:
            await self._ends.provider.delete(
                self._ends.provider_resource, step.key.name, step.key.namespace, uid=step.uid
            )
        except NotFound as error:
            if not error.about(step.key.name):
                raise
            self.providers.forget(step.key)
            return msgspec.structs.replace(sides, provider=None, provider_gone=True)
        except Conflict:
            return await self._ask_provider(sides)
        return None

    async def _update_status(self, key: Key, body: JSON, sides: Sides) -> Sides | None:
        try:
            written = await self._on_consumer(
                self._ends.consumer.update(
                    self._ends.consumer_resource, body, subresource="status"
                )
            )
        except NotFound:
            return None
        self._statuses.applied(key, body.get("status"), status_of(written))
        self.consumers.wrote(written)
        return msgspec.structs.replace(sides, consumer=written)

    async def _ask_provider(self, sides: Sides) -> Sides | None:
        target = sides.target
        if target is None:
            return None
        found = await find(
            self._ends.provider, self._ends.provider_resource, target.name, target.namespace
        )
        if found is None:
            self.providers.forget(target)
            return msgspec.structs.replace(sides, provider=None, provider_gone=True)
        return msgspec.structs.replace(sides, provider=found, owned=owned_fields(found.to_dict()))

    async def _ask_consumer(self, key: Key, sides: Sides) -> Sides | None:
        """Only an answer about the object itself counts: a missing CRD says nothing of it."""
        try:
            found = await self._on_consumer(
                self._ends.consumer.get(self._ends.consumer_resource, key.name, key.namespace)
            )
        except NotFound as error:
            if not error.about(key.name):
                return None
            return msgspec.structs.replace(sides, consumer=None, consumer_gone=True)
        return msgspec.structs.replace(sides, consumer=found)

    async def _on_consumer(self, answer: Awaitable[T]) -> T:
        try:
            result = await answer
        except Forbidden as error:
            self._forbidden(error.message)
            raise
        self._forbidden("")
        return result


def payload_of(obj: Object) -> JSON:
    """What of an object follows the consumer."""
    return payload(obj.to_dict())
