"""Watches requests and their dependencies, and carries out their plans.

The CRDs that requests ask for come from a watch, and periodically from the server itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    LABEL_EXPORTED,
    APIServiceExportTemplate,
    TemplateSpec,
)
from fairlead.api.kubebind.conditions import EXPORTS_READY, false, status_events
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.api.timestamps import now
from fairlead.client import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Client,
    Forbidden,
    Invalid,
)
from fairlead.client.lookups import find
from fairlead.provider.controllers.exportrequest.reconcile import (
    RequestPlan,
    RequestState,
    follows,
    reconcile,
    refused_schema,
    waiting_status,
)
from fairlead.provider.offer import Offer, record_of
from fairlead.provider.options import ProviderOptions
from fairlead.provider.watches import (
    BY_NAMESPACE,
    BY_TEMPLATE,
    ProviderWatches,
    by_crd,
    by_schema,
    crd_names,
    in_turns,
    namespace_keys,
    requests_for,
    schema_names,
)
from fairlead.runtime import (
    Cluster,
    Delta,
    Request,
    Result,
    StatusWriter,
    commit,
    spec_changed,
)


class _SchemaRefused(Exception):  # noqa: N818  named after what happened
    """The BoundSchema CRD of the server does not allow a schema."""

    def __init__(self, error: Invalid) -> None:
        super().__init__(error.message)
        self.error = error


class Sources:
    """Finds CRDs that are labelled for export.

    The watch reports every change at once. Requests that follow their CRDs do not rely on it:
    every ``interval`` seconds the server itself is asked. It is asked once for all requests, and
    for listed CRDs alone, since a consumer may make any number of requests for any names.
    """

    def __init__(self, client: Client, watches: ProviderWatches, interval: float) -> None:
        self._client = client
        self._watches = watches
        self._interval = interval
        self._looked: dict[str, float] = {}
        self._fetched: dict[str, Object] = {}

    async def find(self, names: Iterable[str], *, follow: bool) -> dict[str, Object]:
        """Return the CRDs of these names, by name.

        Raises:
            ClientError: a look at the server was due, and it gave no answer.
        """
        sources: dict[str, Object] = {}
        for name in names:
            if follow and self._due(name):
                await self._fetch(name)
            cached = self._watches.crds.get("", name)
            if (newest := self._newest(name, cached)) is not None:
                sources[name] = newest
        return sources

    def _due(self, name: str) -> bool:
        """Whether to ask the server for a CRD; the first look trusts the watch."""
        if self._watches.crds.get("", name) is None:
            self._looked.pop(name, None)
            return False
        now = asyncio.get_running_loop().time()
        # Each request comes once an interval: half of it, or another's look would put off its own.
        if now - self._looked.setdefault(name, now) < self._interval / 2:
            return False
        self._looked[name] = now
        return True

    async def _fetch(self, name: str) -> None:
        crd = await find(self._client, CUSTOMRESOURCEDEFINITIONS, name)
        if crd is None:
            self._fetched.pop(name, None)
        else:
            self._fetched[name] = crd

    def _newest(self, name: str, cached: Object | None) -> Object | None:
        """Return the fetched CRD while the watch is behind it, else the cached one."""
        fetched = self._fetched.get(name)
        # A fetched CRD counts only if the watch lists it too: without its label it is not listed,
        # and the generations of two uids cannot be compared.
        if cached is None or fetched is None or fetched.meta.uid != cached.meta.uid:
            return cached
        if fetched.meta.generation <= cached.meta.generation:
            del self._fetched[name]
            return cached
        # It was fetched by its name, where no selector looks at the label.
        return fetched if fetched.meta.labels.get(LABEL_EXPORTED) == "true" else None


class LabelledCRDs:
    """Reads the offer of a consumer's invitations: from the caches, or from the server."""

    def __init__(self, client: Client, watches: ProviderWatches) -> None:
        self._client = client
        self._watches = watches

    def cached(self, namespace: str) -> Offer:
        """Return the offer by the caches, which may lag behind."""
        record = record_of(self._watches.cluster_bindings.get(namespace, CLUSTER_BINDING_NAME))
        names = record.templates or ()
        return Offer(
            record, {name: _template(self._watches.templates.get("", name)) for name in names}
        )

    async def stored(self, namespace: str) -> Offer:
        """Return the offer, read from the server.

        Raises:
            ClientError: the server refused or cannot be reached.
        """
        binding = await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace)
        record = record_of(binding)
        templates: dict[str, TemplateSpec | None] = {}
        for name in record.templates or ():
            template = await find(self._client, APISERVICEEXPORTTEMPLATES, name)
            templates[name] = _template(template)
        return Offer(record, templates)


def _template(stored: Object | None) -> TemplateSpec | None:
    """Return the spec of a template; None if it cannot be decoded, which offers no resource."""
    if stored is None:
        return None
    try:
        return stored.decode(APIServiceExportTemplate).spec
    except msgspec.ValidationError:
        return None


NAME = "serviceexportrequest"


class RequestController:
    """Turns APIServiceExportRequests into BoundSchemas and APIServiceExports."""

    def __init__(
        self, cluster: Cluster, watches: ProviderWatches, options: ProviderOptions
    ) -> None:
        self._client = cluster.client
        self._statuses = StatusWriter(
            cluster.client, APISERVICEEXPORTREQUESTS, cluster.events(NAME), status_events
        )
        self._watches = watches
        self._options = options
        self._sources = Sources(cluster.client, watches, options.schema_sync_interval)
        self._offers = LabelledCRDs(cluster.client, watches)
        self.controller = in_turns(NAME, self.reconcile)
        self._watch(cluster.name)

    def _watch(self, cluster: str) -> None:
        watches, controller = self._watches, self.controller

        def from_namespace(delta: Delta) -> list[Request]:
            namespace = delta.object.meta.namespace
            return list(requests_for(cluster, watches.requests.list(namespace)))

        def from_service_namespace(delta: Delta) -> list[Request]:
            name = str(delta.object.key)
            return list(requests_for(cluster, watches.requests.by_index(BY_NAMESPACE, name)))

        def from_template(delta: Delta) -> list[Request]:
            name = delta.object.meta.name
            invited = watches.cluster_bindings.by_index(BY_TEMPLATE, name)
            waiting = (watches.requests.list(binding.meta.namespace) for binding in invited)
            return list(requests_for(cluster, chain.from_iterable(waiting)))

        controller.watch(watches.requests, cluster=cluster)
        if self._options.requests == "invited":
            controller.watch(watches.templates, from_template)
            # Heartbeats change the status alone; the invitations are in the spec.
            controller.watch(watches.cluster_bindings, from_namespace, predicate=spec_changed)
        # An export has the name of its request, so that its key is that of the request too.
        controller.watch(watches.exports, cluster=cluster)
        controller.watch(watches.schemas, by_schema(cluster, watches.requests))
        controller.watch(watches.crds, by_crd(cluster, watches.requests))
        controller.watch(
            watches.service_namespaces,
            from_service_namespace,
            # A namespace that a request names is made again when it is deleted; no other change of
            # it matters to a request.
            predicate=lambda delta: delta.type == "DELETED",
        )

    async def reconcile(self, key: Request) -> Result:
        """Bring one request nearer to its export, and look again if it follows its CRDs."""
        request = self._watches.requests.get(key.namespace, key.name)
        if request is None:
            return Result()
        follow = follows(request)
        state = await self._state(request, follow=follow)
        plan = reconcile(state, self._options, now=now())
        if state.offer is not None and (plan.excess or plan.create_export is not None):
            # Neither an export nor a refusal is decided by a cache alone.
            state = state._replace(offer=await self._offers.stored(request.meta.namespace))
            plan = reconcile(state, self._options, now=now())
        if state.export is not None and (plan.create_schemas or plan.create_namespaces):
            # An object whose owner is gone is collected at once, which would wake this again: no
            # object is made for a request that a cache alone knows.
            state = state._replace(export=await self._stored_export(request))
            plan = reconcile(state, self._options, now=now())
        try:
            await self._carry_out(plan)
        except _SchemaRefused as refusal:
            # Tried again as well: it helps once the CRD is upgraded.
            message = refusal.error.message
            await self._statuses.write(request, refused_schema(request, message, now=now()))
            raise refusal.error from None
        except (Invalid, Forbidden, BadRequest) as error:
            # Trying again may help once the provider's rights or schemas are mended.
            await self._refused(request, error)
            raise
        await self._statuses.write(request, plan.status)
        return Result(self._options.schema_sync_interval if follow else None)

    async def _state(self, request: Object, *, follow: bool) -> RequestState:
        watches, namespace = self._watches, request.meta.namespace
        # What the request names, and not all that the consumer has: that may be very much.
        schemas = {name: watches.schemas.get(namespace, name) for name in schema_names(request)}
        named = [key.rpartition("/")[2] for key in namespace_keys(request)]
        return RequestState(
            request=request,
            export=await self._export(request),
            crds=await self._sources.find(crd_names(request), follow=follow),
            schemas={name: schema for name, schema in schemas.items() if schema is not None},
            namespaces=frozenset(
                name for name in named if watches.service_namespaces.get(namespace, name)
            ),
            offer=self._offers.cached(namespace) if self._options.requests == "invited" else None,
        )

    async def _export(self, request: Object) -> Object | None:
        """Return the export of the same name; the server is asked if the cache has none.

        Raises:
            ClientError: the server does not say whether there is one.
        """
        cached = self._watches.exports.get(request.meta.namespace, request.meta.name)
        return cached if cached is not None else await self._stored_export(request)

    async def _stored_export(self, request: Object) -> Object | None:
        """Return the export of the same name, read from the server.

        Raises:
            ClientError: the server does not say whether there is one.
        """
        return await find(
            self._client, APISERVICEEXPORTS, request.meta.name, request.meta.namespace
        )

    async def _carry_out(self, plan: RequestPlan) -> None:
        # Schemas before the export: a reader of the export finds the schemas that it names.
        try:
            for schema in plan.create_schemas:
                await _create(self._client, BOUNDSCHEMAS, schema)
            for stored, body in plan.update_schemas:
                await commit(self._client, BOUNDSCHEMAS, stored, body)
        except Invalid as error:
            raise _SchemaRefused(error) from None
        if plan.create_export is not None:
            await _create(self._client, APISERVICEEXPORTS, plan.create_export)
        for namespace in plan.create_namespaces:
            await _create(self._client, APISERVICENAMESPACES, namespace)

    async def _refused(self, request: Object, error: ApiError) -> None:
        condition = false(
            EXPORTS_READY, "ExportFailed", f"the provider's API server refused: {error}"
        )
        status = waiting_status(request, condition, now=now())
        await self._statuses.write(request, status)


async def _create(client: Client, resource: Resource, body: JSON | msgspec.Struct) -> None:
    """Create an object; if it exists, its event will start another pass."""
    try:
        await client.create(resource, body)
    except AlreadyExists:
        return
