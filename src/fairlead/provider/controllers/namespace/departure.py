"""Deletion of provider namespaces, once no synced object of the consumer remains in them.

The objects are listed from the server: their kinds are not watched here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind.names import CONSUMER_CLUSTER_UID
from fairlead.api.kbind.names import LABEL_EXPORTED as KBIND_EXPORTED
from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    APISERVICEEXPORTS,
    BOUNDSCHEMAS,
    CORE_GROUP_NAME,
    LABEL_EXPORTED,
)
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import Key, Object, ObjectMeta
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    Resource,
)
from fairlead.client import Client, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.provider import bounds
from fairlead.provider.controllers.namespace.leaving import Leaving, LeavingPlan, Remains, leave
from fairlead.provider.namespaces import belongs, usable
from fairlead.provider.options import ProviderOptions
from fairlead.provider.rights import MANAGED_SELECTOR, export_of
from fairlead.provider.watches import crd_names


async def remains(client: Client, namespace: str, cluster_namespace: str) -> Remains:
    """Return the objects of one consumer in a provider namespace.

    Raises:
        ClientError: the server did not say, for another reason than missing rights.
    """
    names: list[str] = []
    more = False
    refused: list[str] = []
    async for crd, is_known in _kinds(client, cluster_namespace):
        resource = _namespaced(crd)
        refusal = ""
        if isinstance(resource, str):
            refusal = resource
        elif resource is not None:
            try:
                texts, rest = await _objects(client, resource, namespace, cluster_namespace)
            except Forbidden:
                refusal = f"the provider may not list {resource.group_resource}"
            except NotFound:
                refusal = f"{resource} is not served at the moment"
            else:
                names += [f"{resource.group_resource} {name}" for name in texts]
                more = more or rest
        # Of kinds that others offer by kbind v2 the provider has no rights, and no copies.
        if refusal and is_known:
            refused.append(refusal)
    return Remains(names=names, more=more, refused=refused)


async def _objects(
    client: Client, resource: Resource, namespace: str, cluster_namespace: str
) -> tuple[list[str], bool]:
    """Return names of the consumer's first objects of a kind, and whether there may be more."""
    texts: list[str] = []
    continue_ = ""
    while True:
        page = await client.page(
            resource, namespace, limit=bounds.REMAINS_PAGE, continue_=continue_, metadata_only=True
        )
        texts += [item.meta.name for item in page.items if synced(item.meta, cluster_namespace)]
        continue_ = page.continue_
        # One object is enough to keep the namespace, so that a large kind is not read to its end.
        if len(texts) >= bounds.REMAINS or not continue_:
            return texts[: bounds.REMAINS], bool(continue_) or len(texts) > bounds.REMAINS


def synced(meta: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object is a copy of the consumer's, or was one before it was orphaned or moved.

    An orphaned copy has lost the mark of its consumer, and one that was moved to kbind v2 has the
    marks of that. Neither must be deleted with the namespace.
    """
    if CONSUMER_CLUSTER_UID in meta.annotations:
        return True
    owner = meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE)
    if owner is None:
        return ANNOTATION_CONSUMER_UID in meta.annotations
    return owner == cluster_namespace


async def _kinds(client: Client, cluster_namespace: str) -> AsyncIterator[tuple[Object, bool]]:
    """Yield the CRDs of objects that the consumer may have here, and whether it could have bound.

    These are all exportable CRDs, and those that the consumer's exports and BoundSchemas name,
    even if they are not exportable any more. Those that have the label of kbind v2 alone may have
    copies that were moved to it before they lost the label of v1alpha2.
    """
    labelled: dict[str, Object] = {}
    for label in (KBIND_EXPORTED, LABEL_EXPORTED):
        listed = await client.list(CUSTOMRESOURCEDEFINITIONS, labels=f"{label}=true")
        labelled |= {crd.meta.name: crd for crd in listed.items}
    bound = await _bound(client, cluster_namespace)
    for name, crd in labelled.items():
        yield crd, LABEL_EXPORTED in crd.meta.labels or name in bound
    for name in sorted(bound - labelled.keys()):
        definition = await find(client, CUSTOMRESOURCEDEFINITIONS, name)
        # Without its CRD a kind has no objects.
        if definition is not None:
            yield definition, True


async def _bound(client: Client, cluster_namespace: str) -> set[str]:
    """Return the names of CRDs that the exports and BoundSchemas of a cluster namespace name."""
    names = {
        schema.meta.name for schema in (await client.list(BOUNDSCHEMAS, cluster_namespace)).items
    }
    for export in (await client.list(APISERVICEEXPORTS, cluster_namespace)).items:
        names.update(crd_names(export))
    core = f".{CORE_GROUP_NAME}"
    return {name for name in names if not name.endswith((".", core))}


def _namespaced(crd: Object) -> Resource | str | None:
    """Return the resource to list; None if it is cluster-scoped, a text if it cannot be listed."""
    spec = crd_spec(crd)
    if not spec.namespaced:
        return None
    kinds = spec.readable()
    return kinds or f"CustomResourceDefinition {crd.meta.name} serves no version"


class Departure:
    """Asks the server for the objects that keep a provider namespace from being deleted."""

    def __init__(self, client: Client, options: ProviderOptions) -> None:
        self._client = client
        self._options = options
        self._reported: dict[Key, tuple[str, str]] = {}

    async def proceed(
        self, key: Key, names: Iterable[str], assigned: str = "", *, keep: bool = False
    ) -> LeavingPlan:
        """Delete the empty namespaces of an APIServiceNamespace; return the decision about each.

        ``assigned`` is the namespace in its status, where the consumer has its rights. With
        ``keep`` no namespace is deleted.

        Raises:
            ClientError: the server did not say what is there, or refused.
        """
        every = sorted(set(names))
        leaving = [
            existing for name in every if (existing := await self._find(key, name, assigned))
        ]
        plan = leave(leaving, keep=keep)
        for namespace in plan.delete:
            await self._delete(namespace)
        return plan

    def forget(self, key: Key) -> None:
        """Drop the state of an APIServiceNamespace that stays or is gone completely."""
        self._reported.pop(key, None)

    def news(self, key: Key, plan: LeavingPlan) -> list[tuple[Object, KubeBindCondition]]:
        """Return the namespaces that are kept for another reason than at the last call."""
        if not plan.staying:
            self._reported.pop(key, None)
            return []
        state = (plan.staying[0][0].meta.uid, plan.staying[0][1].reason)
        if self._reported.get(key) == state:
            return []
        self._reported[key] = state
        return plan.staying

    async def _find(self, key: Key, name: str, assigned: str) -> Leaving | None:
        """Return a namespace of ours with its remaining objects, None if there is none."""
        namespace = await find(self._client, NAMESPACES, name)
        if namespace is None:
            return None
        if not belongs(namespace, key) or not usable(namespace, self._options):
            return None
        if namespace.meta.deleting:
            return Leaving(namespace, None)
        # Asked before the look: where rights are closed, the consumer cannot add an object after
        # it.
        is_open = name == assigned or await self._granted(name)
        return Leaving(namespace, await remains(self._client, name, key.namespace), is_open)

    async def _granted(self, name: str) -> bool:
        """Whether an export still gives its consumer rights in a namespace."""
        bindings = await self._client.list(ROLEBINDINGS, name, labels=MANAGED_SELECTOR)
        return any(export_of(binding) is not None for binding in bindings.items)

    async def _delete(self, namespace: Object) -> None:
        """Delete a namespace unless it has changed since it was found to be ours."""
        try:
            await self._client.delete(
                NAMESPACES,
                namespace.meta.name,
                uid=namespace.meta.uid,
                resource_version=namespace.meta.resource_version,
            )
        except NotFound:
            return
