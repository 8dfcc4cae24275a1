"""What is told of each consumer, made from what is stored about all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from fairlead.api.kubebind import ANNOTATION_CLUSTER_PRETTY_NAME, ClusterBinding
from fairlead.api.kubebind.conditions import HEALTHY, Condition, unknown
from fairlead.api.meta import Object
from fairlead.api.timestamps import parse_time
from fairlead.provider.clusterbinding.reconcile import health
from fairlead.provider.identity import identity_of


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
