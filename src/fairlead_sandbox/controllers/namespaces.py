"""Namespaces: objects need an existing and active one, and are deleted with it."""

from __future__ import annotations

from collections import Counter

from fairlead.api import resource as names
from fairlead.api.meta import JSON, Key
from fairlead_sandbox import errors
from fairlead_sandbox.controllers import conditions
from fairlead_sandbox.controllers.reactor import MANY, Reactor
from fairlead_sandbox.errors import QualifiedResource, StatusError
from fairlead_sandbox.objects import deletes, writes
from fairlead_sandbox.objects.core import Admission, Core, Operation
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Change, Record


_COLLECTION = names.NAMESPACES.group_resource
# Without kube-node-lease: NamespaceLifecycle in k8s.io/apiserver lets it be deleted.
_IMMORTAL = {"default", "kube-system", "kube-public"}
_ACCOUNTS = names.SERVICEACCOUNTS.group_resource


def check_namespace(core: Core) -> Admission:
    """Return the admission check that kube-apiserver calls NamespaceLifecycle."""
    namespaces = core.store.collection(_COLLECTION)

    def check(operation: Operation) -> None:
        resource = operation.type.group_resource
        if operation.verb == "delete":
            if operation.type.collection == _COLLECTION and operation.key.name in _IMMORTAL:
                text = "this namespace may not be deleted"
                raise errors.forbidden(resource, operation.key.name, text)
            return
        if operation.verb != "create" or not operation.type.resource.namespaced:
            return
        namespace = operation.key.namespace
        record = namespaces.get(Key("", namespace))
        if record is None:
            raise errors.not_found(QualifiedResource("", "namespaces"), namespace)
        if record.meta.deletion_timestamp:
            raise _terminating(resource, operation.key)

    return check


def _terminating(resource: QualifiedResource, key: Key) -> StatusError:
    text = (
        f"unable to create new content in namespace {key.namespace} because it is being terminated"
    )
    error = errors.forbidden(resource, key.name, text)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {key.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


class NamespaceContentController:
    """Creates the ServiceAccount of each namespace; empties deleted namespaces."""

    def __init__(self, core: Core, reactor: Reactor) -> None:
        self._core = core
        self._reactor = reactor

    def __call__(self, change: Change) -> None:
        """Reconcile a changed namespace, or the namespace of a deleted object."""
        key = change.record.key
        if change.collection == _COLLECTION:
            if change.type != "DELETED":
                self._reconcile(key)
        elif change.type == "DELETED" and key.namespace:
            # Put off and so merged: a thousand deleted objects lead to one look at the namespace.
            self._reactor.later(Key("", key.namespace), self._reconcile)

    def _reconcile(self, key: Key) -> None:
        record = self._core.store.collection(_COLLECTION).get(key)
        if record is None:
            return
        if record.meta.deletion_timestamp:
            self._empty(record)
        else:
            self._add_account(key.name)

    def _add_account(self, namespace: str) -> None:
        type_ = self._core.registry.by_collection(_ACCOUNTS)
        if type_ is not None and self._core.get(type_, Key(namespace, "default")) is None:
            writes.create(self._core, type_, namespace, {"metadata": {"name": "default"}})

    def _empty(self, record: Record) -> None:
        name = record.key.name
        left: list[tuple[ResourceType, Record]] = []
        deleted = 0
        for collection in self._core.store.collections():
            type_ = self._core.registry.by_collection(collection.name)
            if type_ is None or not collection.count(name):
                continue
            for entry in list(collection.list(name)):
                if deleted == MANY:
                    self._reactor.later(record.key, self._reconcile)
                    return
                if not entry.meta.deletion_timestamp:
                    deletes.delete(self._core, type_, entry)
                    deleted += 1
            left += [(type_, rest) for rest in collection.list(name)]
        self._finish(record, left)

    def _finish(self, record: Record, left: list[tuple[ResourceType, Record]]) -> None:
        type_ = self._core.registry.by_collection(_COLLECTION)
        if type_ is None:
            return
        body = record.to_dict()
        if left:
            body["status"] = {**body["status"], "conditions": _conditions(left, body)}
        else:
            finalizers = body["spec"].get("finalizers") or []
            # Without this finalizer of the spec the namespace is removed, unless others are left.
            body["spec"] = {"finalizers": [one for one in finalizers if one != "kubernetes"]}
        if body != record.to_dict():
            writes.finish(self._core, type_, record.key, body)


def _conditions(left: list[tuple[ResourceType, Record]], body: JSON) -> list[JSON]:
    """Return the conditions that tell the remaining objects and the finalizers that hold them."""
    resources = Counter(str(type_.group_resource) for type_, _ in left)
    finalizers = Counter(name for _, record in left for name in record.meta.finalizers or [])
    content = ", ".join(
        f"{name} has {count} resource instances" for name, count in _sorted(resources)
    )
    holding = ", ".join(
        f"{name} in {count} resource instances" for name, count in _sorted(finalizers)
    )
    facts = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            f"Some resources are remaining: {content}",
        ),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {holding}",
        ),
    ]
    status = {"conditions": body["status"].get("conditions") or []}
    for type_, value, reason, message in facts:
        conditions.set_condition(status, type_, value, reason, message)
    return status["conditions"]


def _sorted(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items())
