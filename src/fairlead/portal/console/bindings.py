"""My bindings: what a person's clusters have bound, and how each stands on this side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from aiohttp import web

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
from fairlead.portal.console.entering import Entrance
from fairlead.portal.console.rendering import Pages
from fairlead.portal.handshake.ownership import Ownership
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import Cluster


_WORDS: dict[State, str] = {
    "ok": "in sync",
    "failed": "broken",
    "waiting": "waiting",
    "unknown": "not known",
}


class Row(msgspec.Struct, frozen=True):
    """A binding of a person's cluster, or a cluster without one."""

    cluster: str
    namespace: str
    binding: str = ""
    state: State = "unknown"
    about: str = ""
    helps: str = ""
    heartbeat: str = ""

    @property
    def word(self) -> str:
        """The state, for people."""
        return _WORDS[self.state]


class Bindings:
    """Answers from informers' caches, for the namespaces of a person's own consumers alone."""

    def __init__(
        self, cluster: Cluster, pages: Pages, entrance: Entrance, ownership: Ownership
    ) -> None:
        self._pages = pages
        self._entrance = entrance
        self._ownership = ownership
        self._exports = cluster.informer(APISERVICEEXPORTS)
        self._connections = cluster.informer(CLUSTERBINDINGS)

    def routes(self) -> list[web.RouteDef]:
        """The routes, below the root."""
        return [web.get("/bindings", self.index)]

    async def index(self, request: web.Request) -> web.Response:
        """One list over all of a person's clusters."""
        session = await self._entrance.session(request)
        if isinstance(session, web.Response):
            return session
        rows = [
            row
            for namespace in self._ownership.namespaces(session.person)
            for row in self._rows(namespace)
        ]
        return self._pages.page(
            request,
            "bindings.html",
            person=session.person,
            rows=sorted(rows, key=lambda row: (row.cluster, row.namespace, row.binding)),
        )

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
