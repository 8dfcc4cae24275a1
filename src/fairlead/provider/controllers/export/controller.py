"""Watches exports, their BoundSchemas and CRDs; writes their hash and condition ProviderInSync."""

from __future__ import annotations

from fairlead.api.kubebind import APISERVICEEXPORTS, BOUNDSCHEMAS
from fairlead.api.kubebind.conditions import status_events
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.api.timestamps import now
from fairlead.client.lookups import find
from fairlead.provider.controllers.export.reconcile import (
    adopted,
    annotated,
    conditioned,
    reconcile,
)
from fairlead.provider.options import ProviderOptions
from fairlead.provider.watches import (
    ProviderWatches,
    by_crd,
    by_schema,
    crd_names,
    in_turns,
    schema_names,
)
from fairlead.runtime import Cluster, Request, Result, StatusWriter, commit


NAME = "serviceexport"


class ExportController:
    """Keeps the hash of an export's schemas, which wakes the konnector when one changes."""

    def __init__(
        self, cluster: Cluster, watches: ProviderWatches, options: ProviderOptions
    ) -> None:
        self._client = cluster.client
        self._statuses = StatusWriter(
            cluster.client, APISERVICEEXPORTS, cluster.events(NAME), status_events
        )
        self._watches = watches
        self._interval = options.schema_sync_interval
        self.controller = in_turns(NAME, self.reconcile)
        self.controller.watch(watches.exports, cluster=cluster.name)
        self.controller.watch(watches.schemas, by_schema(cluster.name, watches.exports))
        self.controller.watch(watches.crds, by_crd(cluster.name, watches.exports))

    async def reconcile(self, key: Request) -> Result:
        """Compare one export with its schemas, and look again if its CRDs are not watched."""
        export = self._watches.exports.get(key.namespace, key.name)
        if export is None:
            return Result()
        unwatched = [name for name in crd_names(export) if not self._watches.crds.get("", name)]
        gone = [name for name in unwatched if not await self._has_crd(name)]
        plan = reconcile(export, await self._schemas(export), gone)
        for schema in plan.adopt:
            await commit(self._client, BOUNDSCHEMAS, schema, adopted(schema, export))
        if plan.source_spec_hash:
            body = annotated(export, plan.source_spec_hash)
            # The status is written next, and has to be based on the version that this write gives
            # rise to.
            export = await commit(self._client, APISERVICEEXPORTS, export, body)
        if plan.condition is not None:
            body = conditioned(export, plan.condition, now=now())
            await self._statuses.write(export, body)
        return Result(self._interval if unwatched else None)

    async def _has_crd(self, name: str) -> bool:
        """Whether a CRD is there, which the watch shows only with its label.

        Raises:
            ClientError: the server does not say.
        """
        return await find(self._client, CUSTOMRESOURCEDEFINITIONS, name) is not None

    async def _schemas(self, export: Object) -> dict[str, Object]:
        """Return the schemas of an export; the server is asked for those that the cache lacks.

        Raises:
            ClientError: the server does not say whether one is there.
        """
        schemas: dict[str, Object] = {}
        for name in schema_names(export):
            schema = self._watches.schemas.get(export.meta.namespace, name)
            if schema is None:
                schema = await find(self._client, BOUNDSCHEMAS, name, export.meta.namespace)
            if schema is not None:
                schemas[name] = schema
        return schemas
