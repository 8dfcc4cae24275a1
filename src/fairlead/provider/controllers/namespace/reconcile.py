"""Decisions about an APIServiceNamespace, from its creation to its assignment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_SERVICE_NAMESPACE,
    API_VERSION,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    FINALIZER_NAMESPACE,
    APIServiceNamespace,
    Isolation,
    service_namespace,
    service_namespace_ref,
)
from fairlead.api.kubebind.conditions import (
    NAMESPACE_LIMIT_REACHED,
    NAMESPACE_READY,
    KubeBindCondition,
    false,
    true,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.provider.changes import with_status
from fairlead.provider.controllers.namespace import leaving
from fairlead.provider.namespaces import belongs, reservation
from fairlead.provider.options import ProviderOptions


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class NamespaceState(NamedTuple):
    """Facts for a decision.

    ``owned`` are the namespaces whose annotation names this APIServiceNamespace, ``find`` looks
    any namespace up by its name, and ``ungranted`` names the exports that lack their rights in the
    namespace. ``full`` says that the consumer has as many namespaces as one may have.
    """

    key: Key
    service_namespace: Object
    owned: Sequence[Object]
    find: Callable[[str], Object | None]
    ungranted: Sequence[str]
    full: bool = False


class NamespacePlan(msgspec.Struct, kw_only=True, frozen=True):
    """Writes, in this order.

    ``finalize`` asks for the finalizer, without which no other write of the plan may be done.
    ``waits`` says that the namespace is made as soon as there is room for it.
    """

    finalize: bool = False
    create: JSON | None = None
    status: JSON | None = None
    waits: bool = False


def reconcile(state: NamespaceState, options: ProviderOptions, *, now: str) -> NamespacePlan:
    """Decide the writes for an APIServiceNamespace that is not being deleted."""
    stored = state.service_namespace
    current = stored.decode(APIServiceNamespace).status.namespace
    name = target_name(state, options.isolation)
    namespace = state.find(name)
    if not _LABEL.fullmatch(name):
        return NamespacePlan(status=_status(stored, None, _invalid(name), now))
    if why := reservation(name, namespace, state.key, options):
        return NamespacePlan(status=_status(stored, None, _reserved(name, why), now))
    finalize = FINALIZER_NAMESPACE not in stored.meta.finalizers
    if namespace is None and state.full:
        limit = _limit(name, options.namespaces_per_consumer)
        return NamespacePlan(status=_status(stored, None, limit, now), waits=True)
    if namespace is None:
        pending = _info("NamespacePending", f"provider namespace {name} is being created")
        status = _status(stored, current or None, pending, now)
        return NamespacePlan(
            finalize=finalize, create=_new_namespace(state.key, name), status=status
        )
    if not belongs(namespace, state.key):
        return NamespacePlan(status=_status(stored, None, _foreign(namespace, state.key), now))
    if namespace.meta.deleting:
        return NamespacePlan(finalize=finalize, status=_status(stored, None, _going(name), now))
    # An announced namespace stays announced: a later export reports missing rights in its own
    # condition.
    if state.ungranted and not current:
        waiting = _info(
            "PermissionsPending",
            f"the konnector may not use provider namespace {name} yet: see condition "
            f"PermissionsGranted of APIServiceExport {', '.join(state.ungranted)}",
        )
        return NamespacePlan(finalize=finalize, status=_status(stored, None, waiting, now))
    return NamespacePlan(
        finalize=finalize, status=_status(stored, name, true(NAMESPACE_READY), now)
    )


def heir(service_namespace: Object | None, exports: Sequence[Object]) -> Object | None:
    """Return the export that takes over the namespaces of a deleted APIServiceNamespace.

    While its own export exists, it was deleted on purpose, and no export takes over. None stands
    for an APIServiceNamespace that does not exist any more.
    """
    live = {export.meta.uid: export for export in exports if not export.meta.deleting}
    if service_namespace is not None:
        references = service_namespace.meta.owner_references
        owners = {one.uid for one in references if one.kind == APISERVICEEXPORTS.kind}
        if not owners or owners & live.keys():
            return None
    return min(live.values(), key=lambda export: export.meta.name, default=None)


def new_service_namespace(key: Key, export: Object) -> JSON:
    """Return the body of an APIServiceNamespace that an export owns."""
    return {
        "apiVersion": API_VERSION,
        "kind": APISERVICENAMESPACES.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "ownerReferences": [msgspec.to_builtins(export.owner_reference())],
        },
        "spec": {},
    }


def leaving_status(stored: Object, plan: leaving.LeavingPlan, *, now: str) -> JSON | None:
    """Return the body of a deleted APIServiceNamespace that waits for its namespaces.

    A namespace that is kept stays assigned: the konnector may have to delete objects in it.
    """
    if plan.staying:
        namespace, condition = plan.staying[0]
        return _status(stored, namespace.meta.name, condition, now)
    # The rights in a namespace that is not assigned any more go before it does.
    going = [*plan.going, *(namespace.meta.name for namespace in plan.delete), *plan.closing]
    return _status(stored, None, _going(going[0]), now) if going else None


def target_name(state: NamespaceState, isolation: Isolation) -> str:
    """Return the name of the provider namespace, once assigned the one in the status."""
    current = state.service_namespace.decode(APIServiceNamespace).status.namespace
    if current:
        return current
    if state.owned:
        # An administrator may have annotated several: each look has to choose the same one.
        return min(namespace.meta.name for namespace in state.owned)
    if isolation == "None":
        return state.key.name
    return service_namespace(state.key.namespace, state.key.name)


def _new_namespace(key: Key, name: str) -> JSON:
    ref = service_namespace_ref(key.namespace, key.name)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "annotations": {ANNOTATION_SERVICE_NAMESPACE: ref}},
    }


def _status(stored: Object, namespace: str | None, condition: KubeBindCondition, now: str) -> JSON:
    return with_status(stored, [condition], now=now, namespace=namespace)


def _info(reason: str, message: str) -> KubeBindCondition:
    return false(NAMESPACE_READY, reason, message, severity="Info")


def _going(name: str) -> KubeBindCondition:
    return _info("NamespaceTerminating", f"provider namespace {name} is being deleted")


def _limit(name: str, most: int) -> KubeBindCondition:
    # The bound and not the number that exists: a text that changes with each of the others would
    # be a write to each that waits.
    return false(
        NAMESPACE_READY,
        NAMESPACE_LIMIT_REACHED,
        f"provider namespace {name} is not created, since this consumer has the largest "
        f"allowed number of namespaces ({most}): in the consumer's cluster, delete namespaces "
        "that are no longer needed, or ask the provider to raise --namespaces-per-consumer of "
        "`fairlead provider run`; this namespace is created as soon as there is room",
    )


def _invalid(name: str) -> KubeBindCondition:
    return false(
        NAMESPACE_READY,
        "InvalidNamespaceName",
        f"provider namespace {name!r} cannot exist: the APIServiceNamespace has to be named like "
        "a namespace, in lower-case letters, digits and dashes",
    )


def _reserved(name: str, why: str) -> KubeBindCondition:
    return false(
        NAMESPACE_READY,
        "ReservedNamespace",
        f"namespace {name} can never be a consumer's: {why}; use a namespace of another name on "
        "the consumer",
    )


def _foreign(namespace: Object, key: Key) -> KubeBindCondition:
    ref = service_namespace_ref(key.namespace, key.name)
    return false(
        NAMESPACE_READY,
        "ForeignNamespace",
        f"provider namespace {namespace.meta.name} exists and does not belong to this "
        f"APIServiceNamespace: it is left alone; delete it, or annotate it with "
        f"{ANNOTATION_SERVICE_NAMESPACE}={ref} to hand it over",
    )
