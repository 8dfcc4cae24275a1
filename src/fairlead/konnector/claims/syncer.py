"""The syncer of one claim, from the kinds that refer to what is claimed."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec

from fairlead.api.kubebind import BoundSchema, SelectorReference
from fairlead.api.kubebind.claims import reference_allowed, reference_versions
from fairlead.api.meta import OwnerReference
from fairlead.api.resource import Resource
from fairlead.konnector.claims.controller import ClaimRun
from fairlead.konnector.claims.selection import Referrers
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.apiserviceexport.reconcile import ClaimSpec
from fairlead.runtime import Informer


class ClaimSyncer:
    """One claim of one binding: referrers are known first, then objects are looked at."""

    def __init__(
        self,
        provider: Provider,
        binding: OwnerReference,
        export: OwnerReference,
        wanted: ClaimSpec,
    ) -> None:
        self._provider = provider
        self._binding = binding
        self._export = export
        self._wanted = wanted

    async def run(self) -> None:
        """Synchronise until cancelled."""
        run = ClaimRun(self._provider, self._binding, self._export, self._wanted)
        async with AsyncExitStack() as stack:
            stack.callback(run.problem, "")
            referrers = [] if self._wanted.unbinding else await self._referrers(stack)
            await run.run(referrers)

    async def _referrers(self, stack: AsyncExitStack) -> list[Referrers]:
        result = []
        for reference in self._wanted.claim.selector.references:
            if not reference_allowed(
                reference, self._wanted.resources, isolation=self._wanted.isolation
            ):
                continue
            informers: list[Informer] = []
            for version in reference_versions(reference, self._wanted.resources):
                resource = await self._resource(reference, version)
                informer = self._provider.consumer.cluster.informer(resource)
                stack.push_async_callback(informer.close)
                informers.append(informer)
            result.append(Referrers(reference, informers))
        return result

    async def _resource(self, reference: SelectorReference, version: str) -> Resource:
        """What is bound is known: an API server tells of a CRD some time after it serves it.

        Raises:
            ClientError: the kind is not bound, and discovery does not name it.
        """
        for item in self._wanted.resources:
            if item.group_resource == reference.group_resource:
                schema = self._provider.schemas.get(self._provider.namespace, item.name)
                found = schema and schema.decode(BoundSchema).spec.resource()
                if found:
                    return msgspec.structs.replace(found, version=version)
        discovery = self._provider.consumer.cluster.client.discovery
        return await discovery.resource_by_plural(reference.group, reference.resource, version)
