"""What the konnector may do, and no more."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.kubebind import LABEL_AGGREGATE_TO_KONNECTOR, GroupResource, PermissionClaim
from fairlead.api.meta import JSON
from fairlead.konnector.manifests import manifests
from fairlead.konnector.rights import binding_roles, remedy, role_labels, user_roles


EVERYTHING = manifests(namespace="kube-bind", image="fairlead:1")


def rules(objects: list[JSON]) -> list[JSON]:
    return [rule for one in objects for rule in one.get("rules", [])]


THINGS = [GroupResource(group="example.org", resource="things")]


def roles() -> list[JSON]:
    claim = msgspec.convert({"resource": "secrets", "selector": {}}, PermissionClaim)
    return binding_roles("db", THINGS, [claim])


def test_nothing_has_a_wildcard_or_hands_out_rights() -> None:
    for rule in rules([*EVERYTHING, *roles(), *user_roles("db", THINGS)]):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert "rbac.authorization.k8s.io" not in rule["apiGroups"]


def test_secrets_are_granted_in_the_konnectors_namespace_alone() -> None:
    cluster_wide = [one for one in EVERYTHING if one["kind"] == "ClusterRole"]
    assert not [rule for rule in rules(cluster_wide) if "secrets" in rule["resources"]]


def test_its_own_lease_alone_is_written_and_never_patched() -> None:
    named = [rule for rule in rules(EVERYTHING) if rule.get("resourceNames") == ["kube-bind"]]
    assert [rule["verbs"] for rule in named] == [["get", "update"]]


def test_rights_on_what_is_bound_come_by_aggregation() -> None:
    aggregated = next(one for one in EVERYTHING if "aggregationRule" in one)
    (selector,) = aggregated["aggregationRule"]["clusterRoleSelectors"]
    konnector, reader = roles()
    assert selector["matchLabels"].items() <= konnector["metadata"]["labels"].items()
    assert not selector["matchLabels"].items() <= reader["metadata"]["labels"].items()


def test_a_binding_gives_rights_on_what_is_bound_and_claimed() -> None:
    konnector, reader = roles()
    granted = {(rule["apiGroups"][0], *rule["resources"]) for rule in konnector["rules"]}
    assert granted == {
        ("example.org", "things"),
        ("example.org", "things/status"),
        ("", "secrets"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    }
    (crds,) = (rule for rule in konnector["rules"] if "resourceNames" in rule)
    assert crds["resourceNames"] == ["things.example.org"]
    assert crds["verbs"] == ["update", "delete"]
    (status,) = [rule for rule in konnector["rules"] if rule["resources"] == ["things/status"]]
    assert status["verbs"] == ["update"]
    assert [rule["resources"] for rule in reader["rules"]] == [["things"]]
    assert reader["rules"][0]["verbs"] == ["get", "list", "watch"]
    assert reader["metadata"]["labels"] == {"servicebinding.io/controller": "true"}


def test_people_get_rights_on_bound_objects_by_view_edit_and_admin() -> None:
    editor, viewer = user_roles("db", THINGS)
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    into = {f"{aggregate}edit": "true", f"{aggregate}admin": "true"}
    assert editor["metadata"]["labels"] == into
    assert viewer["metadata"]["labels"] == {f"{aggregate}view": "true"}
    granted = {"apiGroups": ["example.org"], "resources": ["things"]}
    read = ["get", "list", "watch"]
    assert viewer["rules"] == [{**granted, "verbs": read}]
    write = ["create", "update", "patch", "delete", "deletecollection"]
    assert editor["rules"] == [{**granted, "verbs": [*read, *write]}]


def test_every_role_of_a_binding_goes_with_it() -> None:
    """By name and label, so that none of another program is deleted."""
    every = [*roles(), *user_roles("db", THINGS)]
    labels = role_labels("db")
    assert [role["metadata"]["name"] for role in every] == [*labels]
    for role in every:
        assert role["metadata"]["labels"][labels[role["metadata"]["name"]]] == "true"


def test_the_remedy_names_the_role() -> None:
    assert roles()[0]["metadata"]["name"] in remedy("db")


@pytest.mark.parametrize("kind", ["Namespace", "ServiceAccount", "Deployment"])
def test_the_manifests_are_whole(kind: str) -> None:
    assert [one for one in EVERYTHING if one["kind"] == kind]


def test_the_health_of_the_deployment_can_be_asked_from_outside() -> None:
    deployment = EVERYTHING[-1]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--health-probe-bind-address=0.0.0.0:8081" in container["args"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_only_its_own_crds_are_changed_without_a_binding() -> None:
    found = [
        rule for rule in rules(EVERYTHING) if "customresourcedefinitions" in rule["resources"]
    ]
    unnamed = [rule for rule in found if "resourceNames" not in rule]
    assert [rule["verbs"] for rule in unnamed] == [["get", "list", "watch", "create"]]
    own = [rule for rule in found if "resourceNames" in rule]
    names = [name for rule in own for name in rule["resourceNames"]]
    assert {name.partition(".")[2] for name in names} == {"kube-bind.io", "core.kbind.io"}
    assert [rule["verbs"] for rule in own] == [["update"], ["update"]]


def test_groups_that_bindings_may_bind_are_granted_on_request_alone() -> None:
    assert not [one for one in EVERYTHING if one["metadata"]["name"].endswith("-groups")]
    granted = [
        one
        for one in manifests(image="x", bound_groups=["acme.io"])
        if one["metadata"]["name"].endswith("-groups")
    ]
    (role,) = granted
    assert LABEL_AGGREGATE_TO_KONNECTOR in role["metadata"]["labels"]
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["acme.io"], ["*"], ["get", "list", "watch", "patch"]),
        (["acme.io"], ["*/status"], ["update"]),
        (["apiextensions.k8s.io"], ["customresourcedefinitions"], ["update", "delete"]),
    ]
