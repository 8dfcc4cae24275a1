"""Makes and deletes APIServiceNamespaces and consumer namespaces as their counterparts do."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress

from fairlead.api.kubebind import (
    ANNOTATION_DELETION_POLICY,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICENAMESPACES,
    DELETION_POLICY_ORPHAN,
    LABEL_OWNER,
    OWNER_PROVIDER,
)
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import AlreadyExists, NotFound
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.namespacelifecycle.reconcile import new_namespace, reconcile
from fairlead.konnector.policies.copies import is_orphan
from fairlead.konnector.policies.holding import decision, recorded_cluster
from fairlead.runtime import Delta, Request, changed, patch_metadata


class NamespaceLifecycleController:
    """Watches the provider's APIServiceNamespaces and the consumer's namespaces."""

    name = "namespacelifecycle"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._consumer = provider.consumer

    async def run(self) -> None:
        """Work until cancelled."""
        controller = self._provider.consumer.controller(
            "konnector-namespacelifecycle", self._reconcile
        )
        async with AsyncExitStack() as stack:
            namespaces = self._consumer.cluster.informer(NAMESPACES, metadata_only=True)
            stack.push_async_callback(namespaces.close)
            controller.watch(namespaces, lambda delta: [Request("", "", delta.object.meta.name)])
            controller.watch(
                self._provider.service_namespaces.informer,
                lambda delta: [Request("", "", delta.object.meta.name)],
            )
            # Decisions about copies, and the records of their clusters, concern all of them.
            exports = self._provider.kubebind.exports
            controller.watch(exports, self._all, predicate=changed(recorded_cluster))
            for resource in (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES):
                informer = self._consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                controller.watch(informer, self._all, predicate=changed(decision))
            # Only exports tell whether a namespace that is missing here ever existed.
            await exports.synced()
            await controller.run()

    def _all(self, _delta: Delta) -> Iterable[Request]:
        listed = self._provider.service_namespaces.informer.list(self._provider.namespace)
        return [Request("", "", found.meta.name) for found in listed]

    async def _reconcile(self, request: Request) -> None:
        service_namespace = self._provider.service_namespaces.get(request.name)
        if service_namespace is None:
            return
        there = self._consumer.namespaces.get("", request.name) is not None
        # Looked up where it decides alone, for it reads all exports, and this is done for each
        # namespace.
        decides = not there or is_orphan(service_namespace.meta)
        holding = self._provider.holding_of_namespaces() if decides else ""
        wished = not there and service_namespace.meta.labels.get(LABEL_OWNER) == OWNER_PROVIDER
        # Counted only for a namespace that is to be made: it passes all namespaces.
        created = self._count_created() if wished else 0
        action = reconcile(
            service_namespace.meta, namespace_found=there, holding=holding, created=created
        )
        if action == "confirm":
            there = await self._exists(request.name)
            action = reconcile(service_namespace.meta, namespace_found=there, confirmed=True)
        match action:
            case "create-namespace":
                await self._create(request.name)
            case "delete-service-namespace":
                await self._delete(service_namespace)
            case "let-go":
                await self._annotate(service_namespace, DELETION_POLICY_ORPHAN)
            case "take-up":
                await self._annotate(service_namespace, None)

    def _count_created(self) -> int:
        """Return the number of the consumer's namespaces that providers had made."""
        every = self._consumer.namespaces.list()
        return sum(one.meta.labels.get(LABEL_OWNER) == OWNER_PROVIDER for one in every)

    async def _annotate(self, obj: Object, policy: str | None) -> None:
        annotations = {ANNOTATION_DELETION_POLICY: policy}
        with suppress(NotFound):
            await patch_metadata(
                self._provider.client, APISERVICENAMESPACES, obj, {"annotations": annotations}
            )

    async def _exists(self, name: str) -> bool:
        try:
            await self._consumer.client.get(NAMESPACES, name)
        except NotFound as error:
            # A 404 of something else is no answer about this namespace. Then it counts as
            # existing, for with its APIServiceNamespace all data on the provider would go.
            return not error.concerns(name)
        return True

    async def _create(self, name: str) -> None:
        try:
            await self._consumer.client.create(NAMESPACES, new_namespace(name))
        except AlreadyExists:
            return

    async def _delete(self, obj: Object) -> None:
        try:
            await self._provider.client.delete(
                APISERVICENAMESPACES, obj.meta.name, obj.meta.namespace, uid=obj.meta.uid
            )
        except NotFound:
            return
