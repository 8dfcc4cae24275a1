"""The source of a provider's front door: its caches, as far as each person may see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from fairlead.api.kubebind import PermissionClaim
from fairlead.api.kubebind.claims import reference_targets
from fairlead.api.kubebind.conditions import HEARTBEAT_TIMEOUT
from fairlead.api.links import Chain, Link, join
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Judgement, short
from fairlead.portal import bounds
from fairlead.portal.console.claims import in_words
from fairlead.portal.console.pages.looking import SeenLook
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, path_of
from fairlead.portal.console.sources.consumers import (
    ConsumerConnection,
    Consumers,
    kinds_of,
    problems,
    short_names,
    together,
)
from fairlead.portal.console.sources.kinds import FollowedKind, History, spec_of
from fairlead.portal.console.sources.sights import Sight, Sights
from fairlead.portal.console.sources.source import ConsoleSource, SeenGraph
from fairlead.portal.console.topology.graph import PROVIDED, Edge, Graph, GraphNode
from fairlead.portal.handshake.catalog import KINDS
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import (
    NO_NAMESPACE,
    BindingDetail,
    BindingList,
    BindingRow,
    CountedList,
    Counts,
    Failure,
    ObjectRow,
    failure_of,
    latest,
    overview_of,
    row_of,
)
from fairlead.portal.model.thing import (
    RANKS,
    ThingPage,
    answer_of,
    body_of,
    explain_command,
    shown_conditions,
    side_of,
)
from fairlead.portal.model.timeline import timeline, writes_of
from fairlead.postgres.commands.links import role_by_status


_EVENTS_OF_CLUSTER: Final = "default"
"""The namespace of Events about cluster-scoped objects."""
_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)
"""Time of values that need no look."""
_ACCESSES: Final = POSTGRESACCESSES.group_resource


class VisibleObject(NamedTuple):
    """An object that a person may see, and their rights on Events, exports and the connection."""

    consumer: str
    kind: str
    namespace: str
    name: str
    events: bool
    exports: bool
    connection: bool


class _FailedObject(NamedTuple):
    """A failed object by its names, which cost less than its row."""

    consumer: str
    kind: FollowedKind
    namespace: str
    name: str
    since: str


class Provided(ConsoleSource):
    """Fills the model from the caches of :class:`Consumers`."""

    binding_route = "/bindings/{namespace}/{name}"
    object_route = "/objects/{namespace}/{resource}/{within}/{name}"
    empty = (
        ("You have bound nothing yet. Choose a template in the ", ""),
        ("catalogue", "/"),
        (".", ""),
    )
    other = "cluster"

    def __init__(self, consumers: Consumers, sights: Sights, history: History) -> None:
        self._consumers = consumers
        self._kinds = consumers.kinds
        self._sights = sights
        self._history = history

    async def everything(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return what the person may see of all consumers."""
        return await self._sights.all(session.person, self._consumers.exported())

    chains = everything

    async def binding(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return what the person may see of the consumer, for the binding's kinds.

        Raises:
            MissingError: the person neither owns the consumer nor may read its exports.
        """
        consumer, name = page.name("namespace"), page.name("name")
        export = self._consumers.export(consumer, name)
        kinds = kinds_of(export) if export is not None else ()
        sight = await self._sights.one(session.person, consumer, kinds)
        if consumer not in sight.consumers:
            raise _no_binding(name)
        return sight

    async def object(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return what the person may see of the object.

        Raises:
            MissingError: the person has no right, or the object is not this consumer's.
        """
        consumer, resource = page.name("namespace"), page.name("resource")
        within, name = page.name("within"), page.name("name")
        namespace = "" if within == NO_NAMESPACE else within
        kind = self._kinds.get(resource)
        missing = _no_object(resource, namespace, name)
        if kind is None or kind.resource.namespaced != bool(namespace):
            raise missing
        # The path may name this consumer and a namespace of another one.
        place = namespace in self._kinds.namespaces(consumer)
        if not self._consumers.title(consumer) or (namespace and not place):
            raise missing
        if not await self._sights.reads(session.person, consumer, kind, namespace):
            raise missing
        events = await self._sights.reads_events(
            session.person, consumer, namespace or _EVENTS_OF_CLUSTER
        )
        around = await self._sights.one(session.person, consumer, ())
        return VisibleObject(
            consumer,
            resource,
            namespace,
            name,
            events=events,
            exports=consumer in around.consumers,
            connection=consumer in around.connections,
        )

    def topics(self, scope: Any) -> Topics:
        """Return the visible consumers, and "" for new ones and cluster-scoped objects."""
        if isinstance(scope, VisibleObject):
            return ("", scope.consumer)
        return ("", *scope.own, *scope.consumers)

    async def bindings(self, scope: Any) -> SeenLook:
        """Return a row for each binding, and for each cluster without one."""
        rows = tuple(
            row for consumer in self._visible(scope) for row in self._rows(scope, consumer)
        )
        kinds = sorted({kind for row in rows for kind in row.kinds})
        return _now(BindingList(rows=rows, notes=problems(self._kinds, kinds), all=scope.all))

    async def overview(self, scope: Any) -> SeenLook:
        """Return numbers by state, what failed last, and silent konnectors."""
        bindings: list[BindingRow] = []
        objects: list[Counts] = []
        failed: list[_FailedObject] = []
        silent: list[Failure] = []
        more = False
        for consumer in self._visible(scope):
            counted: set[str] = set()
            for row in self._rows(scope, consumer):
                # Two bindings may name one kind, whose objects count once.
                kinds = [name for name in row.kinds if name not in counted]
                counted.update(kinds)
                repeated = len(kinds) < len(row.kinds)
                objects.append(
                    self._counts(scope, consumer, kinds)[0] if repeated else row.objects
                )
                more |= row.unseen
                if row.binding:
                    bindings.append(row)
            failed += self._failed(scope, consumer, counted)
            silent += self._silent(scope, consumer)
        failures = [self._failure(each) for each in latest(failed, lambda each: each.since)]
        failures += [failure_of(row) for row in bindings if row.state == "failed"]
        lists = [
            CountedList("Bindings", Counts.of(row.state for row in bindings), "/bindings"),
            CountedList("Objects", Counts.sum(objects), more=more),
        ]
        names = sorted({name for row in bindings for name in row.kinds})
        return _now(overview_of(lists, failures, silent, problems(self._kinds, names)))

    async def binding_detail(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the export, its consumer's heartbeat, and the objects; None if it is gone."""
        consumer, name = page.name("namespace"), page.name("name")
        export = self._consumers.export(consumer, name)
        if export is None:
            return _now(None)
        row = self._row(scope, consumer, export)
        objects, notes = self._seen(scope, consumer, row.kinds)
        connection = self._connection(scope, consumer)
        if (
            connection is not None
            and connection.verdict.state != "ok"
            and connection.verdict.text != row.about
        ):
            notes.append(f"Its konnector: {connection.verdict.text}.")
        spec = spec_of(export)
        copied = f"Your objects of {', '.join(row.kinds)} are copied to the provider, and their"
        return _now(
            BindingDetail(
                row=row,
                objects=tuple(self._object_row(consumer, *pair) for pair in objects),
                conditions=shown_conditions(export, self._history.of(export.meta.uid)),
                notes=(*problems(self._kinds, row.kinds), *notes),
                crumbs=(("My bindings", "/bindings"), (row.cluster, "")),
                since=export.meta.creation_timestamp or "",
                sentences=(
                    f"{copied} status back to you.",
                    *in_words(spec.permission_claims),
                    f"informerScope {spec.informer_scope}, isolation {spec.isolation}",
                ),
                templates=connection.templates if connection is not None else (),
            )
        )

    async def thing(self, scope: Any, page: AskedPage) -> SeenLook:
        """Return the object as of now; an open page stays open after its deletion."""
        obj = self._object(scope)
        if obj is None:
            return _now(None)
        kind, meta, body = self._kinds.get(scope.kind), obj.meta, body_of(obj)
        assert kind is not None  # noqa: S101  its object is there
        verdict, where = kind.verdict(obj), self._where(kind, obj)
        chain = provider_chain(obj, verdict)
        writers = ", ".join(dict.fromkeys(short(write.manager) for write in writes_of(obj)))
        facts = (
            ("Kind", f"{obj.kind} {obj.api_version}"),
            ("Your namespace", where),
            ("Namespace here", scope.namespace),
            ("Written by", writers),
        )
        turns = self._history.of(meta.uid)
        bindings = [
            (export.meta.name, path_of("bindings", scope.consumer, export.meta.name))
            for export in self._consumers.exports(scope.consumer)
            if scope.exports and scope.kind in kinds_of(export)
        ]
        return _now(
            ThingPage(
                kind=obj.kind,
                name=meta.name,
                namespace=scope.namespace,
                answer=answer_of(verdict, [chain]),
                command=explain_command(obj.kind, meta.name, where),
                facts=tuple((label, text) for label, text in facts if text),
                chains=(chain,) if len(chain.links) > 1 else (),
                conditions=shown_conditions(obj, turns),
                sides=(side_of("On the provider", body),),
                related=tuple(self._claimed(scope.consumer, obj, body)),
                timeline=tuple(timeline(obj, turns, kind.about(obj) if scope.events else ())),
                notes=tuple(self._notes(scope, kind)),
                crumbs=(
                    ("My bindings", "/bindings"),
                    (self._consumers.title(scope.consumer), ""),
                    *bindings,
                ),
            )
        )

    async def graph(self, scope: Any, cluster: str) -> SeenLook:
        """Return clusters, their bindings, kinds, objects and roles."""
        nodes: list[GraphNode] = []
        edges: list[Edge] = []
        objects: list[tuple[Judgement, FollowedKind, Object, str, str]] = []
        notes: dict[str, None] = {}
        chosen = [
            consumer
            for consumer in self._visible(scope)
            if cluster in {"", consumer, self._consumers.title(consumer)}
        ]
        names = short_names(filter(None, map(self._consumers.cluster, chosen)))
        for consumer in chosen:
            title, full = names[consumer], self._consumers.title(consumer)
            connection = self._connection(scope, consumer)
            verdict = connection.verdict if connection is not None else Judgement("unknown")
            top = f"cluster {consumer}"
            nodes.append(_node(top, "cluster", "Cluster", title, verdict, title=full))
            exports = self._consumers.exports(consumer) if consumer in scope.consumers else ()
            for export in exports:
                (kinds, verdict), name = self._consumers.read(export), export.meta.name
                binding, path = f"export {consumer} {name}", path_of("bindings", consumer, name)
                nodes.append(_node(binding, "export", "Binding", name, verdict, title, path))
                edges.append(Edge(source=binding, target=top))
                for kind in kinds:
                    node, verdict = f"kind {consumer} {kind}", Judgement("ok")
                    if problem := self._kinds.problem(kind):
                        verdict = Judgement("unknown", message=short(problem))
                    nodes.append(_node(node, "kind", "Kind", kind, verdict, title))
                    edges.append(Edge(source=node, target=binding))
                    visible, hidden = self._seen(scope, consumer, (kind,))
                    objects += ((of.verdict(obj), of, obj, consumer, node) for of, obj in visible)
                    notes |= dict.fromkeys(hidden)
        objects.sort(key=lambda each: RANKS[each[0].state])
        for verdict, of, obj, consumer, parent in objects[: bounds.OBJECTS]:
            namespace, name = obj.meta.namespace, obj.meta.name
            node = f"object {of.name} {namespace} {name}"
            # The namespace of the consumer, which is the one that its people know.
            where = self._where(of, obj) or namespace
            path = path_of("objects", consumer, of.name, namespace, name)
            nodes.append(_node(node, "object", obj.kind, name, verdict, where, path))
            edges.append(Edge(source=node, target=parent))
            if of.name == _ACCESSES:
                link, role = role_by_status(obj), f"role of {node}"
                judgement = Judgement(
                    link.state, link.reason, short(link.about), link.since, remedy=link.remedy
                )
                nodes.append(
                    _node(role, "role", "Role", link.object.removeprefix("role "), judgement)
                )
                edges.append(Edge(source=node, target=role))
        if (left := len(objects) - bounds.OBJECTS) > 0:
            notes[f"{left:,} objects are not shown: those with a problem come first."] = None
        graph = Graph(columns=PROVIDED, nodes=tuple(nodes), edges=tuple(edges))
        return _now(SeenGraph(graph, tuple(notes), cluster))

    def gone(self, scope: Any, page: AskedPage) -> MissingError | None:
        """Return the error if the binding or object that a new page names is gone."""
        if isinstance(scope, VisibleObject):
            there = self._object(scope) is not None
            return None if there else _no_object(scope.kind, scope.namespace, scope.name)
        name = page.name("name")
        there = self._consumers.export(page.name("namespace"), name) is not None
        return None if there else _no_binding(name)

    async def may_delete(self, session: BrowserSession, page: AskedPage) -> bool:
        """Whether the person may delete the binding's export at the provider."""
        return await self._sights.may_delete(
            session.person, page.name("namespace"), page.name("name")
        )

    def _visible(self, sight: Sight) -> list[str]:
        every = {*sight.own, *sight.consumers}
        return sorted(consumer for consumer in every if self._consumers.title(consumer))

    def _connection(self, sight: Sight, consumer: str) -> ConsumerConnection | None:
        return self._consumers.connection(consumer) if consumer in sight.connections else None

    def _rows(self, sight: Sight, consumer: str) -> Iterator[BindingRow]:
        if consumer not in sight.consumers:
            yield msgspec.structs.replace(
                self._plain(sight, consumer),
                about=f"its login may not list APIServiceExports in namespace {consumer}",
                helps="ask the provider's team to invite the cluster again",
            )
            return
        exports = self._consumers.exports(consumer)
        if not exports:
            yield _unbound(self._plain(sight, consumer), self._connection(sight, consumer))
        for export in exports:
            yield self._row(sight, consumer, export)

    def _plain(self, sight: Sight, consumer: str) -> BindingRow:
        """Return the row of a consumer without a binding."""
        connection = self._connection(sight, consumer)
        return BindingRow(
            cluster=self._consumers.title(consumer),
            namespace=consumer,
            heartbeat=connection.status.last_heartbeat_time or ""
            if connection is not None
            else "",
            version=connection.status.konnector_version if connection is not None else "",
        )

    def _row(self, sight: Sight, consumer: str, export: Object) -> BindingRow:
        kinds, verdict = self._consumers.read(export)
        verdict = together(verdict, self._connection(sight, consumer))
        # Objects that fail are counted beside it, and are no fault of the binding.
        counts, unseen = self._counts(sight, consumer, kinds)
        return msgspec.structs.replace(
            self._plain(sight, consumer),
            binding=export.meta.name,
            at=path_of("bindings", consumer, export.meta.name),
            state=verdict.state,
            about=verdict.text if verdict.state != "ok" else "",
            helps=verdict.remedy,
            since=verdict.since,
            kinds=kinds,
            objects=counts,
            unseen=unseen,
        )

    def _counts(self, sight: Sight, consumer: str, names: Iterable[str]) -> tuple[Counts, bool]:
        """Return the numbers of a consumer's objects, and whether there may be others."""
        states: Counter[State] = Counter()
        unseen = False
        for name in names:
            unseen |= bool(self._kinds.problem(name))
            for kind, namespace in self._places(consumer, name):
                if not sight.reads(consumer, name, namespace):
                    unseen = True
                # Numbers are kept per namespace, and say nothing about cluster-scoped objects.
                elif kind.resource.namespaced:
                    states.update(kind.numbers(namespace))
                else:
                    of = self._kinds.objects(kind, consumer)
                    states.update(kind.verdict(obj).state for obj in of)
        return Counts.of(states), unseen

    def _places(self, consumer: str, name: str) -> Iterator[tuple[FollowedKind, str]]:
        """Yield a kind with each namespace of a consumer's objects, "" for cluster-scoped ones."""
        kind = self._kinds.get(name)
        if kind is None:
            return
        if not kind.resource.namespaced:
            yield kind, ""
            return
        for namespace in self._kinds.namespaces(consumer):
            if kind.numbers(namespace):
                yield kind, namespace

    def _seen(
        self, sight: Sight, consumer: str, names: Iterable[str]
    ) -> tuple[list[tuple[FollowedKind, Object]], list[str]]:
        """Return a consumer's objects that the person may see, and notes on the others."""
        objects: list[tuple[FollowedKind, Object]] = []
        hidden: dict[str, None] = {}
        for name in names:
            kind = self._kinds.get(name)
            for obj in self._kinds.objects(kind, consumer) if kind is not None else ():
                if kind is not None and sight.reads(consumer, name, obj.meta.namespace):
                    objects.append((kind, obj))
                else:
                    hidden[f"You may not see all objects of {name}."] = None
        return objects, list(hidden)

    def _object_row(self, consumer: str, kind: FollowedKind, obj: Object) -> ObjectRow:
        return row_of(
            obj,
            kind.verdict(obj),
            resource=kind.name,
            at=path_of("objects", consumer, kind.name, obj.meta.namespace, obj.meta.name),
            where=self._where(kind, obj),
        )

    def _where(self, kind: FollowedKind, obj: Object) -> str:
        """Return the namespace of an object that its consumer knows."""
        whose = self._kinds.whose(kind, obj)
        return whose.namespace if whose is not None else ""

    def _failed(self, sight: Sight, consumer: str, names: set[str]) -> Iterator[_FailedObject]:
        """Yield a consumer's failed objects; only namespaces with one are looked through."""
        places = (place for name in names for place in self._places(consumer, name))
        for kind, namespace in places:
            if not sight.reads(consumer, kind.name, namespace):
                continue
            verdicts = kind.verdicts(namespace)
            if not namespace:
                of = self._kinds.objects(kind, consumer)
                verdicts = {obj.meta.name: kind.verdict(obj) for obj in of}
            elif not kind.numbers(namespace).get("failed"):
                continue
            for name, verdict in verdicts.items():
                if verdict.state == "failed":
                    yield _FailedObject(consumer, kind, namespace, name, verdict.since)

    def _failure(self, failed: _FailedObject) -> Failure:
        obj = failed.kind.objects.get(failed.namespace, failed.name)
        assert obj is not None  # noqa: S101  its verdict lives as long as the object
        row = self._object_row(failed.consumer, failed.kind, obj)
        return failure_of(row, self._consumers.title(failed.consumer))

    def _silent(self, sight: Sight, consumer: str) -> Iterator[Failure]:
        connection = self._connection(sight, consumer)
        if connection is None or connection.verdict.reason != HEARTBEAT_TIMEOUT:
            return
        exports = self._consumers.exports(consumer) if consumer in sight.consumers else []
        names = (consumer, exports[0].meta.name) if exports else ()
        yield Failure(
            text=self._consumers.title(consumer),
            at=path_of("bindings", *names),
            state=connection.verdict.state,
            message=connection.verdict.text,
            remedy=connection.verdict.remedy,
            since=connection.status.last_heartbeat_time or connection.verdict.since,
        )

    def _object(self, visible: VisibleObject) -> Object | None:
        kind = self._kinds.get(visible.kind)
        obj = kind.objects.get(visible.namespace, visible.name) if kind is not None else None
        if kind is None or obj is None:
            return None
        whose = self._kinds.whose(kind, obj)
        return obj if whose is not None and whose.consumer == visible.consumer else None

    def _notes(self, visible: VisibleObject, kind: FollowedKind) -> Iterator[str]:
        connection = self._consumers.connection(visible.consumer) if visible.connection else None
        if connection is not None and connection.verdict.state != "ok":
            silent = connection.verdict
            yield (
                f"{silent.text}. This state may not have reached your cluster. Remedy:"
                f" {silent.remedy}."
            )
        if kind.problem:
            yield f"{kind.problem}."
        if kind.events_problem:
            yield f"{kind.events_problem}."
        elif not visible.events:
            where = visible.namespace or _EVENTS_OF_CLUSTER
            yield (
                f"Events are not shown: you may not list events in namespace {where}, and your"
                " cluster's login may not either."
            )

    def _claimed(self, consumer: str, obj: Object, body: JSON) -> list[tuple[str, str]]:
        """Return kind and name of the related objects that the object's fields name."""
        named: dict[tuple[str, str], None] = {}
        for export in self._consumers.exports(consumer):
            for claim in spec_of(export).permission_claims:
                for name in self._named(claim, obj, body):
                    named[(KINDS.get(claim.resource, claim.resource), short(name))] = None
        return list(named)[: bounds.RELATED]

    def _named(self, claim: PermissionClaim, obj: Object, body: JSON) -> Iterator[str]:
        group = obj.api_version.partition("/")[0]
        for reference in claim.selector.references:
            kind = self._kinds.get(reference.name)
            if kind and (reference.group, kind.resource.kind) == (group, obj.kind):
                yield from sorted(key.name for key in reference_targets(reference, body).keys)


def _node(
    id_: str,
    column: str,
    kind: str,
    name: str,
    verdict: Judgement,
    where: str = "",
    path: str = "",
    *,
    title: str = "",
) -> GraphNode:
    return GraphNode(
        id=id_,
        column=column,
        kind=kind,
        name=name,
        where=where,
        title=title,
        state=verdict.state,
        reason=verdict.reason,
        about=verdict.message,
        since=verdict.since,
        helps=verdict.remedy,
        href=path,
    )


def provider_chain(obj: Object, verdict: Judgement) -> Chain:
    """Return the provider's links of an object: itself, and the role of a PostgresAccess."""
    subject = f"{obj.kind} {obj.key}"
    link = Link(
        name="provider",
        object=subject,
        state=verdict.state,
        about=verdict.message or verdict.reason or ("is Ready" if verdict.state == "ok" else ""),
        reason=verdict.reason,
        remedy=verdict.remedy,
        since=verdict.since,
    )
    group = obj.api_version.partition("/")[0]
    if (group, obj.kind) != (POSTGRESACCESSES.group, POSTGRESACCESSES.kind):
        return join(subject, [link])
    return join(subject, [link, role_by_status(obj)])


def _unbound(row: BindingRow, connection: ConsumerConnection | None) -> BindingRow:
    """Return the row of a cluster without a binding; a problem of its konnector comes first."""
    if connection is None or connection.verdict.state in {"ok", "unknown"}:
        return msgspec.structs.replace(row, helps="bind a template of the catalogue")
    verdict = connection.verdict
    return msgspec.structs.replace(
        row, state=verdict.state, about=verdict.text, helps=verdict.remedy, since=verdict.since
    )


def _now(value: Any) -> SeenLook:
    """Return a value of the caches, which needs no look."""
    return SeenLook(value, at=_ALWAYS)


def _no_binding(name: str) -> MissingError:
    return MissingError(
        f"There is no binding {name} for you",
        "It does not exist, or is not yours. Your bindings are listed under My bindings.",
    )


def _no_object(resource: str, namespace: str, name: str) -> MissingError:
    text = f"{resource} {namespace}/{name}" if namespace else f"{resource} {name}"
    return MissingError(
        f"There is no object {text} for you",
        "It does not exist, or is not yours. Your objects are listed with your bindings.",
    )
