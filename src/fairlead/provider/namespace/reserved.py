"""Names that no consumer can have for a provider namespace.

Under isolation None consumers choose the names of their provider namespaces. None of them may
lead where the cluster, the provider or another consumer lives, also not before it is there.
"""

from __future__ import annotations

from fairlead.api.kubebind import ANNOTATION_IDENTITY, ANNOTATION_LEGACY_IDENTITY
from fairlead.api.meta import Key, Object
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
