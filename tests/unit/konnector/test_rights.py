"""What the konnector may do, and no more."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.kubebind import GroupResource, PermissionClaim
from fairlead.api.meta import JSON
from fairlead.konnector.manifests import manifests
from fairlead.konnector.roles import binding_roles, remedy


EVERYTHING = manifests(namespace="kube-bind", image="fairlead:1")


def rules(objects: list[JSON]) -> list[JSON]:
    return [rule for one in objects for rule in one.get("rules", [])]


def roles() -> list[JSON]:
    things = [GroupResource(group="example.org", resource="things")]
    claim = msgspec.convert({"resource": "secrets", "selector": {}}, PermissionClaim)
    return binding_roles("db", things, [claim])


def test_nothing_has_a_wildcard_or_hands_out_rights() -> None:
    for rule in rules([*EVERYTHING, *roles()]):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert "rbac.authorization.k8s.io" not in rule["apiGroups"]


def test_secrets_are_granted_in_the_konnectors_namespace_alone() -> None:
    cluster_wide = [one for one in EVERYTHING if one["kind"] == "ClusterRole"]
    assert not [rule for rule in rules(cluster_wide) if "secrets" in rule["resources"]]


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
    }
    assert [rule["resources"] for rule in reader["rules"]] == [["things"]]
    assert reader["rules"][0]["verbs"] == ["get", "list", "watch"]
    assert reader["metadata"]["labels"] == {"servicebinding.io/controller": "true"}


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
