"""Reading who the consumers are, with an administrator's rights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    APISERVICEEXPORTS,
    CLUSTERBINDINGS,
    APIServiceExport,
    ExportResource,
)
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.client import Client, NotServed
from fairlead.client.lookups import list_all
from fairlead.provider.consumers.rows import Row, rows


async def consumers(client: Client) -> list[Row]:
    """All consumers of a provider's cluster.

    Raises:
        ApiError: the server refused.
    """
    namespaces = (await client.list(NAMESPACES)).items
    bindings = await list_all(client, CLUSTERBINDINGS)
    exports = await list_all(client, APISERVICEEXPORTS)
    counts: Counter[str] = Counter()
    for resource in await served(client, exports):
        for obj in (await client.list(resource, metadata_only=True)).items:
            counts[obj.meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE, "")] += 1
    return rows(namespaces, bindings, exports, counts, now=datetime.now(UTC))


async def served(client: Client, exports: Iterable[Object]) -> list[Resource]:
    """The resources that exports name, as far as the server has them."""
    wanted = {
        (resource.group, resource.resource)
        for export in exports
        for resource in _resources(export)
    }
    found: list[Resource] = []
    for group, plural in sorted(wanted):
        try:
            found.append(await client.discovery.resource_by_plural(group, plural))
        except NotServed:
            # Its CRD is gone, and all objects with it.
            continue
    return found


def _resources(export: Object) -> list[ExportResource]:
    try:
        return export.decode(APIServiceExport).spec.resources
    except msgspec.ValidationError:
        return []
