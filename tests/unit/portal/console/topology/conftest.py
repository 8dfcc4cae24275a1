from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.graph import CHAIN, PROVIDED, Edge, Graph, GraphNode


_KINDS = ("Deployment", "ServiceBinding", "Secret", "PostgresAccess", "APIServiceBinding", "Role")

Chain = Callable[..., Graph]
Fleet = Callable[..., Graph]


@pytest.fixture
def chain() -> Chain:
    """Makes a chain of the given states, from workload to role."""

    def make(*states: State) -> Graph:
        nodes = tuple(
            GraphNode(
                id=column,
                column=column,
                kind=kind,
                name="orders",
                where="shop",
                state=state,
                reason="" if state == "ok" else f"Reason{number}",
            )
            for number, ((column, _), kind, state) in enumerate(
                zip(CHAIN, _KINDS, states, strict=False)
            )
        )
        edges = tuple(
            Edge(source=source.id, target=target.id) for source, target in pairwise(nodes)
        )
        return Graph(nodes=nodes, edges=edges)

    return make


@pytest.fixture
def fleet() -> Fleet:
    """Makes a provider's side: one cluster, two kinds, objects with a role each."""

    def make(objects: int, failed: frozenset[int] = frozenset()) -> Graph:
        nodes = [
            GraphNode(id="c", column="cluster", kind="ClusterBinding", name="shop", state="ok"),
            GraphNode(id="e", column="export", kind="APIServiceExport", name="dbs", state="ok"),
            GraphNode(id="k0", column="kind", kind="Kind", name="Database", state="ok"),
            GraphNode(id="k1", column="kind", kind="Kind", name="Bucket", state="ok"),
        ]
        edges = [
            Edge(source="e", target="c"),
            Edge(source="k0", target="e"),
            Edge(source="k1", target="e"),
        ]
        for number in range(objects):
            kind = ("Database", "Bucket")[number % 2]
            state: State = "waiting" if number in failed else "ok"
            role: State = "failed" if number in failed else "ok"
            reason = "RoleConflict" if number in failed else ""
            nodes += [
                GraphNode(
                    id=f"o{number}", column="object", kind=kind, name=f"o{number}", state=state
                ),
                GraphNode(
                    id=f"r{number}",
                    column="role",
                    kind="Role",
                    name=f"r{number}",
                    state=role,
                    reason=reason,
                ),
            ]
            edges += [
                Edge(source=f"o{number}", target=f"k{number % 2}"),
                Edge(source=f"o{number}", target=f"r{number}"),
            ]
        return Graph(columns=PROVIDED, nodes=tuple(nodes), edges=tuple(edges))

    return make
