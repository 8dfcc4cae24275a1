"""Copies of exported kinds by consumer, as far as the provider can trust their marks.

A consumer writes its copies, and their annotations, as it likes; it cannot choose its namespaces.
So a namespaced copy belongs to the consumer of its namespace. Every consumer of a cluster-scoped
kind may write all objects of it: there the annotation is believed only where the name, or the
isolation of an export, agrees with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    APIServiceExport,
    ExportSpec,
    Isolation,
)
from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.client import ApiError, Client, ConnectionFailed, NotFound, NotServed, Unauthorized
from fairlead.client.lookups import Unseen, look_at
from fairlead.provider import bounds
from fairlead.provider.namespaces import identity_of, owner_of


class CopyNamespaces(NamedTuple):
    """Namespaces and isolations by which a copy's consumer is found.

    ``homes`` maps a namespace to the cluster namespace of its consumer; ``isolations`` maps
    cluster namespace, group and plural to the isolations of the consumer's exports of that kind.
    """

    homes: dict[str, str]
    isolations: dict[tuple[str, str, str], set[Isolation]]

    def whose(self, resource: Resource, meta: ObjectMeta) -> str:
        """Return the cluster namespace of the consumer that owns a copy; "" if none does."""
        if resource.namespaced:
            return self.homes.get(meta.namespace, "")
        said = meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE, "")
        if said not in self.homes:
            return ""
        exported = self.isolations.get((said, resource.group, resource.plural), set())
        return said if meta.name.startswith(f"{said}-") or "None" in exported else ""


def places(namespaces: Iterable[Object], exports: Iterable[Object]) -> CopyNamespaces:
    """Return where consumers have copies, by all namespaces and exports of the cluster."""
    homes: dict[str, str] = {}
    for namespace in namespaces:
        if identity_of(namespace):
            homes[namespace.meta.name] = namespace.meta.name
        elif (owner := owner_of(namespace)) is not None:
            homes[namespace.meta.name] = owner.namespace
    isolations: dict[tuple[str, str, str], set[Isolation]] = {}
    for export in exports:
        if (spec := _spec(export)) is not None:
            for resource in spec.resources:
                key = (export.meta.namespace, *resource.group_resource)
                isolations.setdefault(key, set()).add(spec.isolation)
    return CopyNamespaces(homes, isolations)


def _spec(export: Object) -> ExportSpec | None:
    try:
        return export.decode(APIServiceExport).spec
    except msgspec.ValidationError:
        return None


class Copies(NamedTuple):
    """Numbers of copies.

    ``counts`` are objects of exported kinds by their consumer's cluster namespace. ``unseen``
    gives the reason for each kind, by plural and group, that could not be listed.
    """

    counts: Counter[str]
    unseen: dict[str, str]


async def count_copies(client: Client, exports: Iterable[Object], where: CopyNamespaces) -> Copies:
    """Count each consumer's objects of exported kinds, of all kinds that can be listed.

    Raises:
        ApiError: the server refused to say which kinds it has.
    """
    copies = Copies(Counter(), {})
    free = asyncio.Semaphore(bounds.KINDS_AT_ONCE)

    async def count_objects(resource: Resource) -> None:
        async with free:
            try:
                listed = await look_at(client, resource)
            except Unseen as error:
                copies.unseen[resource.group_resource] = error.why
                return
        copies.counts.update(filter(None, (where.whose(resource, one.meta) for one in listed)))

    async with asyncio.TaskGroup() as group:
        for resource in await served(client, exports):
            group.create_task(count_objects(resource))
    return copies


async def tally(client: Client, exports: Iterable[Object], where: CopyNamespaces) -> Copies:
    """Count copies one kind after the other and page by page, so that no full list is held.

    Raises:
        Unauthorized: the server refused the credentials.
        ApiError: the server refused to tell which kinds it has.
    """
    copies = Copies(Counter(), {})
    for resource in await served(client, exports):
        counts: Counter[str] = Counter()
        token = ""
        try:
            while True:
                page = await client.page(
                    resource, limit=bounds.COPIES_PAGE, continue_=token, metadata_only=True
                )
                counts.update(
                    filter(None, (where.whose(resource, one.meta) for one in page.items))
                )
                if not (token := page.continue_):
                    break
        except NotFound:
            continue
        except Unauthorized:
            raise
        except (ApiError, ConnectionFailed) as error:
            # One kind may fail by itself: the others are counted.
            copies.unseen[resource.group_resource] = " ".join(str(error).split())
            continue
        copies.counts.update(counts)
    return copies


def exported(export: Object) -> set[str]:
    """Return the kinds that an export names, as plural and group; none if it is invalid."""
    spec = _spec(export)
    if spec is None:
        return set()
    pairs = (resource.group_resource for resource in spec.resources)
    return {f"{plural}.{group}" if group else plural for group, plural in pairs}


async def served(client: Client, exports: Iterable[Object]) -> list[Resource]:
    """Return the resources that exports name, as far as the server has them."""
    specs = filter(None, map(_spec, exports))
    names = {resource.group_resource for spec in specs for resource in spec.resources}
    resources: list[Resource] = []
    for group, plural in sorted(names):
        try:
            resources.append(await client.discovery.resource_by_plural(group, plural))
        except NotServed:
            # Its CRD is gone, and all objects with it.
            continue
    return resources
