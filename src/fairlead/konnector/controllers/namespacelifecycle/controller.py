"""Keeps APIServiceNamespaces and the consumer's namespaces together."""

from __future__ import annotations

from contextlib import AsyncExitStack

from fairlead.api.kubebind import APISERVICENAMESPACES
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import AlreadyExists, NotFound
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.namespacelifecycle.reconcile import new_namespace, reconcile
from fairlead.runtime import Request


class NamespaceLifecycleController:
    """Watches the provider's APIServiceNamespaces and the consumer's namespaces."""

    name = "namespacelifecycle"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._consumer = provider.consumer

    async def run(self) -> None:
        """Work until cancelled."""
        controller = self._provider.controller("konnector-namespacelifecycle", self._reconcile)
        async with AsyncExitStack() as stack:
            namespaces = self._consumer.cluster.informer(NAMESPACES, metadata_only=True)
            stack.push_async_callback(namespaces.close)
            controller.watch(namespaces, lambda delta: [Request("", "", delta.object.meta.name)])
            controller.watch(
                self._provider.service_namespaces.informer,
                lambda delta: [Request("", "", delta.object.meta.name)],
            )
            await controller.run()

    async def _reconcile(self, request: Request) -> None:
        found = self._provider.service_namespaces.get(request.name)
        if found is None:
            return
        there = self._consumer.namespaces.get("", request.name) is not None
        action = reconcile(found.meta, namespace_found=there)
        if action == "confirm":
            there = await self._exists(request.name)
            action = reconcile(found.meta, namespace_found=there, confirmed=True)
        if action == "create-namespace":
            await self._create(request.name)
        elif action == "delete-service-namespace":
            await self._delete(found)

    async def _exists(self, name: str) -> bool:
        try:
            await self._consumer.client.get(NAMESPACES, name)
        except NotFound as error:
            # A 404 of something else says nothing about this namespace. Then it counts as being
            # there, for with its APIServiceNamespace all data on the provider would go.
            return not error.about(name)
        return True

    async def _create(self, name: str) -> None:
        try:
            await self._consumer.client.create(NAMESPACES, new_namespace(name))
        except AlreadyExists:
            return

    async def _delete(self, found: Object) -> None:
        try:
            await self._provider.client.delete(
                APISERVICENAMESPACES, found.meta.name, found.meta.namespace, uid=found.meta.uid
            )
        except NotFound:
            return
