"""Takes bindings apart in order when they are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack

from fairlead.api.kubebind import APISERVICEBINDINGS, APIServiceBinding
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import NotFound
from fairlead.konnector.connections.registry import Registry
from fairlead.konnector.consumer import Consumer, Provider
from fairlead.konnector.unbind.reconcile import FINALIZER_UNBIND, Plan, reconcile
from fairlead.runtime import Delta, Request, Result


_LOOK_AGAIN = 0.5
"""Seconds between looks while objects are being released, which is no event of the binding."""


class UnbindController:
    """Watches bindings that are being deleted, and the CRDs that they own."""

    name = "unbind"

    def __init__(self, consumer: Consumer, registry: Registry) -> None:
        self._consumer = consumer
        self._registry = registry

    async def run(self) -> None:
        """Work until cancelled."""
        controller = self._consumer.controller("konnector-unbind", self._reconcile)
        async with AsyncExitStack() as stack:
            for resource, mapper in (
                (APISERVICEBINDINGS, _itself),
                (CUSTOMRESOURCEDEFINITIONS, _owners),
            ):
                informer = self._consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                controller.watch(informer, mapper)
            await controller.run()

    async def _reconcile(self, request: Request) -> Result | None:
        found = self._consumer.bindings.get("", request.name)
        if found is None or not found.meta.deleting:
            return None
        provider = self._registry.of(request.name)
        plan = reconcile(
            found.meta,
            self._owned(found),
            claimed=_claimed(found.decode(APIServiceBinding), provider),
            obstacle=self._obstacle(request.name, provider),
        )
        return await self._carry_out(found, plan)

    def _obstacle(self, binding: str, provider: Provider | None) -> str:
        if provider is None:
            return "there is no connection to the provider"
        return provider.error() or self._consumer.problems.message(binding)

    async def _carry_out(self, found: Object, plan: Plan) -> Result | None:
        for crd in plan.delete:
            try:
                await self._consumer.client.delete(
                    CUSTOMRESOURCEDEFINITIONS, crd.meta.name, uid=crd.meta.uid
                )
            except NotFound:
                continue
        if plan.condition is not None:
            await self._consumer.statuses.set(found.meta.name, plan.condition)
            return Result(_LOOK_AGAIN)
        if plan.release:
            await self._release(found)
        return None

    def _owned(self, found: Object) -> list[Object]:
        return [crd for crd in self._consumer.crds.list() if crd.meta.owned_by(found.meta.uid)]

    async def _release(self, found: Object) -> None:
        metadata = {
            "uid": found.meta.uid,
            "resourceVersion": found.meta.resource_version,
            "finalizers": [one for one in found.meta.finalizers if one != FINALIZER_UNBIND],
        }
        try:
            await self._consumer.client.merge_patch(
                APISERVICEBINDINGS, found.meta.name, "", {"metadata": metadata}
            )
        except NotFound:
            return


def _claimed(binding: APIServiceBinding, provider: Provider | None) -> list[str]:
    """What is left of claims; as long as there is no connection nobody knows."""
    if provider is not None:
        return provider.claimed(binding)
    return [f"claimed {claim.resource}" for claim in binding.status.permission_claims]


def _itself(delta: Delta) -> Iterable[Request]:
    return [Request("", "", delta.object.meta.name)]


def _owners(delta: Delta) -> Iterable[Request]:
    return [
        Request("", "", owner.name)
        for owner in delta.object.meta.owner_references
        if owner.kind == APISERVICEBINDINGS.kind
    ]
