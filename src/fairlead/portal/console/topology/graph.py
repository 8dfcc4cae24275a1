"""The graph of a topology: parts in columns, edges to what each needs, and where chains break."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from fairlead.api.kbind import CONNECTIONS
from fairlead.api.links import ORDER, Link
from fairlead.api.reasons.model import State
from fairlead.portal import bounds
from fairlead.portal.model.lists import BindingRow, MirrorDetail, ObjectRow


_Place = tuple[int, str]
"""A link's index in the order, and its object."""


def _nowhere(link: Link) -> str:
    return ""


def of_chains(chains: Iterable[Sequence[Link]], href: Callable[[Link], str] = _nowhere) -> Graph:
    """Join chains into one graph: links of the same object become one part.

    At a crossing, where chains meet and part again, such as one provider with many roles, a broken
    chain must not hold the others: each part before it then needs the part behind it directly.

    Args:
        chains: the links of each chain, from what uses it to where it comes from.
        href: the path of the page about a link's object, "" for none.
    """
    nodes: dict[_Place, GraphNode] = {}
    ways: list[list[_Place]] = []
    for chain in chains:
        way: list[_Place] = []
        for link in chain:
            place = (ORDER.index(link.name), link.object)
            if place not in nodes:
                nodes[place] = _node(link, href(link))
            way.append(place)
        ways.append(way)
    crossings = _crossings(ways)
    edges: dict[tuple[str, str], None] = {}
    for way in ways:
        for number, place in enumerate(way[1:], start=1):
            before = number - 1
            while before and way[before] in crossings:
                before -= 1
            edges[nodes[way[before]].id, nodes[place].id] = None
    return Graph(
        nodes=tuple(nodes.values()),
        edges=tuple(Edge(source=source, target=target) for source, target in edges),
    )


def _crossings(ways: Iterable[Sequence[_Place]]) -> set[_Place]:
    """Return the places with several predecessors and several successors."""
    before: dict[_Place, set[_Place]] = {}
    after: dict[_Place, set[_Place]] = {}
    for way in ways:
        for source, target in pairwise(way):
            after.setdefault(source, set()).add(target)
            before.setdefault(target, set()).add(source)
    return {
        place for place, left in after.items() if len(left) > 1 and len(before.get(place, ())) > 1
    }


def _node(link: Link, href: str) -> GraphNode:
    kind, _, key = link.object.partition(" ")
    # The column says that a copy is the provider's, and its binding is a tooltip.
    key, there, binding = key.partition(" of the provider, ")
    where, slash, name = key.partition("/")
    if not slash or not where or not name or " " in where:
        where, name = "", key
    return GraphNode(
        id=f"{link.name} {link.object}",
        column=link.name,
        kind=kind if name else "",
        name=name or kind,
        where=where,
        title=f"{there.lstrip()}{binding}",
        state=link.state,
        reason=link.reason,
        about=link.about,
        since=link.since,
        helps=link.remedy,
        href=href,
    )


def without_mirrors(
    chains: Iterable[Sequence[Link]], mirrors: Iterable[MirrorDetail]
) -> list[list[Link]]:
    """Return chains without links of Connections and bindings that :func:`with_mirrors` adds.

    In a chain the copy comes after them, as if a Connection needed each copy. A copy that is not
    there is named by its place, since all that one binding brings would be one part.
    """
    objects = {f"{detail.row.kind} {detail.row.place}" for detail in mirrors}
    return [_without(chain, objects) for chain in chains]


def _without(chain: Sequence[Link], objects: Collection[str]) -> list[Link]:
    rest: list[Link] = []
    service = ""
    for link in chain:
        if link.object in objects:
            continue
        if link.name == "service":
            service = link.object
        missing = _MISSING.fullmatch(link.object)
        named = f"{service} of the provider, by {missing[1]}" if missing and service else ""
        rest.append(msgspec.structs.replace(link, object=named) if named else link)
    return rest


_MISSING = re.compile(r"the \S+ that ((?:ClusterBinding|Binding) \S+) brings")
"""Text of a link to a copy by kbind v2 that is not there, or not the object's."""


def with_mirrors(
    graph: Graph, mirrors: Iterable[MirrorDetail], most: int = bounds.CHAINS
) -> Graph:
    """Add Connections and bindings of kbind v2 to chains: each object needs the one that binds it.

    Args:
        graph: the chains.
        mirrors: the Connections and bindings.
        most: largest number of objects that no chain has; those with a problem come first.
    """
    details = list(mirrors)
    if not details:
        return graph
    nodes = {node.id: node for node in graph.nodes}
    edges = list(graph.edges)
    parts = {detail.row.at: _mirror_node(detail.row) for detail in details}
    nodes |= {part.id: part for part in parts.values()}
    for detail in details:
        part = parts[detail.row.at]
        named = [parts[row.at].id for row in detail.bindings if row.at in parts]
        for obj in sorted(detail.objects, key=lambda obj: obj.state == "ok"):
            node = _object_node(obj)
            if node.id not in nodes and most > 0:
                most -= 1
                nodes[node.id] = node
            if node.id in nodes:
                named.append(node.id)
        edges += [Edge(source=source, target=part.id) for source in named]
    return Graph(columns=MIRRORED, nodes=tuple(nodes.values()), edges=tuple(edges))


def _object_node(row: ObjectRow) -> GraphNode:
    # The id is that of the object in a chain.
    return GraphNode(
        id=f"service {row.kind} {row.place}",
        column="service",
        kind=row.kind,
        name=row.name,
        where=row.namespace,
        state=row.state,
        about=row.about,
        since=row.since,
        helps=row.helps,
        href=row.at,
    )


def _mirror_node(row: BindingRow) -> GraphNode:
    return GraphNode(
        id=f"mirror {row.kind} {row.place}",
        column="connection" if row.kind == CONNECTIONS.kind else "mirror",
        kind=row.kind,
        name=row.binding,
        where=row.within,
        state=row.state,
        about=row.about,
        since=row.since,
        helps=row.helps,
        href=row.at,
    )


Shown = Literal["all", "problems"]
"""Filter of a graph: all chains, or those with a failed or waiting part."""


Columns = tuple[tuple[str, str], ...]
"""Names and titles of columns."""

CHAIN: Final[Columns] = (
    ("workload", "Workload"),
    ("binding", "Binding"),
    ("Secret", "Secret"),
    ("service", "Service"),
    ("provider", "Provider"),
    ("role", "Role"),
)
"""Columns in the consumer's cluster, from the workload to the role behind it."""

MIRRORED: Final[Columns] = (("connection", "Connection"), ("mirror", "Bound by"), *CHAIN)
"""Columns in a consumer's cluster with kbind v2, whose bindings stand before their objects."""

PROVIDED: Final[Columns] = (
    ("cluster", "Consumer cluster"),
    ("export", "Binding"),
    ("kind", "Kind"),
    ("object", "Objects"),
    ("role", "Role"),
)
"""Columns of a provider, from a consumer's cluster to the roles of its objects."""


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a chain with its state.

    ``where`` is its namespace or cluster, ``title`` the id behind a short name, ``about`` a
    message. ``since`` is the time of its state in RFC 3339, "" if unknown. ``href`` is a path on
    this server; other addresses are dropped.
    """

    id: str
    column: str
    kind: str
    name: str
    where: str = ""
    title: str = ""
    state: State = "unknown"
    reason: str = ""
    about: str = ""
    since: str = ""
    helps: str = ""
    href: str = ""

    @property
    def text(self) -> str:
        """Its kind, namespace and name in the form of kubectl's messages."""
        return (
            f"{self.kind} {self.where}/{self.name}" if self.where else f"{self.kind} {self.name}"
        )

    @property
    def link(self) -> str:
        """Its path on this server, "" without one."""
        # Browsers read // and /\ as the beginning of another host.
        elsewhere = self.href[:1] != "/" or self.href[1:2] in {"/", "\\"}
        return "" if elsewhere else self.href


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge: ``source`` needs ``target``, in any order of columns."""

    source: str
    target: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes and edges, in at least one column."""

    columns: Columns = CHAIN
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[Edge, ...] = ()


class Wired(msgspec.Struct, frozen=True):
    """A numbered graph; ``edges`` join a node to one that it needs.

    Of nodes with the same id the first stays; edges to missing nodes are dropped. ``columns`` are
    the titles of those with nodes, ``column`` is each node's; an unknown one counts as the last.
    """

    columns: tuple[str, ...]
    nodes: tuple[GraphNode, ...]
    column: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    needs: tuple[list[int], ...]
    needed_by: tuple[list[int], ...]

    def problem(self, number: int) -> bool:
        """Whether the node of this number failed or waits."""
        return self.nodes[number].state in {"failed", "waiting"}


def wire(graph: Graph, shown: Shown = "all") -> Wired:
    """Number a graph: all of it, or the nodes that lead to a problem or from it."""
    whole = _numbered(graph)
    if shown == "all":
        return whole
    seeds = [number for number in range(len(whole.nodes)) if whole.problem(number)]
    numbers = _reached(seeds, whole.needs) | _reached(seeds, whole.needed_by)
    nodes = tuple(whole.nodes[number] for number in sorted(numbers))
    return _numbered(msgspec.structs.replace(graph, nodes=nodes))


def _numbered(graph: Graph) -> Wired:
    nodes: dict[str, GraphNode] = {}
    for node in graph.nodes:
        nodes.setdefault(node.id, node)
    numbers = {id_: number for number, id_ in enumerate(nodes)}
    edges = dict.fromkeys(
        (numbers[edge.source], numbers[edge.target])
        for edge in graph.edges
        if edge.source in numbers and edge.target in numbers and edge.source != edge.target
    )
    needs: tuple[list[int], ...] = tuple([] for _ in nodes)
    needed_by: tuple[list[int], ...] = tuple([] for _ in nodes)
    for source, target in edges:
        needs[source].append(target)
        needed_by[target].append(source)
    order = {name: number for number, (name, _) in enumerate(graph.columns)}
    places = [order.get(node.column, len(order) - 1) for node in nodes.values()]
    used = sorted(set(places))
    return Wired(
        tuple(graph.columns[place][1] for place in used),
        tuple(nodes.values()),
        tuple(map({place: number for number, place in enumerate(used)}.__getitem__, places)),
        tuple(edges),
        needs,
        needed_by,
    )


def causes(wired: Wired) -> frozenset[int]:
    """Return the nodes with a problem that need no other node with one, in one walk."""
    roots: set[int] = set()
    troubled = [False] * len(wired.nodes)
    for number in _from_the_source(wired):
        waits = any(troubled[target] for target in wired.needs[number])
        if wired.problem(number) and not waits:
            roots.add(number)
        troubled[number] = waits or wired.problem(number)
    return frozenset(roots)


def _from_the_source(wired: Wired) -> list[int]:
    """Sort nodes topologically, needed ones first; a cycle is opened at its first node."""
    missing = [len(targets) for targets in wired.needs]
    ready = deque(number for number, count in enumerate(missing) if not count)
    done = [False] * len(missing)
    ordered: list[int] = []
    first = 0
    while len(ordered) < len(missing):
        while ready:
            number = ready.popleft()
            if done[number]:
                continue
            done[number] = True
            ordered.append(number)
            for source in wired.needed_by[number]:
                missing[source] -= 1
                if not missing[source]:
                    ready.append(source)
        # Here only cycles and the nodes that need them are left, if any.
        while first < len(done) and done[first]:
            first += 1
        if first < len(done):
            ready.append(first)
    return ordered


def _reached(seeds: Sequence[int], along: tuple[list[int], ...]) -> set[int]:
    reached = set(seeds)
    waiting = list(seeds)
    while waiting:
        for other in along[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
