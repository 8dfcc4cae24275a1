"""Watches exports and provider namespaces, and keeps the consumers' rights up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import APISERVICEEXPORTS, CLUSTER_BINDING_NAME
from fairlead.api.kubebind.conditions import (
    PERMISSIONS_GRANTED,
    KubeBindCondition,
    false,
    get_condition,
    status_events,
    stored_conditions,
    true,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, Forbidden, Invalid, NotFound
from fairlead.client.lookups import find
from fairlead.provider import bounds
from fairlead.provider.changes import with_status
from fairlead.provider.controllers.rbac.reconcile import RightsPlan, RightsState, reconcile
from fairlead.provider.namespaces import kept_by, owner_of, usable
from fairlead.provider.offer import record_of
from fairlead.provider.options import ProviderOptions
from fairlead.provider.rights import (
    Grounds,
    Id,
    cluster_names,
    export_of,
    exports_of_role,
    names_in_namespaces,
)
from fairlead.provider.watches import (
    BY_CONSUMER,
    BY_CRD,
    BY_EXPORT,
    BY_OWNER,
    BY_SCHEMA,
    ProviderWatches,
    consumer_of,
    in_turns,
    states,
)
from fairlead.runtime import (
    Cluster,
    Delta,
    Informer,
    Request,
    Result,
    StatusWriter,
    any_of,
    came_or_went,
    changed,
    commit,
    delays,
    metadata_changed,
    spec_changed,
)


class Lot(NamedTuple):
    """Namespaces of one turn: obsolete rights go in all, missing ones are given in ``grant``."""

    all: frozenset[str]
    grant: frozenset[str]


class DueComparisons:
    """Comparisons of an export's rights that events have asked for, by namespace.

    The namespace "" stands for the rights in the whole cluster. ``everywhere`` says that all
    namespaces are to be compared, which are not listed yet; ``refused`` are the objects that the
    server refused to write since the last condition was told.
    """

    def __init__(self, *, everywhere: bool = False) -> None:
        self.everywhere = everywhere
        self.refused: dict[Key, Forbidden | Invalid] = {}
        # Obsolete rights go in every namespace before any is given, so that no failed write delays
        # their end.
        self._unpruned: dict[str, None] = {}
        self._ungranted: dict[str, None] = {}

    def __bool__(self) -> bool:
        return self.everywhere or bool(self._unpruned or self._ungranted)

    def add(self, namespace: str) -> None:
        """Queue one namespace for comparison."""
        if not self.everywhere:
            self._ungranted.pop(namespace, None)
            self._unpruned[namespace] = None

    def add_all(self) -> None:
        """Queue all namespaces for comparison."""
        self.everywhere = True
        self._unpruned.clear()
        self._ungranted.clear()

    def begin(self, namespaces: Iterable[str]) -> None:
        """Replace ``everywhere`` by the names of all namespaces."""
        self.everywhere = False
        self._unpruned = dict.fromkeys(namespaces)

    def take(self) -> Lot:
        """Remove the namespaces of the next turn from the queue and return them."""
        pruned = _take(self._unpruned)
        if self._unpruned:
            return Lot(frozenset(pruned), frozenset())
        grant = frozenset([*_take(self._ungranted), *pruned])
        return Lot(grant, grant)

    def put_back(self, lot: Lot) -> None:
        """Queue the namespaces of an unfinished turn again."""
        for namespace in lot.all:
            self.add(namespace)

    def finish(self, lot: Lot) -> None:
        """Mark the obsolete rights of a turn as removed; a later turn grants the missing ones."""
        # What an event has named meanwhile waits among the others.
        waiting = lot.all - lot.grant - self._unpruned.keys()
        if not self.everywhere:
            self._ungranted.update(dict.fromkeys(waiting))

    def retry_refused(self) -> None:
        """Queue the namespaces of refused objects again."""
        for key in self.refused:
            self.add(key.namespace)
        self.refused = {}


def _take(names: dict[str, None]) -> list[str]:
    taken = list(islice(names, bounds.LOT))
    for name in taken:
        del names[name]
    return taken


NAME = "serviceexport-rbac"


class _Left(Enum):
    """Writes that remain after a turn."""

    NOTHING = auto()
    SOME = auto()
    UNSEEN = auto()
    """Some, and the caches do not show all writes of earlier turns."""


class RbacController:
    """Gives every consumer the rights of its exports, and takes them away again."""

    def __init__(
        self, cluster: Cluster, watches: ProviderWatches, options: ProviderOptions
    ) -> None:
        self._cluster = cluster.name
        self._options = options
        self._client = cluster.client
        self._statuses = StatusWriter(
            cluster.client, APISERVICEEXPORTS, cluster.events(NAME), status_events
        )
        self._watches = watches
        self._caches: dict[Resource, Informer] = {
            ROLES: watches.roles,
            ROLEBINDINGS: watches.role_bindings,
            CLUSTERROLES: watches.cluster_roles,
            CLUSTERROLEBINDINGS: watches.cluster_role_bindings,
        }
        # Each event notes here what it asks for before its request is queued. An export without an
        # entry is compared everywhere.
        self._due: dict[Key, DueComparisons] = {}
        self.controller = in_turns(NAME, self.reconcile)
        self._watch()

    def _watch(self) -> None:
        watches, controller = self._watches, self.controller
        # A consumer writes labels and statuses as often as it likes, and has as many namespaces.
        # In an export's status our own condition alone matters, which is restored after another
        # writer's change.
        controller.watch(
            watches.exports,
            self._from_export,
            predicate=any_of(spec_changed, changed(_granted_condition)),
        )
        controller.watch(watches.schemas, self._from_schema, predicate=spec_changed)
        controller.watch(
            watches.service_namespaces,
            self._from_service_namespace,
            predicate=any_of(came_or_went, changed(_keeper)),
        )
        of_use = metadata_changed("uid", "annotations", "deletion_timestamp")
        controller.watch(watches.namespaces, self._from_namespace, predicate=of_use)
        # A revocation is recorded in the spec; heartbeats change the status alone.
        controller.watch(
            watches.cluster_bindings, self._from_cluster_binding, predicate=spec_changed
        )
        # The rights need only the scope of a CRD, which is immutable. A CRD that gets or loses the
        # label appears or disappears in this watch.
        controller.watch(watches.crds, self._from_crd, predicate=came_or_went)
        for bindings in (watches.role_bindings, watches.cluster_role_bindings):
            controller.watch(bindings, self._from_binding)
        controller.watch(watches.roles, self._from_role)
        controller.watch(watches.cluster_roles, self._from_role)

    async def reconcile(self, request: Request) -> Result:
        """Bring the rights of one export up to date, or closer to it."""
        key = Key(request.namespace, request.name)
        owner = self._owner(key.namespace)
        if owner != key.namespace and self._owner(owner) == owner:
            # The role was listed before its namespace, so that its consumer was not known yet.
            self._due.pop(key, None)
            self.controller.enqueue(self._due_in(Key(owner, key.name), key.namespace))
            return Result()
        export = self._watches.exports.get(*key)
        if export is not None and export.meta.deleting:
            export = None
        revoked = self._revoked(key)
        due = self._due.setdefault(key, DueComparisons(everywhere=True))
        if due.everywhere:
            due.begin(self._places(key))
        lot = due.take()
        try:
            left = await self._turn(key, None if revoked else export, due, lot)
        except BaseException:
            due.put_back(lot)
            raise
        if left is not None:
            return left
        if due:
            # It comes again once the others have had their turns.
            self.controller.enqueue(request)
            return Result()
        refusal = next(iter(due.refused.values()), None)
        if export is not None:
            condition = _REVOKED if revoked else _condition(refusal)
            body = with_status(export, [condition], now=now(), summary=False)
            await self._statuses.write(export, body)
        if refusal is not None:
            # No event tells that the provider's own rights grow: look again after a while.
            due.retry_refused()
            raise refusal
        if not due:
            del self._due[key]
        return Result()

    async def _turn(
        self, key: Key, export: Object | None, due: DueComparisons, lot: Lot
    ) -> Result | None:
        """Bring an export's rights in some namespaces up to date; None unless it has to wait."""
        state = self._state(key, export, lot.all)
        if export is None and state.existing and not await self._gone(key):
            # A cache that was emptied is filled again; the consumer keeps its rights meanwhile.
            due.put_back(lot)
            return Result()
        left = await self._carry_out(reconcile(state), state, due, lot.grant)
        if left is _Left.NOTHING:
            due.finish(lot)
            return None
        due.put_back(lot)
        return Result(backoff=delays.LAGGING_CACHE) if left is _Left.UNSEEN else None

    def _revoked(self, key: Key) -> bool:
        """Whether the consumer's revocation has begun, so that its rights must not come back."""
        binding = self._watches.cluster_bindings.get(key.namespace, CLUSTER_BINDING_NAME)
        if binding is None:
            # The record goes with the cluster namespace, perhaps before the exports do.
            namespace = self._watches.namespaces.get("", key.namespace)
            return namespace is not None and namespace.meta.deleting
        return record_of(binding).revoked

    async def _gone(self, key: Key) -> bool:
        """Whether the server itself says that an export is gone or being deleted.

        Raises:
            ClientError: the server refused or cannot be reached.
        """
        export = await find(self._client, APISERVICEEXPORTS, key.name, key.namespace)
        return export is None or export.meta.deleting

    def _places(self, key: Key) -> list[str]:
        """Return all namespaces where an export has, may have or needs rights, and ""."""
        made_for = self._caches[ROLEBINDINGS].by_index(BY_EXPORT, str(key))
        used = self._watches.namespaces.by_index(BY_CONSUMER, key.namespace)
        names = [namespace.meta.name for namespace in used]
        return ["", key.namespace, *names, *(binding.meta.namespace for binding in made_for)]

    def _state(self, key: Key, export: Object | None, places: frozenset[str]) -> RightsState:
        watches = self._watches
        existing = self._existing(key, places)
        if export is None:
            return RightsState(None, existing, places)
        grounds = Grounds(
            export=export,
            schemas={item.meta.name: item for item in watches.schemas.list(key.namespace)},
            namespaces=frozenset(name for name in places if self._in_use(key.namespace, name)),
            crds=watches.crds_by_name(),
            original_konnectors=self._options.original_konnectors,
        )
        return RightsState(grounds, existing, places)

    def _in_use(self, consumer: str, name: str) -> bool:
        """Whether a namespace is a consumer's, and its APIServiceNamespace exists.

        One in deletion counts while it assigns its namespace: the konnector has to reach the
        objects in it.
        """
        namespace = self._watches.namespaces.get("", name)
        owner = owner_of(namespace) if namespace is not None else None
        if namespace is None or owner is None or owner.namespace != consumer:
            return False
        if namespace.meta.deleting or not usable(namespace, self._options):
            return False
        stored = self._watches.service_namespaces.get(*owner)
        return stored is not None and kept_by(stored) in {None, namespace.meta.name}

    def _existing(self, key: Key, places: Iterable[str]) -> dict[Id, Object]:
        """Return the objects that were made for an export, also those that it needs no more."""
        objects: dict[Id, Object] = {}
        for place in places:
            names = names_in_namespaces(key.name) if place else cluster_names(key)
            bindings = ROLEBINDINGS if place else CLUSTERROLEBINDINGS
            roles = ROLES if place else CLUSTERROLES
            # A role whose binding was never written or was deleted is known by its name alone. In
            # a namespace that another consumer has now, the name is the other's.
            is_ours = not place or self._owner(place) == key.namespace
            for name in names:
                binding = self._caches[bindings].get(place, name)
                bound = binding is not None and export_of(binding) == key
                if binding is not None and bound:
                    objects[Id(bindings, binding.key)] = binding
                role = self._caches[roles].get(place, name)
                if role is not None and (is_ours or bound):
                    objects[Id(roles, role.key)] = role
        return objects

    async def _carry_out(
        self, plan: RightsPlan, state: RightsState, due: DueComparisons, grant: frozenset[str]
    ) -> _Left:
        """Write as much as fits one turn, and note the refused objects."""
        # Deletions of obsolete rights come first, so that a failed write does not delay them.
        unseen = False
        for identity in plan.delete[: bounds.WRITES]:
            unseen = not await self._delete(identity, state.existing[identity]) or unseen
        if len(plan.delete) > bounds.WRITES:
            return _Left.UNSEEN if unseen else _Left.SOME
        writes = bounds.WRITES - len(plan.delete)
        refused = due.refused
        for number, (resource, body) in enumerate(plan.apply):
            if number % 25 == 0:
                await asyncio.sleep(0)
            metadata = body["metadata"]
            identity = Id(resource, Key(metadata.get("namespace", ""), metadata["name"]))
            if identity.key.namespace not in grant:
                continue
            if identity.key in refused:
                # A binding to a refused role would bind nothing, and an object that was refused in
                # an earlier turn waits until all others have had one.
                continue
            if writes <= 0:
                return _Left.UNSEEN if unseen else _Left.SOME
            stored = state.existing.get(identity)
            try:
                if stored is None:
                    written = True
                    unseen = not await self._create(identity, body) or unseen
                else:
                    written = await self._update(identity, body, stored)
            except (Forbidden, Invalid) as error:
                refused[identity.key] = error
                written = True
            writes -= written
        return _Left.NOTHING

    async def _create(self, identity: Id, body: JSON) -> bool:
        """Create an object that the cache lacks; return whether the server lacked it too."""
        resource, key = identity
        try:
            await self._client.create(resource, body)
        except AlreadyExists:
            # The watch knows only what has our label, and may lag: an object that has lost the
            # label gets it again.
            stored = await self._client.get(resource, key.name, key.namespace)
            await self._update(identity, body, stored)
            return False
        return True

    async def _update(self, identity: Id, body: JSON, stored: Object) -> bool:
        """Update an object to the wanted body; return whether that took a write."""
        resource = identity.resource
        live = stored.to_dict()
        if "roleRef" in body and live.get("roleRef") != body["roleRef"]:
            # A binding cannot be pointed to another role.
            await self._delete(identity, stored)
            await self._client.create(resource, body)
            return True
        # Labels and annotations that others put there stay.
        labels = live["metadata"].get("labels", {}) | body["metadata"]["labels"]
        content = {name: body[name] for name in ("rules", "subjects") if name in body}
        metadata = live["metadata"] | {"labels": labels}
        merged = live | content | {"metadata": metadata}
        return await commit(self._client, resource, stored, merged) is not stored

    async def _delete(self, identity: Id, stored: Object) -> bool:
        """Delete an object that the cache has; return whether the server had it too."""
        key = identity.key
        try:
            await self._client.delete(
                identity.resource, key.name, key.namespace, uid=stored.meta.uid
            )
        except NotFound:
            return False
        return True

    def _from_export(self, delta: Delta) -> Iterator[Request]:
        yield self._due_everywhere(delta.object.key)

    def _from_schema(self, delta: Delta) -> Iterator[Request]:
        for export in self._watches.exports.by_index(BY_SCHEMA, str(delta.object.key)):
            yield self._due_everywhere(export.key)

    def _from_crd(self, delta: Delta) -> Iterator[Request]:
        for export in self._watches.exports.by_index(BY_CRD, delta.object.meta.name):
            yield self._due_everywhere(export.key)

    def _from_cluster_binding(self, delta: Delta) -> Iterator[Request]:
        for export in self._watches.exports.list(delta.object.meta.namespace):
            yield self._due_everywhere(export.key)

    def _from_service_namespace(self, delta: Delta) -> Iterator[Request]:
        key = delta.object.key
        for namespace in self._watches.namespaces.by_index(BY_OWNER, str(key)):
            for export in self._watches.exports.list(key.namespace):
                yield self._due_in(export.key, namespace.meta.name)

    def _from_namespace(self, delta: Delta) -> Iterator[Request]:
        name = delta.object.meta.name
        for state in states(delta):
            for consumer in consumer_of(state):
                for export in self._watches.exports.list(consumer):
                    yield self._due_in(export.key, name)
        # A cluster namespace that goes takes all rights of its consumer with it.
        for export in self._watches.exports.list(name):
            yield self._due_everywhere(export.key)

    def _from_binding(self, delta: Delta) -> Iterator[Request]:
        for state in states(delta):
            if (key := export_of(state)) is not None:
                yield self._due_in(key, state.meta.namespace)

    def _from_role(self, delta: Delta) -> Iterator[Request]:
        role = delta.object
        for key in exports_of_role(role, self._owner(role.meta.namespace)):
            yield self._due_in(key, role.meta.namespace)

    def _due_in(self, key: Key, namespace: str) -> Request:
        """Have an export's rights in one namespace compared; return the request to queue."""
        self._due.setdefault(key, DueComparisons()).add(namespace)
        return Request(self._cluster, *key)

    def _due_everywhere(self, key: Key) -> Request:
        """Have an export's rights in all namespaces compared; return the request to queue."""
        self._due.setdefault(key, DueComparisons()).add_all()
        return Request(self._cluster, *key)

    def _owner(self, namespace: str) -> str:
        """Return the cluster namespace of a namespace's consumer, which may be the same."""
        obj = self._watches.namespaces.get("", namespace)
        owner = owner_of(obj) if obj is not None else None
        return owner.namespace if owner is not None else namespace


def _keeper(service_namespace: Object | None) -> str | None:
    return None if service_namespace is None else kept_by(service_namespace)


def _granted_condition(export: Object | None) -> KubeBindCondition | None:
    """Return an export's condition about its rights."""
    try:
        conditions = stored_conditions(export) if export is not None else []
    except msgspec.ValidationError:
        return None
    return get_condition(conditions, PERMISSIONS_GRANTED)


_REVOKED = false(
    PERMISSIONS_GRANTED,
    "Revoked",
    "the provider is revoking this consumer's access",
)


def _condition(refusal: Forbidden | Invalid | None) -> KubeBindCondition:
    if refusal is None:
        return true(PERMISSIONS_GRANTED)
    return false(
        PERMISSIONS_GRANTED,
        "Forbidden" if isinstance(refusal, Forbidden) else "Invalid",
        "the provider cannot grant the rights that this export needs; apply the output of "
        "`fairlead manifests provider --export RESOURCE.GROUP --claim RESOURCE` for all "
        f"exported and claimed resources. The API server says: {refusal}",
    )
