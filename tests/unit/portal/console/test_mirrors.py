"""Pages of Connections and bindings of kbind v2, from what was fetched for them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.api.test_verdict import AT, c

from fairlead.api.kbind import API_VERSION
from fairlead.api.kbind.names import ANNOTATION_RELATED_ADMITTED
from fairlead.api.links import Link
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.konnector.commands.overview.rows import BoundKind, FetchedBinding
from fairlead.konnector.commands.presence import KonnectorStop
from fairlead.portal.console.sources.mirrors import mirrors_of
from fairlead.portal.console.topology.graph import (
    Edge,
    Graph,
    GraphNode,
    of_chains,
    with_mirrors,
    without_mirrors,
)
from fairlead.portal.model.lists import BindingRow, Counts, MirrorDetail, ObjectRow


API = "widgets.example.org"
WIDGETS = Resource("example.org", "v1", "widgets", "Widget")
WAY = "/bindings/connections.core.kbind.io/-/acme"
ALL = "/bindings/clusterbindings.core.kbind.io/-/all"


def kbind(kind: str, name: str, *conditions: JSON, namespace: str = "", **parts: Any) -> Object:
    """An object of kbind v2; ``status`` is joined with the conditions."""
    metadata: JSON = {"name": name, "generation": 1, "uid": f"uid-of-{name}"}
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"annotations": parts.get("annotations", {})}
    status = {"conditions": list(conditions)} | parts.get("status", {})
    body = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}
    return object_from_dict(body | {"spec": parts.get("spec", {}), "status": status})


def connection(*conditions: JSON, **more: Any) -> Object:
    ref = {"namespace": "kube-bind", "name": "acme", "key": "config"}
    spec = {"kubeconfigSecretRef": ref} | more.pop("spec", {})
    return kbind("Connection", "acme", *conditions, spec=spec, **more)


def binding(
    name: str = "all",
    *conditions: JSON,
    namespace: str = "",
    apis: tuple[str, ...] = (API,),
    **more: Any,
) -> Object:
    spec = {
        "connectionRef": {"name": "acme"},
        "apis": [{"name": api} for api in apis],
        **more.pop("spec", {}),
    }
    kind = "Binding" if namespace else "ClusterBinding"
    return kbind(kind, name, *conditions, namespace=namespace, spec=spec, **more)


READY = c("Ready", "True", "AsExpected")


def fetched(obj: Object, way: Object | None = None, **more: Any) -> FetchedBinding:
    return FetchedBinding(obj, connection=way or connection(READY), reached=True, **more)


def facts(detail: MirrorDetail) -> dict[str, str]:
    return {label: "".join(text for text, _ in words) for label, words in detail.facts}


def test_a_connection_has_a_page_beside_those_of_its_bindings() -> None:
    way = connection(
        READY,
        spec={"schema": {"source": "CRD", "updatePolicy": "Once"}, "autoBind": True},
        status={
            "remoteClusterUID": "there",
            "localClusterUID": "here",
            "activeSchemaSource": "CRD",
            "exportedAPIs": [
                {
                    "name": name,
                    "group": "g",
                    "resource": "r",
                    "scope": "Cluster",
                    "versions": ["v1"],
                }
                for name in (API, "gadgets.example.org")
            ],
        },
        annotations={ANNOTATION_RELATED_ADMITTED: ""},
    )
    every = [
        fetched(binding(), way, server="db.example:6443", renewed=AT),
        fetched(binding("all", namespace="shop"), way),
    ]
    first, whole, part = mirrors_of(every, {})
    assert [detail.row.at for detail in (first, whole, part)] == [
        WAY,
        ALL,
        "/bindings/bindings.core.kbind.io/shop/all",
    ]
    assert first.bindings == (whole.row, part.row)
    assert facts(first) == {
        "Provider": "db.example:6443",
        "Provider's cluster": "there",
        "This cluster": "here",
        "Kubeconfig": "Secret kube-bind/acme, key config",
        "Schemas": "source CRD, read from CRD; pull policy Bound, update policy Once",
        "Binds by itself": "all APIs, by ClusterBinding acme",
        "Related resources that may cross": "none",
        "Lease": "kbind/consumer-here at the provider",
    }
    bound, unbound = first.apis
    assert bound.bound == (
        ("ClusterBinding all", ALL),
        (", ", ""),
        ("Binding shop/all", part.row.at),
    )
    assert (unbound.name, unbound.bound) == ("gadgets.example.org", ())
    assert first.row.heartbeat == AT


def test_a_connection_of_many_bindings_names_the_worst_first() -> None:
    way = connection(
        READY,
        status={
            "exportedAPIs": [
                {"name": API, "group": "g", "resource": "r", "scope": "Namespaced", "versions": []}
            ]
        },
    )
    many = [fetched(binding(f"b{n}", READY, namespace="shop"), way) for n in range(8)]
    bad = c("Ready", "False", "APINotExported")
    many.append(fetched(binding("bad", bad, namespace="shop"), way))
    first, *_ = mirrors_of(many, {})
    assert first.bindings[0].binding == "bad"
    assert len(first.bindings) == 9
    assert first.apis[0].bound[-1] == (" and 4 others", "")
    assert "and 4 others" in first.effect


def test_only_a_connection_without_a_binding_says_so() -> None:
    (detail,) = mirrors_of([fetched(connection(READY))], {})
    assert "no binding names it" in detail.row.about
    assert detail.bindings == ()
    # The line about a Connection is made for one that no binding names.
    named, _ = mirrors_of([fetched(binding())], {})
    assert (named.row.about, named.remarks) == ("", ())


def test_a_connection_says_that_another_konnector_is_at_work() -> None:
    way = connection(READY, c("AnotherKonnector", "True", "LeaseHeld", "stands back"))
    (detail, _) = mirrors_of([fetched(binding(), way)], {})
    assert facts(detail)["At work"] == "another konnector; Fairlead's stands back"


def test_a_connection_is_not_absent_where_a_binding_alone_was_not_picked_up() -> None:
    bound = fetched(binding(), absence="no konnector runs")
    way, whole = mirrors_of([bound], {})
    assert (way.row.state, way.row.silent_since) == ("ok", None)
    assert (whole.row.state, whole.row.silent_since) == ("waiting", "")


def test_a_stopped_konnector_is_that_of_connection_and_binding() -> None:
    stop = KonnectorStop("its Lease ended", AT)
    for detail in mirrors_of([fetched(binding("all", READY), stop=stop)], {}):
        assert (detail.row.state, detail.row.silent_since) == ("failed", AT)


def test_a_binding_counts_objects_and_conflicts_of_each_api() -> None:
    objects = [
        object_from_dict(
            {
                "apiVersion": "example.org/v1",
                "kind": "Widget",
                "metadata": {"name": name, "namespace": "shop", "uid": name},
            }
        )
        for name in ("a", "b")
    ]
    kinds = [BoundKind(objects, resource=WIDGETS, versions=["v1", "v2"])]
    status = {"boundAPIs": [{"name": API, "crdHash": "sha256:0", "conflictCount": 3}]}
    obj = binding("all", READY, apis=(API, API, "gadgets.example.org"), status=status)
    _, detail = mirrors_of([fetched(obj, kinds=kinds)], {})
    here, other = detail.apis
    assert (here.name, here.objects.total, here.conflicts) == (API, 2, 3)
    assert here.facts == "v1, v2, sha256:0"
    assert (other.facts, other.objects, other.conflicts) == ("not bound", Counts(), None)
    assert detail.row.conflicts == 3
    assert [row.at for row in detail.objects] == [
        f"/objects/{API}/shop/a",
        f"/objects/{API}/shop/b",
    ]


@pytest.mark.parametrize(
    ("rule", "namespace", "sentence"),
    [
        pytest.param(
            {"resource": "secrets", "direction": "FromProvider"},
            "shop",
            "all Secrets in namespace shop, from the provider",
            id="all",
        ),
        pytest.param(
            {
                "resource": "configmaps",
                "direction": "FromConsumer",
                "selector": {"names": ["a", "b"]},
            },
            "",
            "ConfigMaps named a, b in all namespaces, to the provider",
            id="named",
        ),
        pytest.param(
            {
                "resource": "secrets",
                "direction": "FromProvider",
                "selector": {
                    "names": ["a"],
                    "labelSelector": {
                        "matchLabels": {"app": "shop"},
                        "matchExpressions": [{"key": "tier", "operator": "Exists"}],
                    },
                },
            },
            "",
            "Secrets named a and with the labels app=shop,tier in all namespaces, from the"
            " provider",
            id="labelled",
        ),
        pytest.param(
            {
                "resource": "secrets",
                "direction": "FromProvider",
                "selector": {
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}
                },
            },
            "",
            'Secrets with the labels that cannot be read: "Odd" is not a valid label selector'
            " operator in all namespaces, from the provider",
            id="odd",
        ),
    ],
)
def test_a_rule_about_related_resources_is_a_sentence(
    rule: JSON, namespace: str, sentence: str
) -> None:
    obj = binding("all", namespace=namespace, spec={"relatedResources": [rule]})
    _, detail = mirrors_of([fetched(obj)], {})
    assert detail.rules == (sentence,)


def test_the_command_quotes_names() -> None:
    _, detail = mirrors_of([fetched(binding("a;b", namespace="shop"))], {})
    assert detail.command == "kubectl delete bindings.core.kbind.io 'a;b' -n shop"


def test_what_cannot_be_read_has_a_page_too() -> None:
    obj = kbind("ClusterBinding", "odd", spec={"connectionRef": 7})
    (detail,) = mirrors_of([FetchedBinding(obj)], {})
    assert (detail.row.state, detail.apis, detail.facts) == ("failed", (), ())
    assert "cannot be read" in detail.row.about


def _row(kind: str, name: str, **more: Any) -> BindingRow:
    return BindingRow(cluster="acme", kind=kind, binding=name, at=f"/{kind}/{name}", **more)


def _object(name: str, state: Any = "ok") -> ObjectRow:
    return ObjectRow(kind="Widget", namespace="shop", name=name, resource=API, state=state)


def test_objects_need_their_binding_and_it_its_connection() -> None:
    whole = MirrorDetail(
        row=_row("ClusterBinding", "all"),
        objects=(_object("a"), _object("b"), _object("c", "failed")),
    )
    way = MirrorDetail(row=_row("Connection", "acme"), bindings=(whole.row,))
    chain = GraphNode(id="service Widget shop/a", column="service", kind="Widget", name="a")
    graph = with_mirrors(Graph(nodes=(chain,)), [way, whole], most=1)
    # Of those without a chain the one with a problem alone has room.
    names = {node.id: f"{node.kind} {node.name}" for node in graph.nodes}
    assert [(names[edge.source], names[edge.target]) for edge in graph.edges] == [
        ("ClusterBinding all", "Connection acme"),
        ("Widget c", "ClusterBinding all"),
        ("Widget a", "ClusterBinding all"),
    ]
    assert [node.column for node in graph.nodes] == ["service", "connection", "mirror", "service"]


def test_a_binding_stands_once_in_a_graph() -> None:
    texts = ("ClusterBinding all", "Connection acme", "Widget shop/a of the provider, by x")
    service = Link(name="service", object="Widget shop/a", state="ok")
    chain = [service, *(Link(name="provider", object=text, state="ok") for text in texts)]
    mirrors = [MirrorDetail(row=_row("ClusterBinding", "all"))]
    mirrors.append(MirrorDetail(row=_row("Connection", "acme")))
    (rest,) = without_mirrors([chain], mirrors)
    assert [link.object for link in rest] == ["Widget shop/a", texts[2]]


def test_copies_that_are_not_there_are_parts_of_their_own() -> None:
    missing = Link(
        name="provider", object="the Widget that Binding shop/all brings", state="failed"
    )
    chains = [
        [Link(name="service", object=f"Widget shop/{name}", state="waiting"), missing]
        for name in ("a", "b")
    ]
    graph = of_chains(without_mirrors(chains, []))
    assert [(node.column, node.where, node.name) for node in graph.nodes] == [
        ("service", "shop", "a"),
        ("provider", "shop", "a"),
        ("service", "shop", "b"),
        ("provider", "shop", "b"),
    ]


def test_a_graph_without_kbind_v2_stays_as_it_is() -> None:
    graph = Graph(edges=(Edge(source="a", target="b"),))
    assert with_mirrors(graph, []) is graph
