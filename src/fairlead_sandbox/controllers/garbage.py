"""Garbage collection by owner references: background, foreground and orphan.

Follows Kubernetes' collector: an object is deleted when none of its owners exists, an owner that
is deleted in the foreground waits for the dependents that block it, and orphaning removes the
owner references of the dependents.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import Literal, NamedTuple

from fairlead.api.meta import Key
from fairlead_sandbox.controllers.reactor import MANY, Reactor
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects import deletes, writes
from fairlead_sandbox.objects.core import Core
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Change, Owner, Record


FOREGROUND = "foregroundDeletion"
"""Finalizer of an owner that waits for its dependents."""
ORPHAN = "orphan"
"""Finalizer of an owner whose dependents lose their references first."""
# Kubernetes' collector leaves Events alone as well (its DefaultIgnoredResources).
_IGNORED = {"events"}

OwnerState = Literal["solid", "waiting", "absent", "unknown"]
"""State of an owner: it exists, waits for its dependents, is gone, or cannot be looked up."""


class StoredPlace(NamedTuple):
    """Collection and key of a stored object."""

    collection: str
    key: Key


class GarbageCollector:
    """Indexes owners and dependents by uid, and acts when an owner is deleted."""

    def __init__(self, core: Core, reactor: Reactor) -> None:
        self._core = core
        self._reactor = reactor
        self._places: dict[str, StoredPlace] = {}
        self._dependents: dict[str, set[StoredPlace]] = defaultdict(set)
        for collection in core.store.collections():
            for record in collection.list():
                self._learn(StoredPlace(collection.name, record.key), record)

    def __call__(self, change: Change) -> None:
        """Update the index by one change, and check the objects that it affects."""
        if change.collection in _IGNORED:
            return
        place = StoredPlace(change.collection, change.record.key)
        if change.old is not None:
            self._forget(place, change.old)
        if change.type == "DELETED":
            self._on_gone(change.record)
            return
        self._learn(place, change.record)
        owners = _owners(change.record)
        # An owner may have gone before this object named it; its deletion was no event for this
        # object.
        if owners and (change.old is None or _owners(change.old) != owners):
            self._check(place)
        if change.record.meta.deletion_timestamp:
            self._on_deleting(place)

    def _learn(self, place: StoredPlace, record: Record) -> None:
        self._places[record.meta.uid] = place
        for owner in _owners(record):
            self._dependents[owner.uid].add(place)

    def _forget(self, place: StoredPlace, record: Record) -> None:
        self._places.pop(record.meta.uid, None)
        for owner in _owners(record):
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.discard(place)
                if not dependents:
                    del self._dependents[owner.uid]

    def _on_gone(self, record: Record) -> None:
        # Sorted: a set of texts has another order in each process, and a simulation must repeat
        # its order.
        for dependent in sorted(self._dependents.get(record.meta.uid, ())):
            self._reactor.later(dependent, self._check)
        for owner in _owners(record):
            place = self._places.get(owner.uid)
            if place is not None:
                self._reactor.later(place, self._on_deleting)

    def _on_deleting(self, place: StoredPlace) -> None:
        record, type_ = self._find(place)
        if record is None or type_ is None or not record.meta.deletion_timestamp:
            return
        finalizers = record.meta.finalizers or []
        dependents = sorted(self._dependents.get(record.meta.uid, ()))
        if ORPHAN in finalizers:
            # The index follows published changes. With a slow disk it still lists dependents whose
            # references are removed already, so each is read again.
            owned = (one for one in dependents if self._is_owned(one, record.meta.uid))
            some = list(islice(owned, MANY + 1))
            for dependent in some[:MANY]:
                self._disown(dependent, {record.meta.uid})
            if len(some) > MANY:
                self._reactor.later(place, self._on_deleting)
            else:
                self._remove_finalizer(record, type_, ORPHAN)
        elif FOREGROUND in finalizers:
            for dependent in dependents:
                self._reactor.later(dependent, self._check)
            # Only dependents with blockOwnerDeletion hold the owner; the others are deleted too,
            # but not awaited (tests/contract/test_deletion.py).
            if not any(self._blocks(one, record.meta.uid) for one in dependents):
                self._remove_finalizer(record, type_, FOREGROUND)

    def _is_owned(self, dependent: StoredPlace, uid: str) -> bool:
        record, _ = self._find(dependent)
        return record is not None and any(owner.uid == uid for owner in _owners(record))

    def _blocks(self, dependent: StoredPlace, uid: str) -> bool:
        record, _ = self._find(dependent)
        return record is not None and any(
            owner.uid == uid and owner.block_owner_deletion for owner in _owners(record)
        )

    def _check(self, place: StoredPlace) -> None:
        """Delete an object without a remaining owner; else drop its references to deleted ones."""
        record, type_ = self._find(place)
        if record is None or type_ is None:
            return
        # It is being deleted already. One that waits in the foreground still learns of owners that
        # are gone.
        if record.meta.deletion_timestamp and FOREGROUND not in (record.meta.finalizers or []):
            return
        states = {owner.uid: self._state(owner, record) for owner in _owners(record)}
        distinct = set(states.values())
        # An owner that cannot be looked up may exist, so nothing is deleted.
        if not states or "unknown" in distinct:
            return
        if "solid" in distinct:
            gone = {uid for uid, state in states.items() if state != "solid"}
            if gone:
                self._disown(place, gone)
            return
        if not record.meta.deletion_timestamp:
            self._delete(record, type_, foreground="waiting" in distinct)

    def _delete(self, record: Record, type_: ResourceType, *, foreground: bool) -> None:
        finalizers = record.meta.finalizers or []
        policy = "Background"
        # The object's own finalizers say what happens to its dependents; the policy Background
        # would remove them.
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers or (foreground and self._dependents.get(record.meta.uid)):
            policy = "Foreground"
        options = deletes.DeleteOptions(uid=record.meta.uid, propagation=policy)
        try:
            deletes.delete(self._core, type_, record, options)
        except StatusError:
            # Some objects may not be deleted, such as the namespace default; they stay.
            return

    def _state(self, owner: Owner, dependent: Record) -> OwnerState:
        place = self._places.get(owner.uid)
        # An owner is cluster-scoped or in the dependent's own namespace; an object elsewhere with
        # that uid does not count.
        if place is not None and place.key.namespace in {"", dependent.key.namespace}:
            record, _ = self._find(place)
            if record is None or record.meta.uid != owner.uid:
                return "absent"
            deleting = record.meta.deletion_timestamp
            if deleting and FOREGROUND in (record.meta.finalizers or []):
                return "waiting"
            return "solid"
        type_ = self._core.registry.by_kind(owner.api_version, owner.kind)
        # The kind is not served, or is namespaced while the dependent has no namespace: no lookup
        # can prove that the owner is gone.
        if type_ is None or (type_.resource.namespaced and not dependent.key.namespace):
            return "unknown"
        return "absent"

    def _disown(self, place: StoredPlace, uids: set[str]) -> None:
        record, type_ = self._find(place)
        if record is None or type_ is None:
            return
        body = type_.to_dict(record)
        owners = body["metadata"].pop("ownerReferences", [])
        remaining = [owner for owner in owners if owner["uid"] not in uids]
        if remaining:
            body["metadata"]["ownerReferences"] = remaining
        writes.finish(self._core, type_, record.key, body)

    def _remove_finalizer(self, record: Record, type_: ResourceType, name: str) -> None:
        body = type_.to_dict(record)
        finalizers = [one for one in body["metadata"].pop("finalizers") if one != name]
        if finalizers:
            body["metadata"]["finalizers"] = finalizers
        writes.finish(self._core, type_, record.key, body)

    def _find(self, place: StoredPlace) -> tuple[Record | None, ResourceType | None]:
        record = self._core.store.collection(place.collection).get(place.key)
        return record, self._core.registry.by_collection(place.collection)


def _owners(record: Record) -> list[Owner]:
    return record.meta.owner_references or []
