"""Who the consumers of a provider's cluster are, what they have, and whether they are alive.

Everything is read with an administrator's rights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    CLUSTERBINDINGS,
    APIServiceExport,
    ClusterBinding,
    ExportResource,
)
from fairlead.api.kubebind.conditions import HEALTHY, Condition, unknown
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.api.timestamps import parse_time
from fairlead.client import Client, NotServed
from fairlead.client.lookups import list_all
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.namespaces import identity_of


class UnknownConsumerError(Exception):
    """No consumer has this name, or more than one; the text names those that there are."""


async def find_consumer(client: Client, name: str) -> Object:
    """The cluster namespace of the consumer with this identity, or of this very name.

    Raises:
        UnknownConsumerError: there is none, or several.
        ApiError: the server refused.
    """
    return choose((await client.list(NAMESPACES)).items, name)


def choose(namespaces: Sequence[Object], name: str) -> Object:
    """The one of the namespaces that a name means.

    Raises:
        UnknownConsumerError: there is none, or several.
    """
    known = [namespace for namespace in namespaces if identity_of(namespace)]
    found = [one for one in known if name in {identity_of(one), one.meta.name}]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(one.meta.name for one in found))
        raise UnknownConsumerError(
            f"{name} means several consumers: say the cluster namespace, one of {names}"
        )
    names = ", ".join(sorted(identity_of(one) for one in known))
    raise UnknownConsumerError(
        f"there is no consumer {name}; " + (f"there are: {names}" if names else "there are none")
    )


class Row(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One consumer; ``objects`` counts its copies of exported kinds."""

    identity: str
    pretty_name: str
    namespace: str
    exports: list[str]
    objects: int
    konnector_version: str
    last_heartbeat_time: str
    healthy: Condition
    deleting: bool = False

    @property
    def title(self) -> str:
        """The identity, and what people call it where that is something else."""
        if self.pretty_name in {"", self.identity}:
            return self.identity
        return f"{self.pretty_name} ({self.identity})"


def rows(
    namespaces: Iterable[Object],
    bindings: Iterable[Object],
    exports: Iterable[Object],
    counts: Mapping[str, int],
    *,
    now: datetime,
) -> list[Row]:
    """One row for each cluster namespace, in the order of the identities.

    Args:
        namespaces: all of the cluster; those without an identity are no consumer's.
        bindings: all ClusterBindings.
        exports: all APIServiceExports.
        counts: synced objects by cluster namespace.
        now: when heartbeats are judged.
    """
    bound = {binding.meta.namespace: binding for binding in bindings}
    exported: dict[str, list[str]] = {}
    for export in exports:
        exported.setdefault(export.meta.namespace, []).append(export.meta.name)
    found = [
        _row(namespace, bound.get(name), exported.get(name, ()), counts.get(name, 0), now)
        for namespace in namespaces
        if identity_of(namespace) and (name := namespace.meta.name)
    ]
    return sorted(found, key=lambda row: (row.identity, row.namespace))


def age(since: str, now: datetime) -> str:
    """How long ago a time was, as kubectl says it: ``12s``, ``5m``, ``3h``, ``4d``; "" if never.

    A time that cannot be read is told as it is.
    """
    if not since:
        return ""
    try:
        passed = now - parse_time(since)
    except (ValueError, OverflowError):
        return since
    seconds = max(passed, timedelta()).total_seconds()
    for unit, length, limit in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172800)):
        if seconds < limit:
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds // 86400)}d"


def _row(
    namespace: Object,
    binding: Object | None,
    exports: Sequence[str],
    objects: int,
    now: datetime,
) -> Row:
    read = ClusterBindingView() if binding is None else _view(binding, now)
    return Row(
        identity=identity_of(namespace),
        pretty_name=read.pretty_name,
        namespace=namespace.meta.name,
        exports=sorted(exports),
        objects=objects,
        konnector_version=read.version,
        last_heartbeat_time=read.heartbeat,
        healthy=read.healthy,
        deleting=namespace.meta.deleting,
    )


class ClusterBindingView(msgspec.Struct, frozen=True, kw_only=True):
    """What a ClusterBinding says; the defaults are those of an absent one."""

    pretty_name: str = ""
    version: str = ""
    heartbeat: str = ""
    healthy: Condition = unknown(
        HEALTHY, "NotInvited", "it has no ClusterBinding: invite it again, or revoke it"
    )


def _view(binding: Object, now: datetime) -> ClusterBindingView:
    pretty = binding.meta.annotations.get(ANNOTATION_CLUSTER_PRETTY_NAME, "")
    try:
        status = binding.decode(ClusterBinding).status
    except msgspec.ValidationError as error:
        invalid = unknown(HEALTHY, "Invalid", f"its ClusterBinding is not valid: {error}")
        return ClusterBindingView(pretty_name=pretty, healthy=invalid)
    # Judged anew, by the controller's own rule: nobody may be running to store it.
    condition, _ = health(status, now=now)
    return ClusterBindingView(
        pretty_name=pretty,
        version=status.konnector_version,
        heartbeat=status.last_heartbeat_time,
        healthy=condition,
    )


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
