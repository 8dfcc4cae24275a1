"""F6: rights on exactly what is bound, where the original's konnector has them on everything."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.kbind import RelatedResource
from fairlead.api.kbind.rights import (
    binding_roles,
    cluster_binding_roles,
    connection_role_name,
    connection_roles,
    role_name,
    user_role_names,
    user_roles,
)
from fairlead.api.meta import JSON


READ = ("get", "list", "watch")
WIDGETS, GADGETS = "widgets.acme.io", "gadgets.tools.acme.io"
KONNECTOR: JSON = {"kind": "ServiceAccount", "name": "konnector", "namespace": "kube-bind"}
Rights = set[tuple[str, str, str, str]]


def rights(role: JSON) -> Rights:
    """Group, resource, verb and name of each right; "*" for all names."""
    return {
        (group, resource, verb, name)
        for one in role["rules"]
        for group in one["apiGroups"]
        for resource in one["resources"]
        for verb in one["verbs"]
        for name in one.get("resourceNames", ["*"])
    }


def objects(plural: str, group: str) -> Rights:
    return {
        *((group, plural, verb, "*") for verb in (*READ, "patch")),
        (group, f"{plural}/status", "update", "*"),
    }


def crds(*names: str) -> Rights:
    kind = ("apiextensions.k8s.io", "customresourcedefinitions")
    return {(*kind, verb, name) for verb in ("update", "delete") for name in names}


def related(resource: Any, direction: Any) -> RelatedResource:
    return RelatedResource(resource=resource, direction=direction)


@pytest.mark.parametrize(
    ("rules", "more"),
    [
        pytest.param([], set(), id="none"),
        pytest.param(
            [related("secrets", "FromConsumer")],
            {("", "secrets", verb, "*") for verb in READ},
            id="from-consumer",
        ),
        pytest.param(
            [related("configmaps", "FromProvider"), related("configmaps", "FromProvider")],
            {("", "configmaps", verb, "*") for verb in (*READ, "create", "patch", "delete")},
            id="from-provider",
        ),
    ],
)
def test_f6_a_cluster_binding_has_rights_on_what_it_binds(
    rules: list[RelatedResource], more: Rights
) -> None:
    (role,) = cluster_binding_roles("shop", [WIDGETS, GADGETS, WIDGETS], rules)
    assert rights(role) == {
        *objects("widgets", "acme.io"),
        *objects("gadgets", "tools.acme.io"),
        *crds(WIDGETS, GADGETS),
        *more,
    }
    assert role["kind"] == "ClusterRole"
    assert role["metadata"]["labels"] == {"rbac.kube-bind.io/aggregate-to-konnector": "true"}
    assert "*" not in str(role["rules"])


def test_f6_a_binding_has_rights_on_objects_of_its_namespace_alone() -> None:
    role, bound, cluster = binding_roles("shop", "team", [WIDGETS], konnector=KONNECTOR)
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "team")
    assert rights(role) == objects("widgets", "acme.io")
    assert bound["subjects"] == [KONNECTOR]
    assert bound["roleRef"]["name"] == role["metadata"]["name"]
    assert rights(cluster) == crds(WIDGETS)


def test_a_cluster_binding_and_a_binding_never_share_a_role() -> None:
    assert role_name("team.shop") != role_name("shop", "team")
    assert role_name("team:shop") != role_name("shop", "team")


@pytest.mark.parametrize("bound", [True, False], ids=["autoBind", "pullPolicy All"])
def test_a_connection_has_rights_on_what_it_makes_or_binds_itself(bound: bool) -> None:
    (role,) = connection_roles("shop", [WIDGETS], objects=bound)
    more = objects("widgets", "acme.io") if bound else set()
    assert rights(role) == {*crds(WIDGETS), *more}
    assert role["metadata"]["name"] == connection_role_name("shop") != role_name("shop")
    assert role["metadata"]["labels"] == {"rbac.kube-bind.io/aggregate-to-konnector": "true"}
    assert connection_roles("shop", [], objects=bound) == []


@pytest.mark.parametrize("namespace", ["", "team"], ids=["ClusterBinding", "Binding"])
def test_people_have_rights_on_objects_alone(namespace: str) -> None:
    edit, view = user_roles("shop", [WIDGETS, WIDGETS], namespace)
    assert [edit["metadata"]["name"], view["metadata"]["name"]] == [
        *user_role_names("shop", namespace)
    ]
    assert {(group, kind) for group, kind, _, _ in rights(edit)} == {("acme.io", "widgets")}
    assert rights(view) == {("acme.io", "widgets", verb, "*") for verb in READ}
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert edit["metadata"]["labels"] == {f"{prefix}edit": "true", f"{prefix}admin": "true"}
    assert view["metadata"]["labels"] == {f"{prefix}view": "true"}
