"""What a topology consists of: parts in columns, and which of them needs which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from fairlead.api.links import ORDER, LinkName
from fairlead.api.reasons.model import State
from fairlead.portal.console.states import WORDS


Shown = Literal["all", "problems"]
"""What to show of a graph: all of it, or the chains in which something failed or waits."""


class Column(msgspec.Struct, frozen=True):
    """A column of a drawing; ``side`` is the cluster in which its parts are, where one is told."""

    name: str
    title: str
    side: str = ""


_TITLES: Final[dict[LinkName, str]] = {
    "workload": "Workload",
    "binding": "Binding",
    "Secret": "Secret",
    "service": "Service",
    "provider": "Provider",
    "role": "Role",
}

CHAIN: Final = tuple(Column(name, _TITLES[name]) for name in ORDER)
"""Columns of a consumer's own side, from what is used to where it comes from."""

PROVIDED: Final = (
    Column("cluster", "Consumer cluster"),
    Column("export", "Binding"),
    Column("kind", "Kind"),
    Column("object", "Objects"),
    Column("role", "Role"),
)
"""Columns of a provider's side, from a consumer cluster to what its objects have."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a chain, and how it stands.

    ``where`` is its namespace or cluster, ``about`` what there is to say of it. ``since`` is when
    it came to stand so, as RFC 3339, "" where that is not known. ``href`` is a path on this
    server; any other address is not followed.
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
        """Its kind, place and name, as kubectl's messages have them."""
        return (
            f"{self.kind} {self.where}/{self.name}" if self.where else f"{self.kind} {self.name}"
        )


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """``source`` needs ``target``, whichever of them stands further left.

    ``state`` is for a way between two parts that is known to stand otherwise than its target;
    ``label`` says why.
    """

    source: str
    target: str
    state: State | None = None
    label: str = ""


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Parts, and which needs which; what stands in no known column stands in one of its own."""

    columns: tuple[Column, ...] = CHAIN
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()


def counted(states: Iterable[State]) -> dict[State, int]:
    """How many there are of each state, the worst first, without those of which there is none."""
    found: dict[State, int] = dict.fromkeys(WORDS, 0)
    for state in states:
        found[state] += 1
    return {state: count for state, count in found.items() if count}


def told(tally: dict[State, int]) -> str:
    """Counts in words, the worst first."""
    return ", ".join(f"{tally[state]:,} {WORDS[state]}" for state in WORDS if tally.get(state))


def own(href: str) -> bool:
    """Whether an address is a path on this server."""
    return href.startswith("/") and href[1:2] not in {"/", "\\"}
