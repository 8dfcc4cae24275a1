"""My bindings: what a person's clusters have bound, and how each stands on this side."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceExport,
    ClusterBinding,
)
from fairlead.api.kubebind.conditions import READY, Condition, get_condition
from fairlead.api.meta import Object
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.api.resource import NAMESPACES
from fairlead.portal.console.live import Hub
from fairlead.portal.console.viewing import Asked, Topics, View
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.identity.sessions import Session
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import Cluster


class Row(msgspec.Struct, frozen=True):
    """A binding of a person's cluster, or a cluster without one."""

    cluster: str
    namespace: str
    binding: str = ""
    state: State = "unknown"
    about: str = ""
    helps: str = ""
    heartbeat: str = ""


class Bindings(View):
    """One list over all of a person's clusters; of their own namespaces alone."""

    route = "/bindings"
    template = "bindings.html"

    def __init__(self, cluster: Cluster, hub: Hub, ownership: Ownership) -> None:
        self._ownership = ownership
        self._namespaces = hub.informer(cluster, NAMESPACES, metadata_only=True)
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._connections = hub.informer(cluster, CLUSTERBINDINGS)

    async def scope(self, session: Session, asked: Asked) -> Hashable:
        """The names of the person's cluster namespaces."""
        return tuple(one.meta.name for one in self._ownership.namespaces(session.person))

    def topics(self, scope: Any) -> Topics:
        """These namespaces, and whether there are others."""
        return ("", *scope)

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """A row for each binding, and for each cluster without one."""
        found = [one for name in scope if (one := self._namespaces.get("", name)) is not None]
        rows = [row for namespace in found for row in self._rows(namespace)]
        return {"rows": sorted(rows, key=lambda row: (row.cluster, row.namespace, row.binding))}

    def _rows(self, namespace: Object) -> Iterator[Row]:
        name = namespace.meta.name
        connection = _decoded(self._connections.get(name, CLUSTER_BINDING_NAME))
        known = connection.status if connection is not None else None
        told = namespace.meta.annotations.get(ANNOTATION_CLUSTER_PRETTY_NAME, "")
        cluster = told or identity_of(namespace) or name
        heartbeat = (known.last_heartbeat_time or "") if known is not None else ""
        exports = sorted(self._exports.list(name), key=lambda one: one.meta.name)
        if not exports:
            yield Row(cluster, name, heartbeat=heartbeat)
        for export in exports:
            fault = _fault([*_conditions(export), *(known.conditions if known else [])])
            if fault is None:
                yield Row(cluster, name, export.meta.name, "ok", heartbeat=heartbeat)
                continue
            yield Row(
                cluster,
                name,
                export.meta.name,
                KUBE_BIND.state(fault.reason),
                ": ".join(part for part in (fault.reason, fault.message) if part),
                KUBE_BIND.helps(fault.reason),
                heartbeat,
            )


def _decoded(found: Object | None) -> ClusterBinding | None:
    try:
        return found.decode(ClusterBinding) if found is not None else None
    except msgspec.ValidationError:
        return None


def _conditions(export: Object) -> list[Condition]:
    try:
        return export.decode(APIServiceExport).status.conditions
    except msgspec.ValidationError as error:
        return [Condition(READY, "False", reason="Invalid", message=str(error))]


def _fault(conditions: Iterable[Condition]) -> Condition | None:
    """The first condition that is wrong, Ready last: it repeats another one's words."""
    known = list(conditions)
    wrong = [one for one in known if one.status == "False"]
    finer = next((one for one in wrong if one.type != READY), None)
    return finer or get_condition(wrong, READY)
