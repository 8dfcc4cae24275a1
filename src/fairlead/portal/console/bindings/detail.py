"""The page of a binding: its conditions, kinds and objects."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from fairlead.portal.console.bindings.known import (
    Consumers,
    kinds_of,
    object_row,
    problems,
    together,
    with_objects,
)
from fairlead.portal.console.claims import in_words
from fairlead.portal.console.objects.kinds import History, spec_of
from fairlead.portal.console.objects.sights import Sight, Sights
from fairlead.portal.console.pages.viewing import (
    AskedPage,
    MissingError,
    Topics,
    View,
)
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import (
    Counts,
    ListQuery,
    ObjectRow,
    order,
    page_of,
)
from fairlead.portal.model.states import RANKS, STATES
from fairlead.portal.model.thing import shown_conditions


class BindingPage(View):
    """The page of a binding: its conditions, kinds and objects."""

    route = "/bindings/{namespace}/{name}"
    template = "binding.html"

    def __init__(self, consumers: Consumers, sights: Sights, history: History) -> None:
        self._consumers = consumers
        self._sights = sights
        self._history = history

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return what the person may see of the consumer, for the binding's kinds.

        Raises:
            MissingError: the person neither owns the consumer nor may read its exports.
        """
        consumer, name = asked.name("namespace"), asked.name("name")
        export = self._consumers.export(consumer, name)
        kinds = kinds_of(export) if export is not None else ()
        sight = await self._sights.one(session.person, consumer, kinds)
        if consumer not in sight.consumers:
            raise _missing(name)
        return sight

    def topics(self, scope: Any) -> Topics:
        """Return the consumer, and "" for changes of namespaces."""
        return ("", *scope.consumers)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the export, its consumer's heartbeat, and the objects."""
        sight: Sight = scope
        consumer, name = asked.name("namespace"), asked.name("name")
        export = self._consumers.export(consumer, name)
        plain = {"consumer": consumer, "name": name, "cluster": self._consumers.title(consumer)}
        if export is None:
            return plain | {"export": None}
        known = self._consumers.connection(consumer) if consumer in sight.connections else None
        rows, hidden = self._objects(sight, consumer, kinds_of(export))
        counts = Counts.of(row.state for row in rows)
        verdict, remedy = with_objects(
            together(self._consumers.read(export).verdict, known), counts
        )
        wanted = ListQuery.of(asked.get)
        found = [
            row
            for row in rows
            if wanted.selects(row) and (not wanted.kind or row.resource == wanted.kind)
        ]
        spec = spec_of(export)
        return plain | {
            "export": export.meta,
            "verdict": verdict,
            "helps": remedy,
            "known": known,
            "conditions": shown_conditions(export, self._history.of(export.meta.uid)),
            "kinds": kinds_of(export),
            "scope": spec.informer_scope,
            "isolation": spec.isolation,
            "claims": in_words(spec.permission_claims),
            "counts": counts,
            "page": page_of(order(found, wanted.sort, _OBJECT_ORDERS, "state"), len(rows), wanted),
            "wanted": wanted,
            "states": STATES,
            "problems": [
                *problems(self._consumers.kinds, kinds_of(export)),
                *(f"You may not see all objects of {one}" for one in hidden),
            ],
        }

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return whether the person typed the binding's name, and whether they may delete it.

        Raises:
            MissingError: the binding does not exist.
        """
        consumer, name = asked.name("namespace"), asked.name("name")
        if self._consumers.export(consumer, name) is None:
            raise _missing(name)
        typed = asked.get("unbind", 253)
        mine = consumer in scope.own
        may = typed == name and await self._sights.may_delete(session.person, consumer, name)
        return {"typed": typed, "mine": mine, "may_delete": may}

    def _objects(
        self, sight: Sight, consumer: str, names: Iterable[str]
    ) -> tuple[list[ObjectRow], list[str]]:
        kinds = self._consumers.kinds
        rows: list[ObjectRow] = []
        hidden: dict[str, None] = {}
        for name in names:
            kind = kinds.get(name)
            if kind is None:
                continue
            for found in kinds.objects(kind, consumer):
                if sight.reads(consumer, name, found.meta.namespace):
                    rows.append(object_row(kinds, kind, found))
                else:
                    hidden[name] = None
        return rows, list(hidden)


def _missing(name: str) -> MissingError:
    return MissingError(
        f"There is no binding {name} for you",
        "It does not exist, or is not yours. Your bindings are listed under My bindings.",
    )


def _by_name(row: ObjectRow) -> tuple[str, ...]:
    return row.kind, row.where, row.namespace, row.name


_OBJECT_ORDERS = {
    "state": lambda row: (RANKS[row.state], *_by_name(row)),
    "name": _by_name,
    "since": lambda row: (row.since, *_by_name(row)),
}
