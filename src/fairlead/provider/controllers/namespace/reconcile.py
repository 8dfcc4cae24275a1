"""What an APIServiceNamespace leads to.

A provider namespace belongs to an APIServiceNamespace if, and only if, its annotation says so. No
other is ever used, granted or deleted, whatever its name; some names no consumer can have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_IDENTITY,
    ANNOTATION_LEGACY_IDENTITY,
    ANNOTATION_SERVICE_NAMESPACE,
    FINALIZER_NAMESPACE,
    APIServiceNamespace,
    Isolation,
    service_namespace,
    service_namespace_ref,
)
from fairlead.api.kubebind.conditions import NAMESPACE_READY, Condition, false, true
from fairlead.api.meta import JSON, Key, Object
from fairlead.provider.changes import with_status
from fairlead.provider.controllers.namespace import leaving
from fairlead.provider.options import ProviderOptions


_SYSTEM = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_SYSTEM_PREFIX = "kube-"


def reservation(name: str, namespace: Object | None, key: Key, options: ProviderOptions) -> str:
    """What keeps a name from being a provider namespace, "" when nothing does.

    Args:
        name: of the provider namespace.
        namespace: that of this name, if there is one.
        key: of the APIServiceNamespace that would have it.
        options: where the provider and its consumers live.
    """
    if name == key.namespace or (namespace is not None and is_cluster_namespace(namespace)):
        return "it is the cluster namespace of a consumer"
    if name in _SYSTEM:
        return "it is a namespace of the cluster itself"
    if name == options.namespace:
        return "the provider itself runs there"
    if name != key.name:
        # Made from the name of the cluster namespace, or handed over by an administrator.
        return ""
    if name.startswith(_SYSTEM_PREFIX):
        return f"names that begin with {_SYSTEM_PREFIX} are the cluster's own"
    prefix = options.namespace_prefix
    if prefix and name.startswith(prefix):
        return f"names that begin with {prefix} are for cluster namespaces"
    return ""


def is_cluster_namespace(namespace: Object) -> bool:
    """Whether a namespace was made for a consumer's identity."""
    return any(
        annotation in namespace.meta.annotations
        for annotation in (ANNOTATION_IDENTITY, ANNOTATION_LEGACY_IDENTITY)
    )


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class State(NamedTuple):
    """What is there.

    ``owned`` are the namespaces whose annotation names this APIServiceNamespace, ``find`` looks
    any namespace up by its name, and ``ungranted`` names the exports whose rights in the
    namespace are not there yet.
    """

    key: Key
    service_namespace: Object
    owned: Sequence[Object]
    find: Callable[[str], Object | None]
    ungranted: Sequence[str]


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What to write, in this order.

    ``finalize`` asks for the finalizer, without which nothing else of the plan may be done.
    """

    finalize: bool = False
    create: JSON | None = None
    status: JSON | None = None


def reconcile(state: State, options: ProviderOptions, *, now: str) -> Plan:
    """What to do about an APIServiceNamespace that is there to stay."""
    stored = state.service_namespace
    current = stored.decode(APIServiceNamespace).status.namespace
    name = target_name(state, options.isolation)
    namespace = state.find(name)
    if not _LABEL.fullmatch(name):
        return Plan(status=_status(stored, None, _invalid(name), now))
    if why := reservation(name, namespace, state.key, options):
        return Plan(status=_status(stored, None, _reserved(name, why), now))
    finalize = FINALIZER_NAMESPACE not in stored.meta.finalizers
    if namespace is None:
        pending = _info("NamespacePending", f"provider namespace {name} is being created")
        status = _status(stored, current or None, pending, now)
        return Plan(finalize=finalize, create=_new_namespace(state.key, name), status=status)
    if not belongs(namespace, state.key):
        return Plan(status=_status(stored, None, _foreign(namespace, state.key), now))
    if namespace.meta.deleting:
        return Plan(finalize=finalize, status=_status(stored, None, _going(name), now))
    if state.ungranted and not current:
        waiting = _info(
            "PermissionsPending",
            f"the konnector may not use provider namespace {name} yet: see condition "
            f"PermissionsGranted of APIServiceExport {', '.join(state.ungranted)}",
        )
        return Plan(finalize=finalize, status=_status(stored, None, waiting, now))
    return Plan(finalize=finalize, status=_status(stored, name, true(NAMESPACE_READY), now))


def leaving_status(stored: Object, plan: leaving.Plan, *, now: str) -> JSON | None:
    """The body of an APIServiceNamespace that goes, as long as it has to wait.

    A namespace that is kept stays assigned: the konnector may have to delete what is in it.
    """
    if plan.held:
        namespace, condition = plan.held[0]
        return _status(stored, namespace.meta.name, condition, now)
    going = [*plan.going, *(namespace.meta.name for namespace in plan.delete)]
    return _status(stored, None, _going(going[0]), now) if going else None


def with_finalizer(stored: Object) -> JSON:
    """The body of an APIServiceNamespace that stays until its provider namespace is gone."""
    return _finalizers(stored, [*stored.meta.finalizers, FINALIZER_NAMESPACE])


def without_finalizer(stored: Object) -> JSON:
    """The body of an APIServiceNamespace that may go."""
    others = [name for name in stored.meta.finalizers if name != FINALIZER_NAMESPACE]
    return _finalizers(stored, others)


def target_name(state: State, isolation: Isolation) -> str:
    """The name of the provider namespace: that of the status, once there is one."""
    current = state.service_namespace.decode(APIServiceNamespace).status.namespace
    if current:
        return current
    if state.owned:
        return min(namespace.meta.name for namespace in state.owned)
    if isolation == "None":
        return state.key.name
    return service_namespace(state.key.namespace, state.key.name)


def belongs(namespace: Object, key: Key) -> bool:
    """Whether a provider namespace belongs to this APIServiceNamespace."""
    return owner_of(namespace) == key


def usable(namespace: Object, options: ProviderOptions) -> bool:
    """Whether a namespace is a consumer's, and none that no consumer can have."""
    key = owner_of(namespace)
    return key is not None and not reservation(namespace.meta.name, namespace, key, options)


def owner_of(namespace: Object) -> Key | None:
    """The APIServiceNamespace that a provider namespace belongs to, as its annotation says."""
    cluster, slash, name = namespace.meta.annotations.get(
        ANNOTATION_SERVICE_NAMESPACE, ""
    ).partition("/")
    return Key(cluster, name) if slash and cluster and name else None


def _new_namespace(key: Key, name: str) -> JSON:
    ref = service_namespace_ref(key.namespace, key.name)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "annotations": {ANNOTATION_SERVICE_NAMESPACE: ref}},
    }


def _finalizers(stored: Object, finalizers: list[str]) -> JSON:
    body = stored.to_dict()
    body["metadata"]["finalizers"] = finalizers
    return body


def _status(stored: Object, namespace: str | None, condition: Condition, now: str) -> JSON:
    return with_status(stored, [condition], now=now, namespace=namespace)


def _info(reason: str, message: str) -> Condition:
    return false(NAMESPACE_READY, reason, message, severity="Info")


def _going(name: str) -> Condition:
    return _info("NamespaceTerminating", f"provider namespace {name} is being deleted")


def _invalid(name: str) -> Condition:
    return false(
        NAMESPACE_READY,
        "InvalidNamespaceName",
        f"provider namespace {name!r} cannot exist: the APIServiceNamespace has to be named like "
        "a namespace, in lower-case letters, digits and dashes",
    )


def _reserved(name: str, why: str) -> Condition:
    return false(
        NAMESPACE_READY,
        "ReservedNamespace",
        f"namespace {name} can never be a consumer's: {why}; use a namespace of another name on "
        "the consumer",
    )


def _foreign(namespace: Object, key: Key) -> Condition:
    ref = service_namespace_ref(key.namespace, key.name)
    return false(
        NAMESPACE_READY,
        "ForeignNamespace",
        f"provider namespace {namespace.meta.name} exists and does not belong to this "
        f"APIServiceNamespace: it is left alone; delete it, or annotate it with "
        f"{ANNOTATION_SERVICE_NAMESPACE}={ref} to hand it over",
    )
