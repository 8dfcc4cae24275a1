from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.api.meta import JSON
from fairlead.cli import main
from fairlead.cli.kubebind.serve import serve
from fairlead.portal.manifests import manifests
from fairlead.provider.manifests import shown_roles


NEEDED: dict[str, str] = {
    "external_url": "https://bind.example.org",
    "issuer_url": "https://login.example.org",
    "client_id": "fairlead",
}


def made(**more: Any) -> list[JSON]:
    return manifests(**{"image": "i", **NEEDED, **more})


def by_name(bodies: list[JSON]) -> dict[str, JSON]:
    return {f"{body['kind']}/{body['metadata']['name']}": body for body in bodies}


def rules(bodies: list[JSON]) -> Iterator[JSON]:
    for body in bodies:
        yield from body.get("rules", [])


def test_what_there_is_to_apply() -> None:
    assert list(by_name(made())) == [
        "Namespace/fairlead-serve",
        "ServiceAccount/fairlead-serve",
        "Role/fairlead-serve",
        "RoleBinding/fairlead-serve",
        "ClusterRole/fairlead-serve",
        "ClusterRoleBinding/fairlead-serve",
        "ClusterRole/fairlead-serve-exports",
        "ClusterRoleBinding/fairlead-serve-exports",
        "ClusterRole/fairlead-console-admin",
        "Service/fairlead-serve",
        "Deployment/fairlead-serve",
    ]


def test_no_rule_has_a_wildcard_or_a_verb_that_widens_rights() -> None:
    for rule in rules(made()):
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert "*" not in "".join(words)
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(words)


def test_secrets_are_its_own_alone_and_rbac_none_of_its_business() -> None:
    found = by_name(made())
    everywhere = found["ClusterRole/fairlead-serve"]["rules"]
    assert all("secrets" not in rule["resources"] for rule in everywhere)
    for rule in rules(made()):
        assert rule["apiGroups"] != ["rbac.authorization.k8s.io"]
        assert "leases" not in rule["resources"]
    writes = {
        (resource, verb)
        for rule in everywhere
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    }
    assert writes == {("subjectaccessreviews", "create")}


def test_what_is_exported_is_read_by_roles_that_carry_a_label() -> None:
    role = by_name(made())["ClusterRole/fairlead-serve-exports"]
    assert "rules" not in role
    (selector,) = role["aggregationRule"]["clusterRoleSelectors"]
    (shown, *_) = shown_roles(["widgets.example.org"])
    assert selector["matchLabels"].items() <= shown["metadata"]["labels"].items()


def test_two_replicas_serve_at_once_and_a_service_leads_to_them() -> None:
    found = by_name(made(namespace="elsewhere"))
    spec = found["Deployment/fairlead-serve"]["spec"]
    assert spec["replicas"] == 2
    (container,) = spec["template"]["spec"]["containers"]
    assert not [one for one in container["args"] if "lease" in one or "leader" in one]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert len(set(ports.values())) == 3
    service = found["Service/fairlead-serve"]
    assert service["metadata"]["namespace"] == "elsewhere"
    assert service["spec"]["selector"] == spec["template"]["metadata"]["labels"]
    assert [one["targetPort"] for one in service["spec"]["ports"]] == ["http"]
    (secret,) = container["env"]
    assert secret["valueFrom"]["secretKeyRef"]["optional"] is True


def test_its_command_takes_its_flags() -> None:
    found = by_name(made(namespace="elsewhere", trusted_proxies=["10.0.0.0/8"]))
    pod = found["Deployment/fairlead-serve"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][:2] == ["provider", "serve"]
    parsed = serve.make_context("serve", container["args"][2:]).params
    assert parsed["namespace"] == "elsewhere"
    assert parsed["trusted_proxies"] == ("10.0.0.0/8",)
    assert parsed["external_url"] == "https://bind.example.org"
    assert parsed["listen_address"] == "0.0.0.0:8080"


def test_a_role_for_people_has_the_name_and_the_prefixes() -> None:
    found = by_name(
        made(
            allowed_groups=["team"],
            allowed_users=["ann"],
            username_prefix="u:",
            groups_prefix="",
        )
    )
    (rule,) = found["ClusterRole/kube-bind-oidc-user"]["rules"]
    assert (rule["apiGroups"], rule["verbs"]) == (["kube-bind.io"], ["bind"])
    subjects = found["ClusterRoleBinding/kube-bind-oidc-user"]["subjects"]
    assert [(one["kind"], one["name"]) for one in subjects] == [
        ("Group", "team"),
        ("User", "u:ann"),
    ]


def test_a_role_for_administrators_is_bound_to_the_groups_that_are_named() -> None:
    (rule,) = by_name(made())["ClusterRole/fairlead-console-admin"]["rules"]
    assert (rule["resources"], rule["verbs"]) == (["clusterbindings"], ["list"])
    assert "ClusterRoleBinding/fairlead-console-admin" not in by_name(made())
    found = by_name(made(console_admin_groups=["platform"], groups_prefix="g:"))
    (subject,) = found["ClusterRoleBinding/fairlead-console-admin"]["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", "g:platform")
    with pytest.raises(ValueError, match="--console-admin-group"):
        made(console_admin_groups=["system:masters"], groups_prefix="")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"external_url": "http://127.0.0.1"}, "--external-url .* https"),
        ({"issuer_url": "login.example.org"}, "--oidc-issuer-url"),
        ({"client_id": ""}, "--oidc-issuer-client-id"),
        ({"trusted_proxies": ["ingress"]}, "--trusted-proxies"),
        ({"allowed_groups": ["system:masters"], "groups_prefix": ""}, "that Kubernetes reserves"),
        ({"username_prefix": "system:"}, "--oidc-username-prefix"),
        ({"groups_claim": ""}, "--oidc-groups-claim"),
        ({"subject_claim": "aud"}, "--oidc-subject-claim"),
        *(
            ({"namespace": name}, "--namespace")
            for name in ("fairlead-provider", "kube-bind", "kube-system", "default")
        ),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made(**more)


COMMAND = (
    *("manifests", "serve", "--external-url", "https://bind.example.org"),
    *("--oidc-issuer-url", "https://login.example.org", "--oidc-issuer-client-id", "fairlead"),
)


def test_the_command_prints_them() -> None:
    more = ("--oidc-allowed-groups", "a,b", "--oidc-allowed-user", "ann", "--image", "reg/f:1")
    result = CliRunner().invoke(main, [*COMMAND, *more])
    assert result.exit_code == 0, result.output
    found = by_name(list(yaml.safe_load_all(result.output)))
    subjects = found["ClusterRoleBinding/kube-bind-oidc-user"]["subjects"]
    assert [one["name"] for one in subjects] == ["oidc:a", "oidc:b", "oidc:ann"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["manifests", "serve"], "serve needs --external-url"),
        ([*COMMAND[:4]], "serve needs --oidc-issuer-url"),
        ([*COMMAND, "--invitations"], "--invitations is for provider only"),
        (["manifests", "konnector", "--oidc-allowed-group", "a"], "is for serve only"),
        ([*COMMAND, "--trusted-proxies", "x"], "--trusted-proxies 'x' is neither an address nor"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert said in result.output
