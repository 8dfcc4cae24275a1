"""The list of all bindings that a person may see, filtered by the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.api.reasons.model import State
from fairlead.portal.console.bindings.known import (
    ConsumerConnection,
    Consumers,
    problems,
    together,
    with_objects,
)
from fairlead.portal.console.objects.sights import Sight, Sights
from fairlead.portal.console.pages.viewing import (
    AskedPage,
    Topics,
    View,
)
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import (
    BindingRow,
    Counts,
    ListQuery,
    order,
    page_of,
)
from fairlead.portal.model.states import RANKS, STATES


MOST_CHOICES = 50
"""Largest number of clusters in the select box; with more, the name is typed."""


class Bindings(View):
    """The list of all bindings that a person may see, filtered by the query."""

    route = "/bindings"
    template = "bindings.html"

    def __init__(self, consumers: Consumers, sights: Sights) -> None:
        self._consumers = consumers
        self._sights = sights

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return what the person may see of all consumers."""
        return await self._sights.all(session.person, self._consumers.exported())

    def topics(self, scope: Any) -> Topics:
        """Return the visible consumers, and "" for new ones."""
        return ("", *scope.own, *scope.consumers)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return a row for each binding, and for each cluster without one."""
        sight: Sight = scope
        wanted = ListQuery.of(asked.get)
        rows = [
            row
            for consumer in {*sight.own, *sight.consumers}
            if self._consumers.title(consumer)
            for row in self._rows(sight, consumer)
        ]
        found = [row for row in rows if wanted.selects(row) and _is_of(row, wanted)]
        page = page_of(order(found, wanted.sort, _ORDERS, "cluster"), len(rows), wanted)
        kinds = sorted({kind for row in rows for kind in row.kinds})
        clusters = sorted({row.cluster for row in rows})
        return {
            "page": page,
            "wanted": wanted,
            "all": sight.all,
            "states": STATES,
            "kinds": kinds,
            "clusters": clusters if len(clusters) <= MOST_CHOICES else [],
            "problems": problems(self._consumers.kinds, kinds),
        }

    def _rows(self, sight: Sight, consumer: str) -> Iterator[BindingRow]:
        cluster = self._consumers.title(consumer)
        known = self._consumers.connection(consumer) if consumer in sight.connections else None
        heartbeat = known.status.last_heartbeat_time if known is not None else ""
        version = known.status.konnector_version if known is not None else ""
        plain = BindingRow(
            cluster=cluster, namespace=consumer, heartbeat=heartbeat, version=version
        )
        if consumer not in sight.consumers:
            yield msgspec.structs.replace(
                plain,
                about=f"its login may not list APIServiceExports in namespace {consumer}",
                helps="ask the provider's team to invite the cluster again",
            )
            return
        exports = self._consumers.exports(consumer)
        if not exports:
            yield _unbound(plain, known)
        for export in exports:
            kinds, verdict = self._consumers.read(export)
            verdict = together(verdict, known)
            counts, unseen = self._counts(sight, consumer, kinds)
            verdict, remedy = with_objects(verdict, counts)
            yield BindingRow(
                cluster=cluster,
                namespace=consumer,
                heartbeat=heartbeat,
                version=version,
                binding=export.meta.name,
                state=verdict.state,
                about=verdict.text if verdict.state != "ok" else "",
                helps=remedy,
                since=verdict.since,
                kinds=kinds,
                objects=counts,
                unseen=unseen,
            )

    def _counts(self, sight: Sight, consumer: str, names: Iterable[str]) -> tuple[Counts, bool]:
        kinds = self._consumers.kinds
        states: Counter[State] = Counter()
        unseen = False
        for name in names:
            kind = kinds.get(name)
            unseen |= bool(kinds.problem(name))
            if kind is None:
                continue
            # Numbers are kept per namespace, and say nothing about cluster-scoped objects.
            if not kind.resource.namespaced:
                if sight.reads(consumer, name, ""):
                    states.update(kind.verdict(one).state for one in kinds.objects(kind, consumer))
                else:
                    unseen = True
                continue
            for namespace in kinds.namespaces(consumer):
                here = kind.numbers(namespace)
                if not here:
                    continue
                if sight.reads(consumer, name, namespace):
                    states.update(here)
                else:
                    unseen = True
        return Counts.of(states), unseen


def _unbound(row: BindingRow, known: ConsumerConnection | None) -> BindingRow:
    """Return the row of a cluster without a binding; a problem of its konnector comes first."""
    if known is None or known.verdict.state in {"ok", "unknown"}:
        return msgspec.structs.replace(row, helps="bind a template of the catalogue")
    verdict = known.verdict
    return msgspec.structs.replace(
        row, state=verdict.state, about=verdict.text, helps=verdict.remedy, since=verdict.since
    )


def _is_of(row: BindingRow, wanted: ListQuery) -> bool:
    of_kind = not wanted.kind or wanted.kind in row.kinds
    return of_kind and (not wanted.cluster or wanted.cluster in {row.cluster, row.namespace})


def _by_cluster(row: BindingRow) -> tuple[str, ...]:
    return row.cluster, row.namespace, row.binding


_ORDERS = {
    "cluster": _by_cluster,
    "state": lambda row: (RANKS[row.state], *_by_cluster(row)),
    "binding": lambda row: (row.binding, *_by_cluster(row)),
    "objects": lambda row: (-row.objects.total, *_by_cluster(row)),
    "heartbeat": lambda row: (row.heartbeat, *_by_cluster(row)),
}
