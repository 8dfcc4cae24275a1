"""The topology of a provider: clusters, their bindings, kinds, objects and roles."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.verdict import Judgement, short
from fairlead.portal.console.bindings.known import Consumers
from fairlead.portal.console.objects.kinds import FollowedKind
from fairlead.portal.console.objects.sights import Sight, Sights
from fairlead.portal.console.pages.rendering import Pages, segment
from fairlead.portal.console.pages.viewing import AskedPage, Topics, View
from fairlead.portal.console.topology.graph import PROVIDED, Edge, Graph, GraphNode, Shown
from fairlead.portal.console.topology.table import rows
from fairlead.portal.console.topology.tree import grow
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import NO_NAMESPACE
from fairlead.portal.model.states import RANKS
from fairlead.postgres.commands.links import role_by_status


MOST_OBJECTS = 5000
"""Largest number of objects in the graph; those with a problem come first."""
_ACCESSES: Final = POSTGRESACCESSES.group_resource


class ProvidedTopology(View):
    """The tree and the table; ?shown=problems leaves out chains that work."""

    route = "/topology"
    template = "topology.html"

    def __init__(self, consumers: Consumers, sights: Sights, pages: Pages) -> None:
        self._consumers = consumers
        self._sights = sights
        self._pages = pages

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return what the person may see of all consumers."""
        return await self._sights.all(session.person, self._consumers.exported())

    def topics(self, scope: Any) -> Topics:
        """Return the visible consumers, and "" for new ones."""
        return ("", *scope.own, *scope.consumers)

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the tree and the table's rows."""
        sight: Sight = scope
        shown: Shown = "problems" if asked.get("shown") == "problems" else "all"
        wanted = asked.get("cluster", 253)
        known = sorted(one for one in {*sight.own, *sight.consumers} if self._consumers.title(one))
        chosen = [one for one in known if wanted in {"", one, self._consumers.title(one)}]
        made = _Made(self._consumers, sight, self._pages, self._consumers.names(chosen))
        for consumer in chosen:
            made.add(consumer)
        graph = made.graph()
        return {
            "tree": grow(graph, shown) if graph.nodes else None,
            "table": rows(graph, shown),
            "shown": shown,
            "wanted": wanted,
            "notes": made.notes(),
        }


class _Made:
    """Builds the graph of a provider from the consumers that are added."""

    def __init__(
        self, consumers: Consumers, sight: Sight, pages: Pages, names: Mapping[str, str]
    ) -> None:
        self._consumers = consumers
        self._sight = sight
        self._pages = pages
        self._names = names
        self._nodes: list[GraphNode] = []
        self._edges: list[Edge] = []
        self._objects: list[tuple[Judgement, FollowedKind, Object, str, str]] = []
        self._hidden: dict[str, None] = {}

    def add(self, consumer: str) -> None:
        """Add a consumer's cluster with its bindings and their objects."""
        title = self._names[consumer]
        seen = self._sight.connections
        connection = self._consumers.connection(consumer) if consumer in seen else None
        verdict = connection.verdict if connection is not None else Judgement("unknown")
        cluster = f"cluster {consumer}"
        self._node(
            cluster,
            "cluster",
            "Cluster",
            title,
            verdict,
            title=self._consumers.title(consumer),
        )
        if consumer not in self._sight.consumers:
            return
        for export in self._consumers.exports(consumer):
            read = self._consumers.read(export)
            binding = f"export {consumer} {export.meta.name}"
            path = f"/bindings/{segment(consumer)}/{segment(export.meta.name)}"
            self._node(
                binding,
                "export",
                "Binding",
                export.meta.name,
                read.verdict,
                where=title,
                path=path,
            )
            self._edges.append(Edge(source=binding, target=cluster))
            for name in read.kinds:
                self._kind(consumer, title, binding, name)

    def _kind(self, consumer: str, title: str, binding: str, name: str) -> None:
        kinds = self._consumers.kinds
        kind, problem = kinds.get(name), kinds.problem(name)
        node = f"kind {consumer} {name}"
        verdict = Judgement("unknown", message=short(problem)) if problem else Judgement("ok")
        self._node(node, "kind", "Kind", name, verdict, where=title)
        self._edges.append(Edge(source=node, target=binding))
        if kind is None:
            return
        for found in kinds.objects(kind, consumer):
            if self._sight.reads(consumer, name, found.meta.namespace):
                verdict = kind.verdict(found)
                self._objects.append((verdict, kind, found, consumer, node))
            else:
                self._hidden[name] = None

    def graph(self) -> Graph:
        """Return the graph of all added consumers."""
        self._objects.sort(key=lambda one: RANKS[one[0].state])
        for verdict, kind, found, consumer, parent in islice(self._objects, MOST_OBJECTS):
            whose = self._consumers.kinds.whose(kind, found)
            namespace = found.meta.namespace
            node = f"object {kind.name} {namespace} {found.meta.name}"
            within = namespace or NO_NAMESPACE
            parts = (consumer, kind.name, within, found.meta.name)
            self._node(
                node,
                "object",
                found.kind,
                found.meta.name,
                verdict,
                # The namespace of the consumer, which is the one that its people know.
                where=(whose.namespace if whose is not None else "") or namespace,
                path="/objects/" + "/".join(map(segment, parts)),
            )
            self._edges.append(Edge(source=node, target=parent))
            if kind.name == _ACCESSES:
                self._role(node, found)
        return Graph(columns=PROVIDED, nodes=tuple(self._nodes), edges=tuple(self._edges))

    def _role(self, node: str, found: Object) -> None:
        link = role_by_status(found)
        name = link.object.removeprefix("role ")
        role = f"role of {node}"
        verdict = Judgement(link.state, link.reason, short(link.about), link.since)
        self._node(role, "role", "Role", name, verdict, helps=link.remedy)
        self._edges.append(Edge(source=node, target=role))

    def notes(self) -> list[str]:
        """Return sentences on what is not shown, and why."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        for name in self._hidden:
            yield f"You may not see all objects of {name}."
        if (left := len(self._objects) - MOST_OBJECTS) > 0:
            yield f"{left:,} objects are not shown: those with a problem come first."

    def _node(
        self,
        id_: str,
        column: str,
        kind: str,
        name: str,
        verdict: Judgement,
        *,
        where: str = "",
        title: str = "",
        path: str = "",
        helps: str = "",
    ) -> None:
        self._nodes.append(
            GraphNode(
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
                helps=helps or verdict.remedy,
                href=self._pages.path(path) if path else "",
            )
        )
