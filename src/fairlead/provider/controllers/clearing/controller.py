"""Watches the ClusterBindings of revoked consumers, and their provider namespaces.

Its condition Cleared tells what is left, by which ``fairlead provider revoke`` sees that it works.
It needs no rights beyond those of the other controllers: it deletes namespaces that the provider
made, and copies of kinds whose rights the provider may hand out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec
import structlog

from fairlead.api.definitions import lossless_resource
from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    BOUNDSCHEMAS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
)
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.api.timestamps import now
from fairlead.client import ApiError, NotFound
from fairlead.client.lookups import Unseen, find, look_at
from fairlead.provider.changes import with_status
from fairlead.provider.controllers.clearing.reconcile import Found, State, reconcile
from fairlead.provider.copies import exported, places
from fairlead.provider.namespaces import usable
from fairlead.provider.offer import record_of
from fairlead.provider.options import ProviderOptions
from fairlead.provider.watches import (
    BY_CONSUMER,
    ProviderWatches,
    consumer_of,
    in_turns,
    states,
)
from fairlead.runtime import Cluster, Delta, Request, Result, commit, delays


NAME = "clearing"

_log = structlog.get_logger(__name__)


class ClearingController:
    """Deletes the objects of consumers whose ClusterBinding says so, the identity last."""

    def __init__(
        self, cluster: Cluster, watches: ProviderWatches, options: ProviderOptions
    ) -> None:
        self._cluster = cluster.name
        self._client = cluster.client
        self._watches = watches
        self._options = options
        self._messages: dict[str, str] = {}
        self.controller = in_turns(NAME, self.reconcile)
        self.controller.watch(watches.cluster_bindings, cluster=cluster.name)
        self.controller.watch(watches.namespaces, self._from_namespace)

    async def reconcile(self, request: Request) -> Result:
        """Do the next step of the deletion of one consumer's objects."""
        consumer = request.namespace
        key = Key(consumer, request.name)
        if not record_of(self._watches.cluster_bindings.get(*key)).clearing:
            self._messages.pop(consumer, None)
            return Result()
        # A cache may lag: nothing is deleted without asking the server.
        state = State(
            consumer=await find(self._client, NAMESPACES, consumer),
            binding=await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, consumer),
            owned=await self._owned(consumer),
        )
        plan = reconcile(state)
        looked = plan.count
        if looked:
            copies, unseen = await self._copies(consumer)
            plan = reconcile(state._replace(copies=copies, unseen=unseen))
        condition = plan.condition
        try:
            for resource, copy in plan.copies:
                await self._delete(resource, copy)
            for namespace in plan.namespaces:
                await self._delete(NAMESPACES, namespace)
        except ApiError as error:
            if condition is not None:
                message = f"{condition.message}: {error}"
                condition = msgspec.structs.replace(condition, message=message)
            raise
        finally:
            await self._tell(consumer, state.binding, condition)
        # Namespaces are watched, and their end is an event; copies are not watched.
        return Result(backoff=delays.COPIES_GONE) if looked and condition else Result()

    async def _owned(self, consumer: str) -> list[Object]:
        """Return a consumer's provider namespaces, read from the server and not from the cache."""
        cached = self._watches.namespaces.by_index(BY_CONSUMER, consumer)
        namespaces = [await find(self._client, NAMESPACES, one.meta.name) for one in cached]
        return [
            namespace
            for namespace in namespaces
            if namespace
            and consumer in consumer_of(namespace)
            and usable(namespace, self._options)
        ]

    async def _copies(self, consumer: str) -> tuple[list[Found], list[str]]:
        """Return copies outside provider namespaces, and a message for each kind that waits."""
        exports = (await self._client.list(APISERVICEEXPORTS, consumer)).items
        schemas = (await self._client.list(BOUNDSCHEMAS, consumer, metadata_only=True)).items
        names = {schema.meta.name for schema in schemas}.union(*map(exported, exports))
        # Of kinds that were exported once, copies outside of namespaces outlive their export.
        former = {crd.meta.name for crd in self._watches.crds.list()} - names
        where = places(self._watches.namespaces.list(), exports)
        copies: list[Found] = []
        unseen: list[str] = []
        for name in sorted(names | former):
            crd = await find(self._client, CUSTOMRESOURCEDEFINITIONS, name)
            # A kind without its CRD has no objects.
            resource, why = lossless_resource(crd) if crd is not None else (None, "")
            if resource is None or (name in former and resource.namespaced):
                continue
            try:
                present = await look_at(
                    self._client, resource, consumer if resource.namespaced else ""
                )
            except Unseen as error:
                if name in names:
                    unseen.append(str(error))
                continue
            mine = [one for one in present if where.whose(resource, one.meta) == consumer]
            if mine and why:
                # Their controllers need the fields, to take away what is behind a copy.
                unseen.append(f"to delete copies of {name} would lose fields: {why}")
                continue
            copies += [(resource, one) for one in mine]
        return copies, unseen

    async def _delete(self, resource: Resource, obj: Object) -> None:
        """Delete an object, unless it has changed since it was read."""
        meta = obj.meta
        with suppress(NotFound):
            await self._client.delete(
                resource,
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )

    async def _tell(
        self, consumer: str, binding: Object | None, condition: KubeBindCondition | None
    ) -> None:
        """Log the awaited objects when they change, and write them into the ClusterBinding."""
        message = condition.message if condition is not None else ""
        if message != self._messages.get(consumer, ""):
            self._messages[consumer] = message
            if message:
                _log.info("clearing a revoked consumer", consumer=consumer, waits=message)
        if condition is not None and binding is not None:
            body = with_status(binding, [condition], now=now())
            with suppress(NotFound):
                await commit(self._client, CLUSTERBINDINGS, binding, body, subresource="status")

    def _from_namespace(self, delta: Delta) -> Iterator[Request]:
        """Yield a request for the consumer of a provider namespace."""
        for state in states(delta):
            for consumer in consumer_of(state):
                yield Request(self._cluster, consumer, CLUSTER_BINDING_NAME)
