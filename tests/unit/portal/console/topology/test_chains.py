"""Graphs from chains of links."""

from __future__ import annotations

import pytest

from fairlead.api.links import Link
from fairlead.portal.console.topology.graph import of_chains


SERVICE = Link(name="service", object="PostgresAccess shop/orders", state="waiting")
OTHER = Link(name="service", object="PostgresAccess shop/stock", state="ok")
PROVIDER = Link(name="provider", object="APIServiceBinding postgres", state="ok")
ROLE = Link(
    name="role",
    object="role shop_orders",
    state="failed",
    about="is not ours",
    reason="RoleConflict",
    remedy="rename it",
    since="2026-01-02T03:04:05Z",
)
SECOND = Link(name="role", object="role shop_stock", state="ok")


def _ends(*chains: list[Link]) -> list[tuple[str, str]]:
    graph = of_chains(chains)
    names = {node.id: node.name for node in graph.nodes}
    return [(names[edge.source], names[edge.target]) for edge in graph.edges]


def test_each_link_needs_the_next() -> None:
    assert _ends([SERVICE, PROVIDER, ROLE]) == [
        ("orders", "postgres"),
        ("postgres", "shop_orders"),
    ]


def test_chains_share_what_both_go_through() -> None:
    graph = of_chains([[SERVICE, PROVIDER], [OTHER, PROVIDER]])
    assert [node.name for node in graph.nodes] == ["orders", "postgres", "stock"]


def test_a_shared_part_holds_no_chain_for_the_sake_of_another() -> None:
    assert _ends([SERVICE, PROVIDER, ROLE], [OTHER, PROVIDER, SECOND]) == [
        ("orders", "postgres"),
        ("orders", "shop_orders"),
        ("stock", "postgres"),
        ("stock", "shop_stock"),
    ]


def test_one_chain_that_parts_behind_a_part_needs_both_ways() -> None:
    assert _ends([SERVICE, PROVIDER, ROLE], [SERVICE, PROVIDER, SECOND]) == [
        ("orders", "postgres"),
        ("postgres", "shop_orders"),
        ("postgres", "shop_stock"),
    ]


def test_a_workload_with_two_bindings_needs_both() -> None:
    workload = Link(name="workload", object="Deployment shop/web", state="ok")
    assert _ends([workload, SERVICE], [workload, OTHER]) == [("web", "orders"), ("web", "stock")]


def test_a_part_has_all_that_its_link_tells() -> None:
    (node,) = of_chains([[ROLE]], lambda link: f"/objects/{link.name}").nodes
    assert (node.column, node.kind, node.name, node.where) == ("role", "role", "shop_orders", "")
    assert (node.state, node.reason, node.about) == ("failed", "RoleConflict", "is not ours")
    assert (node.helps, node.since) == ("rename it", "2026-01-02T03:04:05Z")
    assert node.href == "/objects/role"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Secret shop/orders", ("Secret", "shop", "orders")),
        ("ClusterBinding cluster", ("ClusterBinding", "", "cluster")),
        ("nothing", ("", "", "nothing")),
        ("", ("", "", "")),
        ("role a on b/c", ("role", "", "a on b/c")),
    ],
)
def test_objects_are_told_by_kind_place_and_name(text: str, told: tuple[str, str, str]) -> None:
    (node,) = of_chains([[Link(name="Secret", object=text, state="ok")]]).nodes
    assert (node.kind, node.where, node.name) == told


def test_a_copy_has_its_short_name_and_its_binding_as_the_tooltip() -> None:
    text = "Bucket space-shop/photos of the provider, by APIServiceBinding buckets"
    (node,) = of_chains([[Link(name="provider", object=text, state="ok")]]).nodes
    assert (node.where, node.name) == ("space-shop", "photos")
    assert node.title == "of the provider, by APIServiceBinding buckets"
