"""What an APIServiceNamespace leads to.

A provider namespace belongs to an APIServiceNamespace if, and only if, its annotation says so. No
other is ever used, granted or deleted, whatever its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_SERVICE_NAMESPACE,
    APIServiceNamespace,
    Isolation,
    service_namespace,
    service_namespace_ref,
)
from fairlead.api.kubebind_conditions import Condition, false, true
from fairlead.api.meta import JSON, Key, Object
from fairlead.provider.changes import with_status


NAMESPACE_READY = "NamespaceReady"
"""Our own condition: kube-bind's APIServiceNamespace has none."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class State(NamedTuple):
    """What is there.

    ``owned`` are the namespaces whose annotation names this APIServiceNamespace, ``find`` looks
    any namespace up by its name, and ``ungranted`` names the exports whose rights in the
    namespace are not there yet.
    """

    key: Key
    service_namespace: Object | None
    owned: Sequence[Object]
    find: Callable[[str], Object | None]
    ungranted: Sequence[str]


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What to write; ``delete`` are namespaces that belonged to what is gone."""

    create: JSON | None = None
    delete: list[Object] = []
    status: JSON | None = None


def reconcile(state: State, isolation: Isolation, *, now: str) -> Plan:
    """What to do about an APIServiceNamespace."""
    stored = state.service_namespace
    if stored is None:
        return Plan(delete=[item for item in state.owned if not item.meta.deleting])
    if stored.meta.deleting:
        return Plan()
    current = stored.decode(APIServiceNamespace).status.namespace
    name = target_name(state, isolation)
    if not _LABEL.fullmatch(name):
        return Plan(status=_status(stored, None, _invalid(name), now))
    namespace = state.find(name)
    if namespace is None:
        pending = _info("NamespacePending", f"provider namespace {name} is being created")
        create = _new_namespace(state.key, name)
        return Plan(create=create, status=_status(stored, current or None, pending, now))
    if not belongs(namespace, state.key):
        return Plan(status=_status(stored, None, _foreign(namespace, state.key), now))
    if namespace.meta.deleting:
        going = _info("NamespaceTerminating", f"provider namespace {name} is being deleted")
        return Plan(status=_status(stored, None, going, now))
    if state.ungranted and not current:
        waiting = _info(
            "PermissionsPending",
            f"the konnector may not use provider namespace {name} yet: see condition "
            f"PermissionsGranted of APIServiceExport {', '.join(state.ungranted)}",
        )
        return Plan(status=_status(stored, None, waiting, now))
    return Plan(status=_status(stored, name, true(NAMESPACE_READY), now))


def target_name(state: State, isolation: Isolation) -> str:
    """The name of the provider namespace: that of the status, once there is one."""
    stored = state.service_namespace
    current = stored.decode(APIServiceNamespace).status.namespace if stored is not None else ""
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


def _status(stored: Object, namespace: str | None, condition: Condition, now: str) -> JSON:
    return with_status(stored, [condition], now=now, namespace=namespace)


def _info(reason: str, message: str) -> Condition:
    return false(NAMESPACE_READY, reason, message, severity="Info")


def _invalid(name: str) -> Condition:
    return false(
        NAMESPACE_READY,
        "InvalidNamespaceName",
        f"provider namespace {name!r} cannot exist: the APIServiceNamespace has to be named like "
        "a namespace, in lower-case letters, digits and dashes",
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
