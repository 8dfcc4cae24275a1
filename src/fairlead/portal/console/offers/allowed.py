"""Sentences that say which rights a binding grants on both sides."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.kubebind import GroupResource, TemplateSpec, crd_name


_KINDS = {
    "configmaps": "ConfigMaps",
    "secrets": "Secrets",
    "serviceaccounts": "ServiceAccounts",
}


def at_provider(spec: TemplateSpec, cluster_scoped: Iterable[str]) -> list[str]:
    """Return sentences about the rights of the consumer's ServiceAccount at the provider.

    Args:
        spec: the template's spec.
        cluster_scoped: names of CRDs that are known to be cluster-scoped.
    """
    everywhere = set(cluster_scoped)
    found = [
        "The konnector gets a namespace there, and in it a login: the ServiceAccount kube-binder.",
    ]
    for name in _names(spec.resources):
        if name in everywhere:
            found.append(
                f"It may read, write and delete all {name}, also those of others: they are"
                " cluster-scoped."
            )
        else:
            found.append(
                f"It may read, write and delete {name} in the namespaces that the provider creates"
                " for yours."
            )
    found += [
        f"It may read, write and delete {kind} in these namespaces, and copies only those named"
        " above."
        for kind in _claimed(spec)
    ]
    found.append("It has no other rights there; the provider's team can revoke it at any time.")
    return found


def at_consumer(spec: TemplateSpec) -> list[str]:
    """Return sentences about the rights of the konnector in the consumer's cluster."""
    names = ", ".join(_names(spec.resources))
    found = [
        f"The konnector creates the CustomResourceDefinitions {names}, and keeps them up to date.",
        f"It may read and change {names} in all namespaces; it writes their status and metadata.",
    ]
    found += [
        f"It may read, write and delete {kind} in all namespaces: Kubernetes cannot narrow that."
        " It copies only those named above."
        for kind in _claimed(spec)
    ]
    found.append("It keeps its login at the provider in a Secret of the namespace kube-bind.")
    return found


def _names(resources: Iterable[GroupResource]) -> list[str]:
    return list(dict.fromkeys(crd_name(one.resource, one.group) for one in resources))


def _claimed(spec: TemplateSpec) -> list[str]:
    kinds = (_KINDS.get(one.resource, one.resource) for one in spec.permission_claims)
    return list(dict.fromkeys(kinds))
