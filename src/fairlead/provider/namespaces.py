"""Ownership of the provider's namespaces, by their annotations.

A cluster namespace belongs to the consumer with the identity that it was made for. A provider
namespace belongs to an APIServiceNamespace if, and only if, its annotation says so. No other
namespace is used, granted or deleted, whatever its name; some names are reserved.
"""

from __future__ import annotations

from fairlead.api.kubebind import (
    ANNOTATION_IDENTITY,
    ANNOTATION_LEGACY_IDENTITY,
    ANNOTATION_SERVICE_NAMESPACE,
    APIServiceNamespace,
)
from fairlead.api.meta import Key, Object
from fairlead.provider.options import ProviderOptions


def identity_of(namespace: Object) -> str:
    """Return the consumer identity that a namespace was made for; "" for any other."""
    annotations = namespace.meta.annotations
    return annotations.get(ANNOTATION_IDENTITY) or annotations.get(ANNOTATION_LEGACY_IDENTITY, "")


def belongs(namespace: Object, key: Key) -> bool:
    """Whether a provider namespace belongs to this APIServiceNamespace."""
    return owner_of(namespace) == key


def usable(namespace: Object, options: ProviderOptions) -> bool:
    """Whether a namespace is a consumer's provider namespace, and its name is not reserved."""
    key = owner_of(namespace)
    return key is not None and not reservation(namespace.meta.name, namespace, key, options)


def owner_of(namespace: Object) -> Key | None:
    """Return the APIServiceNamespace of a provider namespace, by its annotation."""
    cluster, slash, name = namespace.meta.annotations.get(
        ANNOTATION_SERVICE_NAMESPACE, ""
    ).partition("/")
    return Key(cluster, name) if slash and cluster and name else None


def kept_by(service_namespace: Object) -> str | None:
    """Return the only namespace where a deleted APIServiceNamespace still gives rights.

    "" means that it gives none any more: no object can appear after a look. None is returned for
    an APIServiceNamespace that is not deleted, which gives rights in all its namespaces.
    """
    if not service_namespace.meta.deleting:
        return None
    return service_namespace.decode(APIServiceNamespace).status.namespace


_SYSTEM = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_SYSTEM_PREFIX = "kube-"


_CLUSTERS_OWN = "it is a namespace of the cluster itself"


def system_reservation(name: str) -> str:
    """Return why a name is Kubernetes' own, "" if it is not."""
    if name in _SYSTEM or name.startswith(_SYSTEM_PREFIX):
        return _CLUSTERS_OWN
    return ""


def reservation(name: str, namespace: Object | None, key: Key, options: ProviderOptions) -> str:
    """Return why a name cannot be a provider namespace, "" if it can.

    Args:
        name: the name of the provider namespace.
        namespace: the namespace of this name, if it exists.
        key: the APIServiceNamespace that would have it.
        options: the namespaces of the provider, and the prefix of cluster namespaces.
    """
    if name == key.namespace or (namespace is not None and is_cluster_namespace(namespace)):
        return "it is the cluster namespace of a consumer"
    if name in _SYSTEM:
        return _CLUSTERS_OWN
    if name == options.namespace:
        return "the provider itself runs there"
    if name != key.name:
        # Made from the name of the cluster namespace, or handed over by an administrator.
        return ""
    if name.startswith(_SYSTEM_PREFIX):
        return f"names that begin with {_SYSTEM_PREFIX} belong to the cluster itself"
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
