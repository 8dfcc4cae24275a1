"""Bindings: the list of a provider's exports, and the page of one with its objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from fairlead.api.conditions import Condition
from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceExport,
    ClusterBinding,
    ClusterBindingStatus,
)
from fairlead.api.kubebind.conditions import HEALTHY
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.model import State
from fairlead.api.resource import NAMESPACES
from fairlead.api.timestamps import moment
from fairlead.portal.console.claims import in_words
from fairlead.portal.console.live import Hub
from fairlead.portal.console.objects.history import History
from fairlead.portal.console.objects.kinds import FollowedKind, Kinds, spec_of
from fairlead.portal.console.objects.rows import (
    BindingRow,
    Counts,
    ListQuery,
    ObjectRow,
    badness,
    order,
    page_of,
)
from fairlead.portal.console.objects.sights import Sight, Sights
from fairlead.portal.console.objects.standing import (
    Standing,
    by_conditions,
    conditions_of,
    helps,
    is_foreign,
    short,
)
from fairlead.portal.console.states import STATES
from fairlead.portal.console.topology.text import legible
from fairlead.portal.console.viewing import AskedPage, MissingError, Topics, View, of_namespace
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.identity import title_of
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of
from fairlead.runtime import Cluster, Delta


AT_CLUSTER_SCOPE = "-"
"""Segment of a path in place of the namespace of cluster-scoped objects."""


MOST_CHOICES = 50
"""Largest number of clusters in the select box; with more, the name is typed."""


class ConsumerConnection(NamedTuple):
    """A consumer's ClusterBinding, with the heartbeat judged as of now."""

    status: ClusterBindingStatus
    stands: Standing
    templates: tuple[str, ...] = ()


class _Export(NamedTuple):
    """An export's kinds and state, decoded once per resourceVersion."""

    kinds: tuple[str, ...]
    stands: Standing


class _Beat(NamedTuple):
    """A decoded ClusterBinding; the heartbeat is judged later, since it depends on the time."""

    status: ClusterBindingStatus
    conditions: tuple[Condition, ...]
    templates: tuple[str, ...]


class TurnedCondition(msgspec.Struct, frozen=True):
    """A condition as a page shows it, with its known history."""

    condition: Condition
    state: State
    helps: str
    before: tuple[tuple[str, str, str], ...] = ()
    """Time, status and reason of earlier transitions, the newest first."""


class Consumers:
    """The consumers in the caches, shared by the views of bindings and objects."""

    def __init__(self, cluster: Cluster, hub: Hub, kinds: Kinds) -> None:
        self.kinds = kinds
        self._namespaces = hub.informer(
            cluster, NAMESPACES, topics=of_namespace, metadata_only=True
        )
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._connections = hub.informer(cluster, CLUSTERBINDINGS)
        self._read: dict[Key, _Export] = {}
        self._beats: dict[str, _Beat] = {}
        self._exports.subscribe(self._exported)
        self._connections.subscribe(self._beaten)

    def exported(self) -> dict[str, frozenset[str]]:
        """Return the kinds exported to each consumer, by cluster namespace."""
        found: dict[str, set[str]] = {
            one.meta.name: set() for one in self._namespaces.list() if identity_of(one)
        }
        for export in self._exports.list():
            if export.meta.namespace in found:
                found[export.meta.namespace].update(self.read(export).kinds)
        return {name: frozenset(kinds) for name, kinds in found.items()}

    def export(self, consumer: str, name: str) -> Object | None:
        """Return an export of a consumer."""
        return self._exports.get(consumer, name) if self.title(consumer) else None

    def exports(self, consumer: str) -> list[Object]:
        """Return the exports of a consumer, ordered by name."""
        return sorted(self._exports.list(consumer), key=lambda one: one.meta.name)

    def title(self, consumer: str) -> str:
        """Return name and identity of a consumer's cluster; "" without such a consumer."""
        namespace = self._namespaces.get("", consumer)
        if namespace is None or not identity_of(namespace):
            return ""
        connection = self._connections.get(consumer, CLUSTER_BINDING_NAME)
        told = connection.meta.annotations if connection is not None else {}
        title = title_of(identity_of(namespace), told.get(ANNOTATION_CLUSTER_PRETTY_NAME, ""))
        return short(legible(title))

    def connection(self, consumer: str) -> ConsumerConnection | None:
        """Return a consumer's connection; None without a valid ClusterBinding."""
        found = self._beats.get(consumer)
        if found is None:
            return None
        judged, _ = health(found.status, now=moment())
        now = Condition(HEALTHY, judged.status, judged.reason, judged.message)
        stands = by_conditions([now, *found.conditions])
        return ConsumerConnection(found.status, stands, found.templates)

    def read(self, export: Object) -> _Export:
        """Return the kinds and the state of a cached export."""
        known = self._read.get(export.key)
        return known if known is not None else _read(export)

    def _exported(self, delta: Delta) -> None:
        if delta.new is None:
            self._read.pop(delta.object.key, None)
        else:
            self._read[delta.new.key] = _read(delta.new)

    def _beaten(self, delta: Delta) -> None:
        namespace, name = delta.object.key
        beat = _beat(delta.new) if delta.new is not None else None
        if name != CLUSTER_BINDING_NAME:
            return
        if beat is None:
            self._beats.pop(namespace, None)
        else:
            self._beats[namespace] = beat


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
        wanted = ListQuery.of(asked)
        rows = [
            row
            for consumer in {*sight.own, *sight.consumers}
            if self._consumers.title(consumer)
            for row in self._rows(sight, consumer)
        ]
        found = [row for row in rows if wanted.fits(row) and _is_of(row, wanted)]
        page = page_of(order(found, wanted.sort, _ORDERS, "cluster"), len(rows), asked, wanted)
        kinds = sorted({kind for row in rows for kind in row.kinds})
        clusters = sorted({row.cluster for row in rows})
        return {
            "page": page,
            "wanted": wanted,
            "all": sight.all,
            "states": STATES,
            "kinds": kinds,
            "clusters": clusters if len(clusters) <= MOST_CHOICES else [],
            "problems": _problems(self._consumers.kinds, kinds),
        }

    def _rows(self, sight: Sight, consumer: str) -> Iterator[BindingRow]:
        cluster = self._consumers.title(consumer)
        known = self._consumers.connection(consumer) if consumer in sight.connections else None
        heartbeat = short(known.status.last_heartbeat_time) if known is not None else ""
        version = short(known.status.konnector_version) if known is not None else ""
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
            kinds, stands = self._consumers.read(export)
            stands = _together(stands, known)
            counts, unseen = self._counts(sight, consumer, kinds)
            stands, remedy = _with_objects(stands, counts)
            yield BindingRow(
                cluster=cluster,
                namespace=consumer,
                heartbeat=heartbeat,
                version=version,
                binding=export.meta.name,
                state=stands.state,
                about=stands.about if stands.state != "ok" else "",
                helps=remedy,
                since=stands.since,
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
            if not kind.resource.namespaced:
                if sight.reads(consumer, name, ""):
                    states.update(
                        kind.standing(one).state for one in kinds.objects(kind, consumer)
                    )
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
        stands, remedy = _with_objects(
            _together(self._consumers.read(export).stands, known), counts
        )
        wanted = ListQuery.of(asked)
        found = [
            row
            for row in rows
            if wanted.fits(row) and (not wanted.kind or row.resource == wanted.kind)
        ]
        spec = spec_of(export)
        return plain | {
            "export": export.meta,
            "stands": stands,
            "helps": remedy,
            "known": known,
            "conditions": shown_conditions(conditions_of(export), self._history, export),
            "kinds": kinds_of(export),
            "scope": spec.informer_scope,
            "isolation": spec.isolation,
            "claims": in_words(spec.permission_claims),
            "counts": counts,
            "page": page_of(
                order(found, wanted.sort, _OBJECT_ORDERS, "state"), len(rows), asked, wanted
            ),
            "wanted": wanted,
            "states": STATES,
            "problems": [
                *_problems(self._consumers.kinds, kinds_of(export)),
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


def object_row(kinds: Kinds, kind: FollowedKind, found: Object) -> ObjectRow:
    """Return the row of a cached object."""
    stands = kind.standing(found)
    whose = kinds.whose(kind, found)
    return ObjectRow(
        kind=found.kind,
        resource=kind.name,
        namespace=found.meta.namespace,
        name=found.meta.name,
        where=whose.namespace if whose is not None else "",
        state=stands.state,
        about=stands.about,
        helps=stands.helps,
        since=stands.since,
    )


def kinds_of(export: Object) -> tuple[str, ...]:
    """Return the kinds of an export, as plural and group."""
    return tuple(dict.fromkeys(one.name for one in spec_of(export).resources))


def shown_conditions(
    conditions: Iterable[Condition], history: History, found: Object
) -> list[TurnedCondition]:
    """Return conditions with the transitions that this process saw, the worst first."""
    turns = history.of(found.meta.uid)
    shown = [
        TurnedCondition(
            one,
            state := state_of(one),
            ""
            if state == "ok"
            else helps(one.reason, one.message, foreign=is_foreign(found, one)),
            tuple((turn.at, turn.status, turn.reason) for turn in turns if turn.type == one.type),
        )
        for one in conditions
    ]
    return sorted(shown, key=lambda one: (badness(one.state), one.condition.type))


def _read(export: Object) -> _Export:
    try:
        spec = export.decode(APIServiceExport).spec
    except msgspec.ValidationError as error:
        return _Export((), Standing("failed", "Invalid", short(str(error))))
    kinds = tuple(dict.fromkeys(one.name for one in spec.resources))
    return _Export(kinds, by_conditions(conditions_of(export)))


def _beat(found: Object) -> _Beat | None:
    try:
        status = found.decode(ClusterBinding).status
        templates = record_of(found).templates or ()
    except msgspec.ValidationError:
        return None
    others = tuple(one for one in conditions_of(found) if one.type != HEALTHY)
    return _Beat(status, others, templates)


def _together(stands: Standing, known: ConsumerConnection | None) -> Standing:
    """Return the worse of the export's state and the connection's."""
    if known is None or badness(stands.state) <= badness(known.stands.state):
        return stands
    return known.stands


def _with_objects(stands: Standing, counts: Counts) -> tuple[Standing, str]:
    """Return a binding's state with its objects', and the remedy."""
    if stands.state != "ok" or not counts.failed:
        return stands, stands.helps
    about = f"{counts.failed} of {counts.total} objects fail"
    return Standing("failed", message=about), "see what each of its objects needs"


def _unbound(row: BindingRow, known: ConsumerConnection | None) -> BindingRow:
    """Return the row of a cluster without a binding; a problem of its konnector comes first."""
    if known is None or known.stands.state in {"ok", "unknown"}:
        return msgspec.structs.replace(row, helps="bind a template of the catalogue")
    stands = known.stands
    return msgspec.structs.replace(
        row, state=stands.state, about=stands.about, helps=stands.helps, since=stands.since
    )


def _is_of(row: BindingRow, wanted: ListQuery) -> bool:
    of_kind = not wanted.kind or wanted.kind in row.kinds
    return of_kind and (not wanted.cluster or wanted.cluster in {row.cluster, row.namespace})


def _problems(kinds: Kinds, names: Iterable[str]) -> list[str]:
    return [problem for name in names if (problem := kinds.problem(name))]


def _missing(name: str) -> MissingError:
    return MissingError(
        f"There is no binding {name} for you",
        "It does not exist, or is not yours. Your bindings are listed under My bindings.",
    )


def _by_cluster(row: BindingRow) -> tuple[str, ...]:
    return row.cluster, row.namespace, row.binding


_ORDERS = {
    "cluster": _by_cluster,
    "state": lambda row: (badness(row.state), *_by_cluster(row)),
    "binding": lambda row: (row.binding, *_by_cluster(row)),
    "objects": lambda row: (-row.objects.total, *_by_cluster(row)),
    "heartbeat": lambda row: (row.heartbeat, *_by_cluster(row)),
}


def _by_name(row: ObjectRow) -> tuple[str, ...]:
    return row.kind, row.where, row.namespace, row.name


_OBJECT_ORDERS = {
    "state": lambda row: (badness(row.state), *_by_name(row)),
    "name": _by_name,
    "since": lambda row: (row.since, *_by_name(row)),
}
