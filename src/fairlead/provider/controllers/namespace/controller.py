"""Watches APIServiceNamespaces and the provider namespaces that belong to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    CLUSTER_BINDING_NAME,
    FINALIZER_NAMESPACE,
    APIServiceNamespace,
)
from fairlead.api.kubebind.conditions import status_events
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES, ROLEBINDINGS
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists
from fairlead.client.lookups import find
from fairlead.provider.controllers.namespace.departure import Departure
from fairlead.provider.controllers.namespace.reconcile import (
    NamespacePlan,
    NamespaceState,
    heir,
    leaving_status,
    new_service_namespace,
    reconcile,
    target_name,
)
from fairlead.provider.namespaces import owner_of
from fairlead.provider.offer import InvitationRecord, record_of
from fairlead.provider.options import ProviderOptions
from fairlead.provider.rights import Grounds, Id, export_of, rights
from fairlead.provider.watches import (
    BY_CONSUMER,
    BY_OWNER,
    ProviderWatches,
    in_turns,
    requests_for,
    states,
)
from fairlead.runtime import (
    Cluster,
    Delta,
    Informer,
    Request,
    Result,
    StatusWriter,
    add_finalizer,
    came_or_went,
    delays,
    remove_finalizer,
)


# The cache counts the namespaces that exist. It lags behind what was just made, so that a
# namespace has its place from the decision to make it until the cache shows it.
class NamespaceLimit:
    """Counts the provider namespaces of each consumer, and knows who waits for a place.

    ``most`` is the largest number of provider namespaces of one consumer. Keys are those of
    APIServiceNamespaces, whose namespace is the consumer's cluster namespace.
    """

    def __init__(self, namespaces: Informer, most: int) -> None:
        self._namespaces = namespaces
        self._most = most
        self._unseen: dict[str, set[Key]] = {}
        self._waiting: dict[str, dict[Key, None]] = {}

    def full(self, key: Key) -> bool:
        """Whether no namespace can be made for this APIServiceNamespace now."""
        return key not in self._unseen.get(key.namespace, ()) and self._free(key.namespace) <= 0

    def take(self, key: Key) -> bool:
        """Count the namespace that is about to be made; return whether it was not counted yet."""
        self.leave_line(key)
        unseen = self._unseen.setdefault(key.namespace, set())
        taken = key not in unseen
        unseen.add(key)
        return taken

    def settle(self, key: Key) -> None:
        """Leave it to the cache to count the namespace; there may be none, too."""
        unseen = self._unseen.get(key.namespace)
        if unseen is not None:
            unseen.discard(key)
            if not unseen:
                del self._unseen[key.namespace]

    def wait(self, key: Key) -> None:
        """Have the APIServiceNamespace wait until there is room."""
        self._waiting.setdefault(key.namespace, {})[key] = None

    def leave_line(self, key: Key) -> None:
        """Have the APIServiceNamespace wait no more."""
        waiting = self._waiting.get(key.namespace)
        if waiting is not None:
            waiting.pop(key, None)
            if not waiting:
                del self._waiting[key.namespace]

    def next(self, consumer: str) -> list[Key]:
        """Return those that have waited longest, as many as there is room for.

        They do not wait any more, and have to be looked at: one that still finds no room waits
        again.
        """
        waiting = self._waiting.get(consumer)
        if waiting is None or (free := self._free(consumer)) <= 0:
            return []
        chosen = [key for key, _ in zip(waiting, range(free), strict=False)]
        for key in chosen:
            self.leave_line(key)
        return chosen

    def _free(self, consumer: str) -> int:
        used = self._namespaces.count(BY_CONSUMER, consumer)
        return self._most - used - len(self._unseen.get(consumer, ()))


NAME = "servicenamespace"
_BY_TARGET = "target"


class NamespaceController:
    """Creates the provider namespace of each APIServiceNamespace, and deletes both together."""

    def __init__(
        self, cluster: Cluster, watches: ProviderWatches, options: ProviderOptions
    ) -> None:
        self._cluster = cluster.name
        self._client = cluster.client
        self._recorder = cluster.events(NAME)
        self._statuses = StatusWriter(
            cluster.client, APISERVICENAMESPACES, cluster.events(NAME), status_events
        )
        self._watches = watches
        self._options = options
        self._departure = Departure(cluster.client, options)
        self._limit = NamespaceLimit(watches.namespaces, options.namespaces_per_consumer)
        watches.service_namespaces.add_index(_BY_TARGET, self._targets)
        self.controller = in_turns(NAME, self.reconcile)
        self.controller.watch(watches.service_namespaces, cluster=cluster.name)
        self.controller.watch(watches.namespaces, self._from_namespace)
        # A namespace is announced once the consumer has its rights there, which the controller of
        # rights makes.
        self.controller.watch(watches.role_bindings, self._from_binding)
        self.controller.watch(watches.cluster_role_bindings, self._from_cluster_binding)
        for informer in (watches.exports, watches.schemas):
            self.controller.watch(informer, self._from_neighbour, predicate=came_or_went)

    async def reconcile(self, request: Request) -> Result:
        """Create or update the provider namespace of an APIServiceNamespace.

        If the APIServiceNamespace is deleted, delete the provider namespace.
        """
        try:
            return await self._reconcile(Key(request.namespace, request.name))
        finally:
            # Whatever became of this one: the place that it left, or did not need, is another's.
            for waiting in self._next(request.namespace):
                self.controller.enqueue(waiting)

    async def _reconcile(self, key: Key) -> Result:
        stored = self._watches.service_namespaces.get(*key)
        owned = list(self._watches.namespaces.by_index(BY_OWNER, str(key)))
        if stored is None or stored.meta.deleting:
            self._limit.leave_line(key)
        if stored is None:
            self._limit.settle(key)
            if not owned:
                self._departure.forget(key)
                return Result()
            # The cache lags, and the event is yet to come: objects are deleted only after the
            # cache has seen this one.
            if await self._exists(key):
                return Result()
            return await self._clear(key, owned)
        if stored.meta.deleting:
            return await self._leave(key, stored, owned)
        self._departure.forget(key)
        if self._record(key).clearing:
            # A namespace that is cleared away is not made again.
            return Result()
        await self._arrange(stored, self._state(stored, owned))
        return Result()

    async def _arrange(self, stored: Object, state: NamespaceState) -> None:
        plan = reconcile(state, self._options, now=now())
        # Nothing is awaited between the look for room and this: two workers would both see it.
        taken = plan.create is not None and self._limit.take(state.key)
        if plan.create is None:
            self._limit.settle(state.key)
        if plan.waits:
            self._limit.wait(state.key)
        try:
            await self._write(stored, state, plan)
        except BaseException:
            # One that was made before, and is not in the cache yet, keeps its place.
            if taken:
                self._limit.settle(state.key)
            raise

    async def _write(self, stored: Object, state: NamespaceState, plan: NamespacePlan) -> None:
        # The finalizer comes before the namespace: an object without it could be deleted and leave
        # its namespace behind.
        if plan.finalize:
            stored = await add_finalizer(
                self._client, APISERVICENAMESPACES, stored, FINALIZER_NAMESPACE
            )
            # The status has to be based on the version that has the finalizer.
            plan = reconcile(state._replace(service_namespace=stored), self._options, now=now())
        await self._statuses.write(stored, plan.status)
        if plan.create is not None:
            try:
                await self._client.create(NAMESPACES, plan.create)
            except AlreadyExists:
                # Its event, once it arrives, shows the owner of the namespace.
                return

    async def _leave(self, key: Key, stored: Object, owned: list[Object]) -> Result:
        """Release a deleted APIServiceNamespace once its provider namespace is gone."""
        # Without our finalizer it goes at once; its namespaces are deleted when it is gone.
        if FINALIZER_NAMESPACE not in stored.meta.finalizers:
            return Result()
        target = target_name(self._bare(stored, owned), self._options.isolation)
        # A namespace that was made a moment ago is not in the cache yet; the server is asked for
        # it by the name that it must have.
        names = {target, *(namespace.meta.name for namespace in owned)}
        assigned = stored.decode(APIServiceNamespace).status.namespace
        # A namespace that another export goes on with has to be empty, too: without an
        # APIServiceNamespace the konnector lets originals go.
        keep = await self._heir(key, stored) is not None
        plan = await self._departure.proceed(key, names, assigned, keep=keep)
        # Only now, with no provider namespace left, may the APIServiceNamespace itself go.
        if plan.done:
            await remove_finalizer(self._client, APISERVICENAMESPACES, stored, FINALIZER_NAMESPACE)
        else:
            body = leaving_status(stored, plan, now=now())
            await self._statuses.write(stored, body)
        return Result(backoff=delays.NAMESPACE_EMPTY) if plan.staying or plan.closing else Result()

    async def _clear(self, key: Key, owned: list[Object]) -> Result:
        """Delete the provider namespaces that a removed APIServiceNamespace left behind.

        A consumer that has another export gets them again. Its konnector knows whether there still
        is a namespace of its own for them, and deletes the APIServiceNamespace if there is none.
        """
        export = await self._heir(key, None)
        names = (item.meta.name for item in owned)
        plan = await self._departure.proceed(key, names, keep=export is not None)
        if export is not None and (plan.retained or plan.staying or plan.closing):
            with suppress(AlreadyExists):
                body = new_service_namespace(key, export)
                await self._client.create(APISERVICENAMESPACES, body, key.namespace)
            return Result()
        for namespace, condition in self._departure.news(key, plan):
            self._recorder.event(namespace, "Warning", condition.reason, condition.message)
        return Result(backoff=delays.NAMESPACE_EMPTY) if plan.staying or plan.closing else Result()

    async def _heir(self, key: Key, stored: Object | None) -> Object | None:
        """Return another export of the consumer that takes over the namespaces, else None."""
        if self._record(key).revoked:
            return None
        return heir(stored, (await self._client.list(APISERVICEEXPORTS, key.namespace)).items)

    def _record(self, key: Key) -> InvitationRecord:
        """Return the invitation record of an APIServiceNamespace's consumer."""
        return record_of(self._watches.cluster_bindings.get(key.namespace, CLUSTER_BINDING_NAME))

    async def _exists(self, key: Key) -> bool:
        """Whether the server, regardless of the cache, has the APIServiceNamespace.

        Raises:
            NotFound: the kind itself is not served, which says nothing about the object.
        """
        return await find(self._client, APISERVICENAMESPACES, key.name, key.namespace) is not None

    def _state(self, stored: Object, owned: list[Object]) -> NamespaceState:
        bare = self._bare(stored, owned)
        target = target_name(bare, self._options.isolation)
        # Each export and schema is decoded for it: not for a namespace that is announced already,
        # nor for one of the many that may wait until there is room.
        announced = stored.decode(APIServiceNamespace).status.namespace
        there = bare.find(target) is not None
        return bare._replace(
            ungranted=self._ungranted(stored.key, target) if there and not announced else (),
            full=self._limit.full(stored.key),
        )

    def _bare(self, stored: Object, owned: list[Object]) -> NamespaceState:
        def find(name: str) -> Object | None:
            return self._watches.namespaces.get("", name)

        return NamespaceState(stored.key, stored, owned, find, ())

    def _ungranted(self, key: Key, namespace: str) -> list[str]:
        """Return the consumer's exports that lack their rights in its new namespace."""
        watches = self._watches
        schemas = {item.meta.name: item for item in watches.schemas.list(key.namespace)}
        missing: list[str] = []
        for export in watches.exports.list(key.namespace):
            if export.meta.deleting:
                continue
            rules = rights(
                Grounds(
                    export=export,
                    schemas=schemas,
                    namespaces=frozenset({namespace}),
                    crds=watches.crds_by_name(),
                    original_konnectors=self._options.original_konnectors,
                )
            )
            if not all(map(self._bound, rules)):
                missing.append(export.meta.name)
        return missing

    def _bound(self, identity: Id) -> bool:
        """Whether a role's binding exists; True for a role, which is created before it."""
        bindings = {
            ROLEBINDINGS: self._watches.role_bindings,
            CLUSTERROLEBINDINGS: self._watches.cluster_role_bindings,
        }
        informer = bindings.get(identity.resource)
        return informer is None or informer.get(*identity.key) is not None

    def _targets(self, stored: Object) -> list[str]:
        return [target_name(self._bare(stored, []), self._options.isolation)]

    def _from_namespace(self, delta: Delta) -> Iterator[Request]:
        for state in states(delta):
            if (owner := owner_of(state)) is not None:
                if state is delta.new:
                    self._limit.settle(owner)
                yield Request(self._cluster, *owner)
                yield from self._next(owner.namespace)
        name = delta.object.meta.name
        # A namespace that is in the way has no APIServiceNamespace here; those that need its name
        # await its end.
        waiting = self._watches.service_namespaces.by_index(_BY_TARGET, name)
        yield from requests_for(self._cluster, waiting)

    def _next(self, consumer: str) -> list[Request]:
        return [Request(self._cluster, *key) for key in self._limit.next(consumer)]

    def _from_binding(self, delta: Delta) -> Iterator[Request]:
        namespace = self._watches.namespaces.get("", delta.object.meta.namespace)
        owner = owner_of(namespace) if namespace is not None else None
        if owner is not None:
            yield Request(self._cluster, owner.namespace, owner.name)

    def _from_cluster_binding(self, delta: Delta) -> Iterator[Request]:
        key = export_of(delta.object)
        if key is not None:
            waiting = self._watches.service_namespaces.list(key.namespace)
            yield from requests_for(self._cluster, waiting)

    def _from_neighbour(self, delta: Delta) -> Iterator[Request]:
        waiting = self._watches.service_namespaces.list(delta.object.meta.namespace)
        yield from requests_for(self._cluster, waiting)
