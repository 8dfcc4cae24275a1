"""pullPolicy All: the CRDs of all APIs that a provider offers, whether they are bound or not.

An API that a binding lists is left to the work on that API, so that each CRD has one writer. Both
write by the same plan. Of an API that is not bound nothing but its CRD is read or written. With
their Connection those CRDs go that have no objects; the original leaves all for ever.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack

import structlog

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, Connection
from fairlead.api.kbind.names import FIELD_MANAGER, FORBIDDEN, LABEL_MANAGED, PENDING
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client.errors import ApiError, Conflict, NotFound
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.v2.bindings.coverage import BindingSummary, stands_back, summary
from fairlead.konnector.v2.bindings.crds import Fault, is_made, owner_of, plan_crd
from fairlead.konnector.v2.bindings.writes import write_crd
from fairlead.konnector.v2.connection.reconcile import PullFaults
from fairlead.konnector.v2.providers import ConnectedProvider, ConnectedProviders
from fairlead.runtime import Delta, Request, Result, spec_changed


CRDS_LEFT = "CRDsLeft"
"""Reason of the Event about CRDs that stay when their Connection goes."""

_log = structlog.get_logger(logger_name="fairlead.konnector.v2.pulls")


class PulledAPIs:
    """Watches Connections, bindings and CRDs of the consumer, and what providers offer."""

    name = "kbind-pulls"

    def __init__(self, consumer: Consumer, providers: ConnectedProviders) -> None:
        cluster = consumer.cluster
        self._consumer = consumer
        self._providers = providers
        self._connections = consumer.kbind_informer(CONNECTIONS)
        self._cluster_bindings = consumer.kbind_informer(CLUSTERBINDINGS)
        self._bindings = consumer.kbind_informer(BINDINGS)
        self._events = cluster.events(FIELD_MANAGER)
        self._controller = consumer.controller("kbind-pulls", self._reconcile)
        self._summaries: dict[Key, BindingSummary] = {}
        self._subscribed: dict[str, ConnectedProvider] = {}
        self._faults: dict[str, dict[str, Fault]] = defaultdict(dict)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._listeners: list[Callable[[str], None]] = []

    async def run(self) -> None:
        """Work until cancelled."""
        async with AsyncExitStack() as stack:
            for informer in (self._connections, self._cluster_bindings, self._bindings):
                stack.push_async_callback(informer.close)
            crds = self._consumer.cluster.informer(self._consumer.crds.resource)
            stack.push_async_callback(crds.close)
            for informer in (self._cluster_bindings, self._bindings):
                informer.subscribe(self._binding_changed)
            self._connections.subscribe(self._connection_changed)
            crds.subscribe(lambda delta: self._poke(delta.object.meta.name))
            for informer in (self._connections, self._cluster_bindings, self._bindings, crds):
                await informer.synced()
            stack.callback(self._providers.listen(self._provider_changed))
            await self._controller.run()

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call the listener with the name of each Connection whose faults change."""
        self._listeners.append(listener)

    def faults(self, connection: str) -> PullFaults:
        """Return the faults of the CRDs that a Connection pulls."""
        faults = [fault for _, fault in sorted(self._faults.get(connection, {}).items())]
        return PullFaults(
            forbidden=tuple(fault.message for fault in faults if fault.reason == FORBIDDEN),
            others=tuple(fault.message for fault in faults if fault.reason != FORBIDDEN),
        )

    async def release(self, obj: Object) -> None:
        """Delete the CRDs of a deleted Connection that have no objects, and name those that stay.

        An object that is created in between goes with its CRD: no request can prevent it.

        Raises:
            ClientError: this cluster does not answer, or its CRDs may not be listed.
        """
        name, left = obj.meta.name, []
        # What is being written has been written then, and the Connection is known to be deleted.
        async with self._locks[name]:
            client = self._consumer.client
            crds = await client.list(CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_MANAGED}=true")
            for crd in crds.items:
                if owner_of(crd) != name or not is_made(crd) or crd.meta.deleting:
                    continue
                if not self._is_listed(crd.meta.name) and (why := await self._delete(crd)):
                    left.append(f"{crd.meta.name} ({why})")
        self._forget(name)
        if left:
            message = f"these CustomResourceDefinitions stay: {_named(left)}"
            self._events.event(obj, "Warning", CRDS_LEFT, message)
            _log.warning("CRDs are left", connection=name, crds=left)

    async def _delete(self, crd: Object) -> str:
        """Delete a CRD without objects; return why it stays, "" if it goes."""
        client, resource = self._consumer.client, crd_spec(crd).readable()
        if resource is None:
            return "no version is served"
        try:
            if (await client.page(resource, limit=1, metadata_only=True)).items:
                return "it has objects"
            # Only unchanged: a user may remove the marks, to keep the CRD, at this moment.
            await client.delete(
                CUSTOMRESOURCEDEFINITIONS,
                crd.meta.name,
                uid=crd.meta.uid,
                resource_version=crd.meta.resource_version,
            )
        except NotFound:
            # It went by another hand.
            return ""
        except Conflict:
            return "it was changed at that moment"
        except ApiError as error:
            return error.message
        return ""

    def _forget(self, connection: str) -> None:
        self._faults.pop(connection, None)
        self._locks.pop(connection, None)
        self._subscribed.pop(connection, None)

    def _is_listed(self, api: str) -> bool:
        """Whether a binding lists an API, also one that is being deleted."""
        return any(api in binding.apis for binding in self._summaries.values())

    def _binding_changed(self, delta: Delta) -> None:
        key = delta.object.key
        before = self._summaries.pop(key, None)
        after = summary(delta.new) if delta.new is not None else None
        if after is not None:
            self._summaries[key] = after
        listed = (
            set(binding.apis) if binding is not None else set() for binding in (before, after)
        )
        for api in set.symmetric_difference(*listed):
            self._poke(api)

    def _connection_changed(self, delta: Delta) -> None:
        if delta.new is None:
            self._forget(delta.object.meta.name)
            # What it has left another one may take.
            for connection in self._connections.list():
                self._poke_all(connection.meta.name)
        # The end of another konnector is in the status alone.
        elif spec_changed(delta) or stands_back(delta.old) != stands_back(delta.new):
            self._poke_all(delta.object.meta.name)

    def _provider_changed(self, connection: str) -> None:
        provider = self._providers.of(connection)
        if provider is None:
            return
        if provider is not self._subscribed.get(connection):
            # The subscription ends with the provider.
            self._subscribed[connection] = provider
            provider.schemas.subscribe(lambda api: self._enqueue(connection, api))
        self._poke_all(connection)

    def _poke_all(self, connection: str) -> None:
        """Look at all APIs of a Connection, and at those that had a fault."""
        provider = self._providers.of(connection)
        offered = provider.schemas.apis if provider is not None else None
        names = {api.name for api in offered or ()} | self._faults.get(connection, {}).keys()
        for name in sorted(names):
            self._enqueue(connection, name)

    def _poke(self, api: str) -> None:
        for connection in self._connections.list():
            self._enqueue(connection.meta.name, api)

    def _enqueue(self, connection: str, api: str) -> None:
        if self._puller(connection) is not None or api in self._faults.get(connection, {}):
            self._controller.enqueue(Request("", connection, api))

    def _puller(self, name: str) -> Connection | None:
        """Return a Connection that pulls all APIs, None if this one does not."""
        obj = self._connections.get("", name)
        if obj is None or obj.meta.deleting or stands_back(obj):
            return None
        connection = obj.try_decode(Connection)
        pulls = connection is not None and connection.spec.schema.pull_policy == "All"
        return connection if pulls else None

    async def _reconcile(self, request: Request) -> Result | None:
        name, api = request.namespace, request.name
        async with self._locks[name]:
            fault = await self._pull(name, api)
        self._note(name, api, fault)
        # No event tells that a right has been granted, or that a webhook answers again.
        is_refused = fault is not None and (fault.refused or fault.reason == FORBIDDEN)
        return Result(bounds.AGAIN_SECONDS) if is_refused else None

    async def _pull(self, name: str, api: str) -> Fault | None:
        """Write the CRD of an API that no binding lists; return why it is not as it should be."""
        connection, provider = self._puller(name), self._providers.of(name)
        if connection is None or self._is_listed(api):
            return None
        if provider is None:
            return self._faults[name].get(api)
        offered = [api.name for api in provider.schemas.apis or ()]
        if api not in offered:
            return None
        if offered.index(api) >= bounds.PULLED_APIS:
            message = (
                f"{api} is not pulled, since only the first {bounds.PULLED_APIS} APIs are: bind it"
            )
            return Fault(PENDING, message)
        provider.schemas.read(api)
        crd = self._consumer.crds.get("", api)
        plan = plan_crd(
            api,
            name,
            connection.spec.schema,
            provider.schemas.get(api),
            crd,
            left=self._connections.get("", owner_of(crd)) is None,
            unread=provider.schemas.fault(api),
            bound=False,
        )
        fault = plan.fault
        if plan.action:
            written = await write_crd(self._consumer.client, api, plan)
            fault = written if isinstance(written, Fault) else None
        return fault if fault is not None and not fault.passing else None

    def _note(self, name: str, api: str, fault: Fault | None) -> None:
        faults = self._faults[name]
        if faults.get(api) == fault:
            return
        if fault is None:
            faults.pop(api, None)
        else:
            faults[api] = fault
        for listener in self._listeners:
            listener(name)


def _named(messages: Iterable[str]) -> str:
    listed = list(messages)
    more = len(listed) - bounds.NAMED
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(listed[: bounds.NAMED]) + rest
