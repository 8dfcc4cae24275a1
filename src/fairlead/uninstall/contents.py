"""Objects in a namespace that neither the program nor every namespace has."""

from __future__ import annotations

from fairlead.api.meta import Object
from fairlead.api.remains import named
from fairlead.api.resource import Resource
from fairlead.client import ApiError, Client, MethodNotAllowed, NotFound
from fairlead.client.lookups import Unseen, look_at
from fairlead.uninstall.findings import FoundObject
from fairlead.uninstall.footprints import Footprint, is_ours


IMMORTAL = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces of the cluster itself."""
# Annotation of a token Secret. The token controller deletes the Secret with its ServiceAccount, so
# that one of `default` or of the program is no reason to keep the namespace.
_ACCOUNT = "kubernetes.io/service-account.name"
# Events expire, Endpoints and EndpointSlices follow their Service, and PodMetrics are stored
# nowhere.
_IGNORED = frozenset({"events", "endpoints", "endpointslices", "podmetrics"})
# The first two come from kube-controller-manager, the third from OpenShift, in every namespace.
_OF_EACH = frozenset(
    {
        ("serviceaccounts", "default"),
        ("configmaps", "kube-root-ca.crt"),
        ("configmaps", "openshift-service-ca.crt"),
    }
)


def of_all(resource: Resource, obj: Object, footprint: Footprint) -> bool:
    """Whether an object exists in every namespace, or is deleted with the program."""
    account = obj.meta.annotations.get(_ACCOUNT)
    return (
        resource.plural in _IGNORED
        or (resource.plural, obj.meta.name) in _OF_EACH
        or account in {"default", footprint.name}
        or is_ours(obj)
    )


async def contents(client: Client, footprint: Footprint) -> list[FoundObject]:
    """Return objects in the program's namespace, without its own and those of each namespace.

    Raises:
        Unseen: a kind cannot be listed.
        ApiError: the server does not tell what kinds it serves.
    """
    objects: list[FoundObject] = []
    for resource in await client.discovery.resources():
        if not resource.namespaced or resource.plural in _IGNORED:
            continue
        there = await listed(client, resource, footprint.namespace)
        objects += [
            FoundObject(resource, obj) for obj in there if not of_all(resource, obj, footprint)
        ]
    return objects


async def listed(client: Client, resource: Resource, namespace: str) -> list[Object]:
    """Return the metadata of the objects of a kind in a namespace; [] if the kind has no storage.

    Raises:
        Unseen: the kind cannot be listed.
    """
    try:
        return await look_at(client, resource, namespace)
    except Unseen as error:
        # Reviews and the like can be created, and are not stored.
        if isinstance(error.__cause__, MethodNotAllowed | NotFound):
            return []
        raise


async def why_kept(client: Client, footprint: Footprint, namespace: Object | None) -> str:
    """Return the reason why the program's namespace has to stay, "" if it may be deleted."""
    name = footprint.namespace
    if namespace is None:
        return ""
    if name in IMMORTAL:
        return "it is the cluster's own"
    # `fairlead bind` makes the konnector's default namespace without our labels. A namespace of
    # another name may be the one of an app team.
    if not (is_ours(namespace) or footprint.default):
        return "the manifests have not made it"
    try:
        left = await contents(client, footprint)
    except (Unseen, ApiError) as error:
        # An object that was not seen would be deleted with the namespace.
        return f"what is in it could not be looked at: {error}"
    if not left:
        return ""
    return f"{named([one.object for one in left])} {'is' if len(left) == 1 else 'are'} in it"
