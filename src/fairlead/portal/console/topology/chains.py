"""A graph from chains of links, as ``fairlead.explain`` returns them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from fairlead.api.links import ORDER, Link
from fairlead.portal.console.topology.graph import Edge, Graph, GraphNode


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
