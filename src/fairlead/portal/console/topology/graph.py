"""The graph of a topology: parts in columns, and edges from a part to those it needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from fairlead.api.links import ORDER, LinkName
from fairlead.api.reasons.model import State
from fairlead.portal.model.states import WORDS


Shown = Literal["all", "problems"]
"""Filter of a graph: all chains, or those with a failed or waiting part."""


class GraphColumn(msgspec.Struct, frozen=True):
    """A column of a tree."""

    name: str
    title: str


_TITLES: Final[dict[LinkName, str]] = {
    "workload": "Workload",
    "binding": "Binding",
    "Secret": "Secret",
    "service": "Service",
    "provider": "Provider",
    "role": "Role",
}

CHAIN: Final = tuple(GraphColumn(name, _TITLES[name]) for name in ORDER)
"""Columns in the consumer's cluster, from the workload to the role behind it."""

PROVIDED: Final = (
    GraphColumn("cluster", "Consumer cluster"),
    GraphColumn("export", "Binding"),
    GraphColumn("kind", "Kind"),
    GraphColumn("object", "Objects"),
    GraphColumn("role", "Role"),
)
"""Columns of a provider, from a consumer's cluster to the roles of its objects."""


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a chain with its state.

    ``where`` is its namespace or cluster, ``about`` a message. ``since`` is the time of its state
    in RFC 3339, "" if unknown. ``href`` is a path on this server; other addresses are dropped.
    """

    id: str
    column: str
    kind: str
    name: str
    where: str = ""
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

    columns: tuple[GraphColumn, ...] = CHAIN
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[Edge, ...] = ()


def counted(states: Iterable[State]) -> dict[State, int]:
    """Count states, the worst first, without zeros."""
    found: dict[State, int] = dict.fromkeys(WORDS, 0)
    for state in states:
        found[state] += 1
    return {state: count for state, count in found.items() if count}


def told(tally: dict[State, int]) -> str:
    """Return counts in words, the worst state first."""
    return ", ".join(f"{tally[state]:,} {WORDS[state]}" for state in WORDS if tally.get(state))
