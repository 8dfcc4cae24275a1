"""Synced objects that a provider namespace still holds, by the server's own word.

No cache is asked: what is missed here is deleted with its namespace.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    APISERVICEEXPORTS,
    BOUNDSCHEMAS,
    CORE_GROUP_NAME,
    LABEL_EXPORTED,
)
from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.provider.namespace.leaving import Remains
from fairlead.provider.watches import crd_names


FIRST = 5
"""So many objects of a kind are looked for; there may be more."""

_PAGE = 50


async def remains(client: Client, namespace: str, cluster_namespace: str) -> Remains:
    """What a provider namespace holds of one consumer.

    Raises:
        ClientError: the server did not say, for another reason than missing rights.
    """
    names: list[str] = []
    more = False
    refused: list[str] = []
    async for crd in _kinds(client, cluster_namespace):
        resource = _namespaced(crd)
        if isinstance(resource, str):
            refused.append(resource)
        elif resource is not None:
            try:
                found, rest = await _objects(client, resource, namespace, cluster_namespace)
            except Forbidden:
                refused.append(f"the provider may not list {resource.group_resource}")
                continue
            except NotFound:
                refused.append(f"{resource} is not served at the moment")
                continue
            names += [f"{resource.group_resource} {name}" for name in found]
            more = more or rest
    return Remains(names=names, more=more, refused=refused)


async def _objects(
    client: Client, resource: Resource, namespace: str, cluster_namespace: str
) -> tuple[list[str], bool]:
    """The names of the consumer's first objects of a kind, and whether there may be more."""
    found: list[str] = []
    continue_ = ""
    while True:
        page = await client.page(
            resource, namespace, limit=_PAGE, continue_=continue_, metadata_only=True
        )
        found += [item.meta.name for item in page.items if synced(item.meta, cluster_namespace)]
        continue_ = page.continue_
        if len(found) >= FIRST or not continue_:
            return found[:FIRST], bool(continue_) or len(found) > FIRST


def synced(meta: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object is a copy of the consumer's, or was one that the consumer has let go.

    Copies that are orphaned lose the mark of whose they are, and are to stay all the more.
    """
    owner = meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE)
    if owner is None:
        return ANNOTATION_CONSUMER_UID in meta.annotations
    return owner == cluster_namespace


async def _kinds(client: Client, cluster_namespace: str) -> AsyncIterator[Object]:
    """The CRDs whose objects the consumer may have here.

    Those that can be exported now, and those that its exports and BoundSchemas name, exported
    any more or not.
    """
    labelled = await client.list(CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true")
    seen = {crd.meta.name for crd in labelled.items}
    for crd in labelled.items:
        yield crd
    for name in sorted(await _bound(client, cluster_namespace) - seen):
        found = await find(client, CUSTOMRESOURCEDEFINITIONS, name)
        # Without its CRD a kind has no objects.
        if found is not None:
            yield found


async def _bound(client: Client, cluster_namespace: str) -> set[str]:
    """The names of CRDs that the exports and BoundSchemas of a cluster namespace name."""
    names = {
        schema.meta.name for schema in (await client.list(BOUNDSCHEMAS, cluster_namespace)).items
    }
    for export in (await client.list(APISERVICEEXPORTS, cluster_namespace)).items:
        names.update(crd_names(export))
    core = f".{CORE_GROUP_NAME}"
    return {name for name in names if not name.endswith((".", core))}


class _Version(msgspec.Struct):
    name: str
    served: bool = False


class _Spec(msgspec.Struct):
    group: str
    names: dict[str, Any]
    scope: str
    versions: list[_Version] = []


class _CRD(msgspec.Struct):
    spec: _Spec


def _namespaced(crd: Object) -> Resource | str | None:
    """What to list; None for a cluster-scoped kind, a text when it cannot be listed."""
    spec = crd.decode(_CRD).spec
    if spec.scope != "Namespaced":
        return None
    served = next((version.name for version in spec.versions if version.served), "")
    if not served:
        return f"CustomResourceDefinition {crd.meta.name} serves no version"
    return Resource(spec.group, served, spec.names["plural"], spec.names["kind"])
