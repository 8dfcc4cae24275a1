"""The pages about bindings and objects, which both consoles have. Each asks its source."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.portal import bounds
from fairlead.portal.console.examples import example
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View, path_of
from fairlead.portal.console.sources.consumers import Consumers
from fairlead.portal.console.sources.sights import Sights
from fairlead.portal.console.sources.source import ConsoleSource, SeenGraph
from fairlead.portal.console.topology.graph import Graph, Shown
from fairlead.portal.console.topology.tree import grow, rows
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.model.lists import (
    BindingList,
    BindingRow,
    Counts,
    ListedObjects,
    ListQuery,
    ObjectRow,
    Words,
    order,
    page_of,
)
from fairlead.portal.model.thing import RANKS, STATES


if TYPE_CHECKING:
    from fairlead.portal.console.sources.cluster import OwnCluster

_UNUSED: Words = (("Create an object of a bound kind, and a ServiceBinding for your app.", ""),)


class _OfSource(View):
    """Base of the pages about all that a person may see."""

    def __init__(self, source: ConsoleSource) -> None:
        self._source = source

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the source's scope of the page."""
        return await self._source.everything(session, page)

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the scope."""
        return self._source.topics(scope)

    def _check(self, scope: Any, page: AskedPage) -> None:
        if missing := self._source.gone(scope, page):
            raise missing


class OverviewPage(_OfSource):
    """Numbers by state, what failed last, and silent konnectors."""

    route = "/overview"
    template = "overview.html"

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the overview."""
        return {"seen": await self._source.overview(scope)}


class BindingsPage(_OfSource):
    """The list of all bindings, filtered by the query."""

    route = "/bindings"
    template = "bindings.html"

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return a row for each binding, and for each cluster without one."""
        last = await self._source.bindings(scope)
        every: BindingList = last.value or BindingList()
        query = ListQuery.of(page.get)
        clusters = sorted({row.cluster for row in every.rows if row.cluster})
        rows = [row for row in every.rows if query.selects(row) and _is_of(row, query)]
        return {
            "seen": last,
            "page": page_of(
                order(rows, query.sort, _BINDING_ORDERS, "cluster"), len(every.rows), query
            ),
            "wanted": query,
            "all": every.all,
            "states": STATES,
            "kinds": sorted({kind for row in every.rows for kind in row.kinds}),
            "clusters": clusters if len(clusters) <= bounds.CHOICES else [],
            "namespaces": sorted({row.within for row in every.rows if row.within}),
            "notes": every.notes,
            "other": self._source.other,
            "empty": self._source.empty,
        }


class ObjectsPage(_OfSource):
    """The list of all objects of one's own cluster, filtered by the query."""

    route = "/"
    template = "objects.html"
    _source: OwnCluster

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the objects that the query selects, the worst first."""
        last = await self._source.objects(scope)
        every: ListedObjects = last.value or ListedObjects()
        return {
            "seen": last,
            **_listed(every.rows, page, lambda row: row.kind),
            "counts": Counts.of(row.state for row in every.rows),
            "kinds": sorted({row.kind for row in every.rows}),
            "namespaces": sorted({row.namespace for row in every.rows if row.namespace}),
            "notes": every.notes,
            "empty": self._source.empty,
        }


class BindingPage(_OfSource):
    """The page of a binding: its conditions, kinds and objects."""

    template = "binding.html"

    def __init__(self, source: ConsoleSource) -> None:
        super().__init__(source)
        self.route = source.binding_route

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the source's scope of the binding."""
        return await self._source.binding(session, page)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the binding and its objects, the worst first."""
        last = await self._source.binding_detail(scope, page)
        objects = last.value.objects if last.value is not None else ()
        return {
            "seen": last,
            "name": page.name("name"),
            "other": self._source.other,
            **_listed(objects, page, lambda row: row.resource),
        }

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return whether the person typed the binding's name, and whether they may delete it.

        Raises:
            MissingError: the binding does not exist.
        """
        self._check(scope, page)
        typed = page.get("unbind", 253)
        may = typed == page.name("name") and await self._source.may_delete(session, page)
        return {"typed": typed, "may_delete": may}


class MirrorPage(_OfSource):
    """The page of a Connection, ClusterBinding or Binding of kbind v2.

    Its path has the kind's ``plural.group``, as that of an object has: v1alpha2 has a kind
    ClusterBinding, too.
    """

    route = "/bindings/{resource}/{namespace}/{name}"
    template = "mirror.html"
    _source: OwnCluster

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the source's scope of the Connection or binding."""
        return await self._source.mirror(session, page)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the Connection or binding and its objects, the worst first."""
        last = await self._source.mirror_detail(scope, page)
        objects = last.value.objects if last.value is not None else ()
        return {
            "seen": last,
            "name": page.name("name"),
            **_listed(objects, page, lambda row: row.resource),
            "namespaces": sorted({row.namespace for row in objects if row.namespace}),
            "most": bounds.ROWS_OF_A_PAGE,
        }


class ObjectPage(_OfSource):
    """The page of an object: its verdict, both of its sides, and its timeline."""

    template = "thing.html"

    def __init__(self, source: ConsoleSource) -> None:
        super().__init__(source)
        self.route = source.object_route

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the source's scope of the object."""
        return await self._source.object(session, page)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the object as of now."""
        return {"seen": await self._source.thing(scope, page), "name": page.name("name")}

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return nothing, but fail if the object does not exist.

        Raises:
            MissingError: the object does not exist.
        """
        self._check(scope, page)
        return {}


class TopologyPage(_OfSource):
    """The tree and the table of all chains; ?shown=problems leaves out those that work."""

    route = "/topology"
    template = "topology.html"

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the source's scope of the chains."""
        return await self._source.chains(session, page)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the tree and the table's rows."""
        shown: Shown = "problems" if page.get("shown") == "problems" else "all"
        last = await self._source.graph(scope, page.get("cluster", 253))
        graph, notes, cluster = last.value or SeenGraph(Graph())
        advised = last.value is not None and not graph.nodes and not cluster
        return {
            "seen": last,
            "tree": grow(graph, shown) if graph.nodes else None,
            "table": rows(graph, shown),
            "shown": shown,
            "wanted": cluster,
            "notes": notes,
            "empty": await self._advice(scope) if advised else (),
        }

    async def _advice(self, scope: Any) -> Words:
        """Return the words for who has no chains: bindings alone make none."""
        bindings: BindingList | None = (await self._source.bindings(scope)).value
        return _UNUSED if bindings is not None and bindings.rows else self._source.empty


class NewObjectPage(View):
    """An example of a bound kind, to copy and to apply in the consumer's cluster."""

    route = "/bindings/{namespace}/{name}/new/{resource}"
    template = "newobject.html"

    def __init__(self, consumers: Consumers, sights: Sights) -> None:
        self._consumers = consumers
        self._sights = sights

    async def scope(self, session: BrowserSession, page: AskedPage) -> str:
        """Return the kind as ``plural.group``.

        Raises:
            MissingError: the person may not see the binding, or it has no such kind.
        """
        consumer, name = page.name("namespace"), page.name("name")
        resource = page.name("resource")
        export = self._consumers.export(consumer, name)
        sight = await self._sights.one(session.person, consumer, ())
        kinds = self._consumers.read(export).kinds if export is not None else ()
        if consumer not in sight.consumers or resource not in kinds:
            raise MissingError(
                f"There is no kind {resource} in a binding {name} for you",
                "The page of a binding lists its kinds.",
            )
        return resource

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the binding, the kind and the example.

        Raises:
            MissingError: the kind's schema is unknown.
        """
        kinds = self._consumers.kinds
        kind, schema = kinds.get(scope), kinds.schema(scope)
        if kind is None or schema is None:
            raise MissingError(f"The fields of {scope} are not known", kinds.problem(scope))
        resource, consumer, name = kind.resource, page.name("namespace"), page.name("name")
        return {
            "crumbs": (("My bindings", "/bindings"), (name, path_of("bindings", consumer, name))),
            "cluster": self._consumers.title(consumer),
            "resource": resource,
            "file": f"{resource.kind.lower()}.yaml",
            "example": example(
                schema,
                api_version=resource.api_version,
                kind=resource.kind,
                namespaced=resource.namespaced,
            ),
        }


def _listed(
    every: Sequence[ObjectRow], page: AskedPage, kind: Callable[[ObjectRow], str]
) -> dict[str, Any]:
    """Return the page of a list of objects that the query names, the worst first."""
    query = ListQuery.of(page.get)
    selected = [
        row
        for row in every
        if query.selects(row)
        and query.kind in {"", kind(row)}
        and query.namespace in {"", row.namespace}
    ]
    rows = order(selected, query.sort, _OBJECT_ORDERS, "state")
    return {"page": page_of(rows, len(every), query), "wanted": query, "states": STATES}


def _is_of(row: BindingRow, query: ListQuery) -> bool:
    of_kind = not query.kind or query.kind in row.kinds
    of_kind = of_kind and query.namespace in {"", row.within}
    return of_kind and (not query.cluster or query.cluster in {row.cluster, row.namespace})


def _by_cluster(row: BindingRow) -> tuple[str, ...]:
    return row.cluster, row.namespace, row.within, row.binding, row.kind


def _by_name(row: ObjectRow) -> tuple[str, ...]:
    return row.kind, row.where, row.namespace, row.name


_BINDING_ORDERS: Mapping[str, Callable[[BindingRow], Any]] = {
    "cluster": _by_cluster,
    "state": lambda row: (RANKS[row.state], *_by_cluster(row)),
    "binding": lambda row: (row.binding, *_by_cluster(row)),
    "objects": lambda row: (-row.objects.total, *_by_cluster(row)),
    "heartbeat": lambda row: (row.heartbeat, *_by_cluster(row)),
}
_OBJECT_ORDERS: Mapping[str, Callable[[ObjectRow], Any]] = {
    "state": lambda row: (RANKS[row.state], *_by_name(row)),
    "name": _by_name,
    "since": lambda row: (row.since, *_by_name(row)),
}
