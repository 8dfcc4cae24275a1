from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead.api.meta import JSON
from fairlead.provider.credentials import binder_cluster_role
from fairlead.provider.manifests import export_roles, manifests, shown_roles


EXPORTS = ["widgets.example.org", "postgresaccesses.access.k8s.delta10.nl"]


def rules(bodies: list[JSON]) -> Iterator[JSON]:
    for body in bodies:
        yield from body.get("rules", [])


def by_name(bodies: list[JSON]) -> dict[str, JSON]:
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in bodies}


def test_no_rule_has_a_wildcard_or_a_verb_that_widens_rights() -> None:
    for rule in rules(manifests(image="i", exports=EXPORTS, invitations=True)):
        for field in ("apiGroups", "resources", "verbs"):
            assert "*" not in "".join(rule[field])
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_without_exports_the_provider_reads_no_secret() -> None:
    own = [body for body in manifests(image="i") if body["metadata"]["name"] != "kube-binder"]
    assert all("secrets" not in rule["resources"] for rule in rules(own))


def test_every_export_is_a_cluster_role_of_its_own_that_the_provider_gets() -> None:
    found = by_name(export_roles(EXPORTS, claims=["secrets"]))
    assert set(found) == {
        "ClusterRole/fairlead-provider-export-widgets.example.org",
        "ClusterRole/fairlead-provider-export-postgresaccesses.access.k8s.delta10.nl",
        "ClusterRole/fairlead-provider-claim-secrets",
    }
    for body in found.values():
        label = "rbac.kube-bind.io/aggregate-to-provider"
        assert body["metadata"]["labels"][label] == "true"
    (rule,) = found["ClusterRole/fairlead-provider-export-widgets.example.org"]["rules"]
    assert rule["apiGroups"] == ["example.org"]
    assert rule["resources"] == ["widgets"]


def test_the_front_door_reads_what_is_exported_and_never_a_secret() -> None:
    found = by_name(shown_roles(EXPORTS))
    assert set(found) == {
        "ClusterRole/fairlead-serve-export-widgets.example.org",
        "ClusterRole/fairlead-serve-export-postgresaccesses.access.k8s.delta10.nl",
        "ClusterRole/fairlead-serve-events",
    }
    for body in found.values():
        assert body["metadata"]["labels"]["rbac.kube-bind.io/aggregate-to-serve"] == "true"
        (rule,) = body["rules"]
        assert rule["verbs"] == ["get", "list", "watch"]
        assert rule["resources"] in (["widgets"], ["postgresaccesses"], ["events"])
    assert set(found) < set(by_name(manifests(image="i", exports=EXPORTS)))
    assert shown_roles([]) == []


@pytest.mark.parametrize("export", ["widgets", ".example.org", "widgets.", ""])
def test_an_export_needs_plural_and_group(export: str) -> None:
    with pytest.raises(ValueError, match=r"has to be PLURAL\.GROUP"):
        export_roles([export])


def test_only_what_can_be_claimed_is_granted() -> None:
    with pytest.raises(ValueError, match="only configmaps, secrets, serviceaccounts can be"):
        export_roles(EXPORTS, claims=["pods"])


def test_namespace_and_names_fit_together() -> None:
    found = by_name(manifests(image="reg/f:1", namespace="elsewhere", exports=EXPORTS))
    assert "Namespace/elsewhere" in found
    subject = {"kind": "ServiceAccount", "name": "fairlead-provider", "namespace": "elsewhere"}
    assert found["ClusterRoleBinding/fairlead-provider"]["subjects"] == [subject]
    assert found["RoleBinding/fairlead-provider-leader-election"]["subjects"] == [subject]
    assert found["ServiceAccount/fairlead-provider"]["metadata"]["namespace"] == "elsewhere"
    deployment = found["Deployment/fairlead-provider"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["image"] == "reg/f:1"
    assert deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"]


def test_the_provider_is_given_the_address_for_consumers() -> None:
    address = "https://api.example.org:6443"
    *others, deployment = manifests(image="i", external_address=address)
    *plain, without = manifests(image="i")
    assert others == plain
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--external-address={address}" in container["args"]
    assert "--external-address" not in str(without)
    with pytest.raises(ValueError, match="has to be a URL such as https://host:6443"):
        manifests(image="i", external_address="http://api.example.org")


def test_the_names_that_kube_bind_knows_are_there() -> None:
    found = by_name(manifests(image="i"))
    aggregated = found["ClusterRole/kube-binder-exports"]["aggregationRule"]
    assert aggregated["clusterRoleSelectors"] == [
        {"matchLabels": {"rbac.kube-bind.io/aggregate-to-parent": "true"}}
    ]
    assert found["ClusterRole/kube-binder"] == binder_cluster_role()


def test_consumers_may_not_decide_what_only_the_provider_decides() -> None:
    granted = {
        (resource, verb)
        for rule in binder_cluster_role()["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for resource in (
        *("apiserviceexports", "boundschemas", "clusterbindings", "secrets"),
        *("apiservicenamespaces/status", "apiserviceexportrequests/status"),
    ):
        assert not {(resource, verb) for verb in ("create", "update", "patch", "delete")} & granted


def test_the_power_to_invite_is_a_role_of_its_own_that_has_to_be_asked_for() -> None:
    name = "fairlead-provider-invitations"
    plain = by_name(manifests(image="i", exports=EXPORTS))
    found = by_name(manifests(image="i", exports=EXPORTS, invitations=True))
    assert set(found) - set(plain) == {f"ClusterRole/{name}", f"ClusterRoleBinding/{name}"}
    role = found[f"ClusterRole/{name}"]
    assert "administrator" in role["metadata"]["annotations"]["kubernetes.io/description"]
    # Nobody can hand out what he does not hold.
    for rule in binder_cluster_role()["rules"]:
        assert rule in role["rules"]
