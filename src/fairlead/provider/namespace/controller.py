"""Watches APIServiceNamespaces and the provider namespaces that belong to them."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.kubebind import APISERVICENAMESPACES
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES, ROLEBINDINGS, Resource
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, NotFound
from fairlead.provider.namespace.reconcile import (
    Plan,
    State,
    owner_of,
    reconcile,
    target_name,
)
from fairlead.provider.options import ProviderOptions
from fairlead.provider.rbac import reconcile as rbac
from fairlead.provider.reporting import store_status
from fairlead.provider.watches import (
    BY_OWNER,
    Watches,
    requests_for,
    states,
    terminal_when_invalid,
)
from fairlead.runtime import Cluster, Controller, Delta, Request


NAME = "servicenamespace"
_BY_TARGET = "target"


class NamespaceController:
    """Gives every APIServiceNamespace its provider namespace, and takes it away again."""

    def __init__(self, cluster: Cluster, watches: Watches, options: ProviderOptions) -> None:
        self._cluster = cluster.name
        self._client = cluster.client
        self._recorder = cluster.events(NAME)
        self._watches = watches
        self._options = options
        watches.service_namespaces.add_index(_BY_TARGET, self._targets)
        self.controller = Controller(NAME, terminal_when_invalid(self.reconcile))
        self.controller.watch(watches.service_namespaces, cluster=cluster.name)
        self.controller.watch(watches.namespaces, self._from_namespace)
        self.controller.watch(watches.role_bindings, self._from_binding)
        self.controller.watch(watches.cluster_role_bindings, self._from_cluster_binding)
        for informer in (watches.exports, watches.schemas):
            self.controller.watch(
                informer, self._from_neighbour, predicate=lambda delta: delta.type != "MODIFIED"
            )

    async def reconcile(self, request: Request) -> None:
        """Bring one APIServiceNamespace nearer to its namespace."""
        key = Key(request.namespace, request.name)
        stored = self._watches.service_namespaces.get(*key)
        state = self._state(key, stored)
        if stored is None and (not state.owned or await self._exists(key)):
            return
        await self._carry_out(reconcile(state, self._options.isolation, now=now()), stored)

    async def _carry_out(self, plan: Plan, stored: Object | None) -> None:
        for namespace in plan.delete:
            await self._delete(namespace)
        if stored is not None:
            await store_status(
                self._client, self._recorder, APISERVICENAMESPACES, stored, plan.status
            )
        if plan.create is not None:
            try:
                await self._client.create(NAMESPACES, plan.create)
            except AlreadyExists:
                # Whose it is shows when its event arrives.
                return

    async def _delete(self, namespace: Object) -> None:
        """Delete a namespace that is as it was when it was found to be ours."""
        try:
            await self._client.delete(
                NAMESPACES,
                namespace.meta.name,
                uid=namespace.meta.uid,
                resource_version=namespace.meta.resource_version,
            )
        except NotFound:
            return

    async def _exists(self, key: Key) -> bool:
        """Whether the server, whatever the cache says, has the APIServiceNamespace.

        Raises:
            NotFound: the kind itself is not served, which says nothing about the object.
        """
        try:
            await self._client.get(APISERVICENAMESPACES, key.name, key.namespace)
        except NotFound as error:
            if not error.about(key.name):
                raise
            return False
        return True

    def _state(self, key: Key, stored: Object | None) -> State:
        state = State(
            key=key,
            service_namespace=stored,
            owned=list(self._watches.namespaces.by_index(BY_OWNER, str(key))),
            find=lambda name: self._watches.namespaces.get("", name),
            ungranted=(),
        )
        if stored is None:
            return state
        target = target_name(state, self._options.isolation)
        return state._replace(ungranted=self._ungranted(key, target))

    def _ungranted(self, key: Key, namespace: str) -> list[str]:
        """The exports of the consumer whose rights in its new namespace are not there yet."""
        watches = self._watches
        schemas = {item.meta.name: item for item in watches.schemas.list(key.namespace)}
        missing: list[str] = []
        for export in watches.exports.list(key.namespace):
            if export.meta.deleting:
                continue
            wanted = rbac.reconcile(
                rbac.State(export.key, export, schemas, frozenset({namespace}), {})
            )
            if not all(self._bound(resource, body) for resource, body in wanted.apply):
                missing.append(export.meta.name)
        return missing

    def _bound(self, resource: Resource, body: JSON) -> bool:
        """Whether a binding is there; roles come before theirs and need no look."""
        bindings = {
            ROLEBINDINGS: self._watches.role_bindings,
            CLUSTERROLEBINDINGS: self._watches.cluster_role_bindings,
        }
        informer = bindings.get(resource)
        metadata = body["metadata"]
        return informer is None or (
            informer.get(metadata.get("namespace", ""), metadata["name"]) is not None
        )

    def _targets(self, stored: Object) -> list[str]:
        state = State(stored.key, stored, (), lambda _: None, ())
        return [target_name(state, self._options.isolation)]

    def _from_namespace(self, delta: Delta) -> Iterator[Request]:
        for state in states(delta):
            if (owner := owner_of(state)) is not None:
                yield Request(self._cluster, owner.namespace, owner.name)
        name = delta.object.meta.name
        waiting = self._watches.service_namespaces.by_index(_BY_TARGET, name)
        yield from requests_for(self._cluster, waiting)

    def _from_binding(self, delta: Delta) -> Iterator[Request]:
        namespace = self._watches.namespaces.get("", delta.object.meta.namespace)
        owner = owner_of(namespace) if namespace is not None else None
        if owner is not None:
            yield Request(self._cluster, owner.namespace, owner.name)

    def _from_cluster_binding(self, delta: Delta) -> Iterator[Request]:
        key = rbac.export_of(delta.object)
        if key is not None:
            waiting = self._watches.service_namespaces.list(key.namespace)
            yield from requests_for(self._cluster, waiting)

    def _from_neighbour(self, delta: Delta) -> Iterator[Request]:
        waiting = self._watches.service_namespaces.list(delta.object.meta.namespace)
        yield from requests_for(self._cluster, waiting)
