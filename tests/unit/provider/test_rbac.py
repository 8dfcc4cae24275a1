from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from tests.support.kubebind import NS, bound_schema, claim, crd, export, resource

from fairlead.api.kubebind import APIServiceExport, BoundSchema, ExportResource
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    ROLEBINDINGS,
    ROLES,
)
from fairlead.provider.controllers.rbac.reconcile import RightsPlan, RightsState, reconcile
from fairlead.provider.rights import (
    Grounds,
    Id,
    cluster_names,
    export_of,
    exports_of_role,
)


ALL = ["get", "list", "watch", "create", "update", "patch", "delete"]
KEY = Key(NS, "widgets")


def plan(
    given: Object | None,
    *namespaces: str,
    schema: Object | None = None,
    existing: dict[Id, Object] | None = None,
    **more: Any,
) -> RightsPlan:
    stored = schema or bound_schema()
    schemas = {stored.meta.name: stored}
    grounds = Grounds(given, schemas, frozenset(namespaces), **more) if given else None
    return reconcile(RightsState(grounds, existing or {}))


def grants(result: RightsPlan) -> dict[str, list[JSON]]:
    """Rules by where they hold and under which name."""
    found: dict[str, list[JSON]] = {}
    for kind, body in result.apply:
        if kind in {ROLES, CLUSTERROLES}:
            where = body["metadata"].get("namespace", "*")
            found[f"{where}/{body['metadata']['name']}"] = body["rules"]
    return found


def rule(group: str, plural: str, verbs: list[str]) -> JSON:
    return {"apiGroups": [group], "resources": [plural], "verbs": verbs}


WIDGETS = rule("example.org", "widgets", ALL)
READ_WIDGETS = rule("example.org", "widgets", ALL[:3])
SECRETS = rule("", "secrets", ALL)
RESOURCES = "kube-binder-resources-widgets"
CLAIMS = "kube-binder-claims-widgets"
EVERYWHERE = f"*/kube-binder-resources-{NS}.widgets"
CLAIMS_EVERYWHERE = f"*/kube-binder-claims-{NS}.widgets"


@pytest.mark.parametrize(
    ("spec", "schema", "expected"),
    [
        pytest.param(
            {},
            bound_schema(),
            {f"a/{RESOURCES}": [WIDGETS], f"b/{RESOURCES}": [WIDGETS]},
            id="namespaced kinds: the consumer's namespaces alone",
        ),
        pytest.param(
            {"permissionClaims": [claim()]},
            bound_schema(),
            {
                f"a/{RESOURCES}": [WIDGETS],
                f"b/{RESOURCES}": [WIDGETS],
                f"a/{CLAIMS}": [SECRETS],
                f"b/{CLAIMS}": [SECRETS],
            },
            id="claims too",
        ),
        pytest.param(
            {"informerScope": "Cluster", "permissionClaims": [claim()]},
            bound_schema(),
            {
                EVERYWHERE: [READ_WIDGETS],
                f"a/{RESOURCES}": [WIDGETS],
                f"b/{RESOURCES}": [WIDGETS],
                f"a/{CLAIMS}": [SECRETS],
                f"b/{CLAIMS}": [SECRETS],
            },
            id="informerScope Cluster: reading the kind everywhere, claims still not",
        ),
        pytest.param(
            {"permissionClaims": [claim()]},
            bound_schema(scope="Cluster"),
            {EVERYWHERE: [WIDGETS], f"a/{CLAIMS}": [SECRETS], f"b/{CLAIMS}": [SECRETS]},
            id="cluster-scoped kinds: everywhere",
        ),
        pytest.param(
            {"isolation": "Namespaced"},
            bound_schema(scope="Cluster"),
            {f"{NS}/{RESOURCES}": [WIDGETS]},
            id="Namespaced isolation: the cluster namespace",
        ),
        pytest.param(
            {"informerScope": "Cluster", "resources": [{"group": "", "resource": "secrets"}]},
            bound_schema(),
            {},
            id="kinds of Kubernetes are not granted",
        ),
        pytest.param(
            {"permissionClaims": [claim("pods")]},
            bound_schema(),
            {f"a/{RESOURCES}": [WIDGETS], f"b/{RESOURCES}": [WIDGETS]},
            id="what may not be claimed is not granted",
        ),
    ],
)
def test_rights(spec: Any, schema: Object, expected: dict[str, list[JSON]]) -> None:
    assert grants(plan(export(**spec), "a", "b", schema=schema)) == expected


@pytest.mark.parametrize(
    ("spec", "schema", "expected"),
    [
        pytest.param(
            {"informerScope": "Cluster", "permissionClaims": [claim()]},
            bound_schema(),
            {
                EVERYWHERE: [READ_WIDGETS],
                f"a/{RESOURCES}": [WIDGETS],
                CLAIMS_EVERYWHERE: [SECRETS],
            },
            id="informerScope Cluster: claims everywhere",
        ),
        pytest.param(
            {"permissionClaims": [claim()]},
            bound_schema(),
            {f"a/{RESOURCES}": [WIDGETS], f"a/{CLAIMS}": [SECRETS]},
            id="informerScope Namespaced: in the consumer's namespaces, as in kube-bind",
        ),
        pytest.param(
            {"informerScope": "Cluster", "permissionClaims": [claim("pods")]},
            bound_schema(),
            {EVERYWHERE: [READ_WIDGETS], f"a/{RESOURCES}": [WIDGETS]},
            id="what may not be claimed is granted nowhere",
        ),
        pytest.param(
            {"isolation": "Namespaced", "permissionClaims": [claim()]},
            bound_schema(scope="Cluster"),
            {EVERYWHERE: [READ_WIDGETS], f"{NS}/{RESOURCES}": [WIDGETS], f"a/{CLAIMS}": [SECRETS]},
            id="isolation Namespaced: reading exported kinds everywhere",
        ),
    ],
)
def test_rights_for_original_konnectors(
    spec: Any, schema: Object, expected: dict[str, list[JSON]]
) -> None:
    result = plan(export(**spec), "a", schema=schema, original_konnectors=True)
    assert grants(result) == expected


def test_a_kind_that_is_cluster_scoped_for_the_consumer_alone_is_not_granted_everywhere() -> None:
    """As when the provider's isolation was Namespaced before."""
    crds = {"widgets.example.org": crd()}
    result = plan(export(), "a", schema=bound_schema(scope="Cluster"), crds=crds)
    assert grants(result) == {f"a/{RESOURCES}": [WIDGETS]}


def test_only_cluster_scoped_kinds_of_an_export_are_granted_everywhere() -> None:
    both = export(resources=[resource(), resource("gadgets")])
    result = plan(both, "a", schema=bound_schema("gadgets", scope="Cluster"))
    assert grants(result) == {
        EVERYWHERE: [rule("example.org", "gadgets", ALL)],
        f"a/{RESOURCES}": [WIDGETS],
    }


def test_a_resource_that_an_export_names_many_times_is_looked_at_once() -> None:
    many = export(resources=[resource(), resource("gadgets")] * 1000)
    with mock.patch.object(Object, "decode", autospec=True, side_effect=Object.decode) as decode:
        result = plan(many, "a", "b", schema=bound_schema("gadgets", scope="Cluster"))
    decoded = [call.args[1] for call in decode.call_args_list]
    assert decoded == [APIServiceExport, BoundSchema]
    assert grants(result)[EVERYWHERE] == [rule("example.org", "gadgets", ALL)]
    assert grants(result)[f"b/{RESOURCES}"] == [WIDGETS]


def test_many_cluster_scoped_resources_are_not_compared_with_one_another() -> None:
    kinds = [f"k{number}s" for number in range(500)]
    schemas = {
        one.meta.name: one for one in (bound_schema(kind, scope="Cluster") for kind in kinds)
    }
    many = export(resources=[resource(kind) for kind in kinds])
    compared = 0

    def equal(one: ExportResource, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    with mock.patch.object(ExportResource, "__eq__", equal):
        result = reconcile(RightsState(Grounds(many, schemas, frozenset({"a"})), {}))
    assert len(grants(result)[EVERYWHERE][0]["resources"]) == 500
    assert compared <= 500


@pytest.mark.parametrize(
    ("name", "namespace", "expected"),
    [
        (RESOURCES, "a", [KEY]),
        (CLAIMS, "a", [KEY]),
        (EVERYWHERE[2:], "", [KEY]),
        (CLAIMS_EVERYWHERE[2:], "", [KEY]),
        ("kube-binder-resources-nodot", "", []),
        ("kube-binder", "a", []),
    ],
)
def test_roles_without_binding_tell_their_export_too(
    name: str, namespace: str, expected: list[Key]
) -> None:
    role = object_from_dict({"metadata": {"name": name, "namespace": namespace}})
    assert list(exports_of_role(role, NS)) == expected


def test_rights_go_to_the_consumers_own_account_and_nobody_else() -> None:
    result = plan(export(informerScope="Cluster", permissionClaims=[claim()]), "a")
    bindings = [body for resource, body in result.apply if body["kind"].endswith("Binding")]
    assert len(bindings) == 3
    for body in bindings:
        assert body["subjects"] == [
            {"kind": "ServiceAccount", "name": "kube-binder", "namespace": NS}
        ]
        assert body["roleRef"]["name"] == body["metadata"]["name"]
        assert body["roleRef"]["kind"] == body["kind"].removesuffix("Binding")


def test_roles_come_before_their_bindings() -> None:
    kinds = [body["kind"] for _, body in plan(export(informerScope="Cluster"), "a").apply]
    assert kinds == ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"]


def test_only_cluster_roles_are_aggregated() -> None:
    for kind, body in plan(export(informerScope="Cluster"), "a").apply:
        aggregated = "rbac.kube-bind.io/aggregate-to-parent" in body["metadata"]["labels"]
        assert aggregated == (kind == CLUSTERROLES)


def test_one_rule_for_each_group() -> None:
    several = [
        {"group": "example.org", "resource": "widgets"},
        {"group": "example.org", "resource": "gadgets"},
        {"group": "other.org", "resource": "things"},
    ]
    (rules,) = grants(plan(export(resources=several), "a")).values()
    assert [(item["apiGroups"], item["resources"]) for item in rules] == [
        (["example.org"], ["gadgets", "widgets"]),
        (["other.org"], ["things"]),
    ]


STORED = object_from_dict({"metadata": {"name": RESOURCES, "namespace": "a"}})
EXISTING = {
    Id(ROLES, Key("a", RESOURCES)): STORED,
    Id(ROLEBINDINGS, Key("a", RESOURCES)): STORED,
    Id(CLUSTERROLES, Key("", "old")): STORED,
    Id(CLUSTERROLEBINDINGS, Key("", "old")): STORED,
}


@pytest.mark.parametrize(
    ("given", "namespaces", "deleted"),
    [
        pytest.param(
            None,
            ["a"],
            ["clusterrolebindings", "rolebindings", "clusterroles", "roles"],
            id="the export is gone",
        ),
        pytest.param(
            export(),
            [],
            ["clusterrolebindings", "rolebindings", "clusterroles", "roles"],
            id="the namespace is no longer the consumer's",
        ),
        pytest.param(
            export(), ["a"], ["clusterrolebindings", "clusterroles"], id="no longer cluster-wide"
        ),
    ],
)
def test_rights_are_taken_away_bindings_first(
    given: Object | None, namespaces: list[str], deleted: list[str]
) -> None:
    result = plan(given, *namespaces, existing=EXISTING)
    assert [identity.resource.plural for identity in result.delete] == deleted
    if given is None:
        assert result.apply == []


def binding(name: str, namespace: str = "a", subject: str = "kube-binder") -> Object:
    body: JSON = {"metadata": {"name": name}}
    if namespace:
        body["metadata"]["namespace"] = namespace
    body["subjects"] = [{"kind": "ServiceAccount", "name": subject, "namespace": NS}]
    return object_from_dict(body)


def test_no_consumer_can_choose_the_name_of_anothers_cluster_role() -> None:
    mine, theirs = Key("team-a", "b-widgets"), Key("team-a-b", "widgets")
    assert not set(cluster_names(mine)) & set(cluster_names(theirs))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(binding(RESOURCES), KEY, id="resources"),
        pytest.param(binding(CLAIMS), KEY, id="claims"),
        pytest.param(
            binding(f"{RESOURCES}-more"), Key(NS, "widgets-more"), id="a name that begins alike"
        ),
        pytest.param(binding(EVERYWHERE[2:], ""), KEY, id="cluster-wide"),
        pytest.param(binding(CLAIMS_EVERYWHERE[2:], ""), KEY, id="cluster-wide claims"),
        pytest.param(binding("kube-binder"), None, id="the consumer's own"),
        pytest.param(binding(RESOURCES, subject="other"), None, id="other account"),
        pytest.param(object_from_dict({"metadata": {"name": RESOURCES}}), None, id="nobody"),
    ],
)
def test_bindings_tell_their_export(given: Object, expected: Key | None) -> None:
    assert export_of(given) == expected
