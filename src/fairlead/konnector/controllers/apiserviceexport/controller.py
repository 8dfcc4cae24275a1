"""Starts and stops the syncers of exports, and reports to the provider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    BOUNDSCHEMAS,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BoundSchema,
    GroupResource,
    crd_name,
)
from fairlead.api.meta import Object, OwnerReference, Undecodable
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.api.timestamps import now
from fairlead.client import NotFound
from fairlead.client.lookups import find
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Provider, owning_names
from fairlead.konnector.controllers.apiserviceexport.reconcile import (
    SyncPlan,
    SyncState,
    reconcile,
)
from fairlead.konnector.policies.copies import is_orphan
from fairlead.konnector.policies.holding import decision, recorded_cluster
from fairlead.konnector.policies.work import BoundSpec, ClaimSpec, ReleaseSpec, WorkKey, WorkSpec
from fairlead.konnector.statuses import with_whole_status
from fairlead.konnector.supervisor import SupervisedPart
from fairlead.konnector.sync.claims import ClaimedObjects
from fairlead.konnector.sync.objects import BoundObjects
from fairlead.konnector.sync.release import Releaser
from fairlead.runtime import Delta, Request, Result, changed, commit


class _Wanted(NamedTuple):
    """A piece of work, with its export and binding: a change of any of them restarts it."""

    spec: WorkSpec
    export: OwnerReference | None
    binding: OwnerReference


_ALL = ""
"""Name in the request for all exports; no object has it."""


class APIServiceExportController:
    """Watches exports and BoundSchemas of the provider, bindings and CRDs of the consumer."""

    name = "apiserviceexport"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._consumer = provider.consumer
        self._running: dict[WorkKey, _Wanted] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        provider = self._provider

        async def work(request: Request) -> Result | None:
            if request.name != _ALL:
                return await self._reconcile(request)
            for export in provider.kubebind.exports.list():
                controller.enqueue(named(export.meta.name))
            return None

        controller = provider.consumer.controller("konnector-apiserviceexport", work)

        def named(name: str) -> Request:
            return Request("", provider.namespace, name)

        # One request stands for all exports until it is worked on: a provider may have thousands
        # of them, and each of its schemas would queue them all.
        def everything(_delta: Delta | None = None) -> Iterable[Request]:
            return [named(_ALL)]

        # The owner is the binding, whose name is the export's as well.
        def of_crd(delta: Delta) -> Iterable[Request]:
            return [named(name) for name in owning_names(delta)]

        def joined() -> None:
            for request in everything():
                controller.enqueue(request)

        async with AsyncExitStack() as stack:
            bindings = self._consumer.cluster.informer(APISERVICEBINDINGS)
            stack.push_async_callback(bindings.close)
            crds = self._consumer.cluster.informer(CUSTOMRESOURCEDEFINITIONS)
            stack.push_async_callback(crds.close)
            controller.watch(provider.kubebind.exports)
            # kube-bind joins request, export and binding by equal names alone.
            controller.watch(provider.kubebind.requests)
            controller.watch(provider.kubebind.schemas, everything)
            controller.watch(bindings, lambda delta: [named(delta.object.meta.name)])
            controller.watch(crds, of_crd)
            # The decision about one binding's copies may hold the claimed copies of all others.
            bundles = self._consumer.cluster.informer(APISERVICEBINDINGBUNDLES)
            stack.push_async_callback(bundles.close)
            for said in (bindings, bundles):
                controller.watch(said, everything, predicate=changed(decision))
            controller.watch(
                provider.kubebind.exports, everything, predicate=changed(recorded_cluster)
            )
            provider.on_join(joined)
            await controller.run()

    async def _reconcile(self, request: Request) -> Result | None:
        name = request.name
        # Without the cluster's own uid every copy would be held.
        await self._consumer.namespaces.synced()
        binding = self._binding(name)
        export = await self._export(name, binding)
        try:
            parsed = export.decode(APIServiceExport) if export else None
            schemas = await self._schemas(name, parsed)
            schemas_parsed = {key: found.decode(BoundSchema) for key, found in schemas.items()}
        except Undecodable:
            # What runs goes on as it was agreed, and ends with the binding, which tells the fault.
            if binding is None:
                await self._run_syncers(name, SyncPlan(), None, None)
            return None
        crds = self._crds(parsed, binding)
        request_ = self._provider.kubebind.requests.get(self._provider.namespace, name)
        hold = self._provider.hold(name)
        state = SyncState(
            name=name,
            export=parsed,
            binding=binding.decode(APIServiceBinding) if binding else None,
            schemas=schemas_parsed,
            crds=crds,
            hold=hold,
            released=hold.holding == "Keep" and self._is_released(name, binding),
            holding_of_claims=self._provider.holding_of_claims(),
            request=request_.try_decode(APIServiceExportRequest) if request_ else None,
        )
        plan = reconcile(state, now=now())
        await self._run_syncers(name, plan, export, binding)
        if export is not None:
            await self._report(plan, export, schemas)
        # No event tells that the last copy is released.
        return Result(bounds.RELEASE_SECONDS) if hold.holding == "Keep" else None

    def _is_released(self, name: str, binding: Object | None) -> bool:
        """Whether each copy without an object here is known, and has been released."""
        if binding is None:
            return False
        status = binding.decode(APIServiceBinding).status
        keys = {WorkKey(name, "objects", item.name) for item in status.bound_schemas}
        claims = {WorkKey(name, "claim", claim.name) for claim in status.permission_claims}
        keeping = {
            key
            for key in keys | claims
            if (part := self._running.get(key)) is not None
            and isinstance(part.spec, BoundSpec | ClaimSpec)
            and part.spec.holding == "Keep"
            and (leftover := self._provider.leftovers.get(key)) is not None
            and leftover() == []
        }
        # Without a bound kind it is not known yet which copies there are.
        return bool(keys) and keeping == keys | claims and self._namespaces_kept()

    def _namespaces_kept(self) -> bool:
        """Whether all APIServiceNamespaces without a namespace here are marked to stay."""
        namespaces = self._consumer.namespaces
        listed = self._provider.service_namespaces.informer.list(self._provider.namespace)
        return all(
            is_orphan(item.meta)
            or item.meta.deleting
            or namespaces.get("", item.meta.name) is not None
            for item in listed
        )

    def _binding(self, name: str) -> Object | None:
        if name not in self._provider.bindings:
            return None
        return self._consumer.bindings.get("", name)

    async def _export(self, name: str, binding: Object | None) -> Object | None:
        """Return the export, None without one.

        The provider itself is asked for one that the cache lacks, if a binding or running work
        needs it: without an export the objects are released.
        """
        export = self._provider.kubebind.exports.get(self._provider.namespace, name)
        if export is None and (binding is not None or self._works_for(name)):
            return await self._still(APISERVICEEXPORTS, name)
        return export

    async def _schemas(self, name: str, export: APIServiceExport | None) -> dict[str, Object]:
        """Return the existing BoundSchemas.

        The provider itself is asked for one with a syncer that the cache lacks.
        """
        result: dict[str, Object] = {}
        for item in export.spec.resources if export is not None else ():
            schema = self._provider.kubebind.schemas.get(self._provider.namespace, item.name)
            if schema is None and WorkKey(name, "objects", item.name) in self._running:
                schema = await self._still(BOUNDSCHEMAS, item.name)
            if schema is not None:
                result[item.name] = schema
        return result

    def _works_for(self, binding: str) -> bool:
        return any(key.binding == binding for key in self._running)

    async def _still(self, resource: Resource, name: str) -> Object | None:
        """Ask the provider for an object that the cache lacks.

        Raises:
            ClientError: the provider gave no answer; running work goes on until it does.
        """
        return await find(self._provider.client, resource, name, self._provider.namespace)

    def _crds(self, export: APIServiceExport | None, binding: Object | None) -> dict[str, Object]:
        """Return the CRDs of the export, or of the bound resources if the export is gone."""
        resources: Sequence[GroupResource] = ()
        if export is not None:
            resources = export.spec.resources
        elif binding is not None:
            resources = binding.decode(APIServiceBinding).status.bound_schemas
        names = [crd_name(item.resource, item.group) for item in resources]
        return {name: crd for name in names if (crd := self._consumer.crds.get("", name))}

    async def _run_syncers(
        self, name: str, plan: SyncPlan, export: Object | None, binding: Object | None
    ) -> None:
        """Stop and start the work that has changed, and no other."""
        specs: dict[WorkKey, _Wanted] = {}
        if binding is not None:
            owner = export.owner_reference() if export is not None else None
            owners = (owner, binding.owner_reference(controller=False))
            specs = {key: _Wanted(spec, *owners) for key, spec in plan.work(name).items()}
        # Old work has ended before its successor begins, so that no two of them write the same
        # objects.
        for key in [key for key in self._running if key.binding == name]:
            # Compared with the owners' uids: an export or binding that was made anew gets new
            # work, too.
            if self._running[key] != specs.get(key):
                del self._running[key]
                await self._provider.syncers.stop(key)
        for key, spec in specs.items():
            if key not in self._running:
                report = partial(self._consumer.reports.problems.report, name, str(key))
                self._provider.syncers.start(key, self._make(name, spec), failed=report)
                self._running[key] = spec

    def _make(self, name: str, syncer: _Wanted) -> SupervisedPart:
        spec, export = syncer.spec, syncer.export
        if isinstance(spec, ReleaseSpec):
            return Releaser(self._consumer, name, spec.resource, lossy=spec.lossy)
        if export is None:
            raise ValueError(f"{name}: nothing is synchronised without an export")
        if isinstance(spec, BoundSpec):
            return BoundObjects(self._provider, name, export, spec)
        return ClaimedObjects(self._provider, syncer.binding, export, spec)

    async def _report(self, plan: SyncPlan, export: Object, schemas: dict[str, Object]) -> None:
        for key, status in plan.schema_status.items():
            await self._commit(BOUNDSCHEMAS, schemas[key], status)
        if plan.status is not None:
            await self._commit(APISERVICEEXPORTS, export, plan.status)

    async def _commit(self, resource: Resource, old: Object, status: msgspec.Struct) -> None:
        body = with_whole_status(old, status)
        try:
            await commit(self._provider.client, resource, old, body, subresource="status")
        except NotFound:
            # The status of an export that is gone has no reader.
            return
