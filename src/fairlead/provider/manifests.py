"""What a real cluster needs to run the provider's controllers, with no right too many.

A server lets nobody hand out rights that he does not hold. Beside a fixed ClusterRole the
provider therefore has an aggregated one: whoever offers a kind also creates a ClusterRole
labelled ``rbac.kube-bind.io/aggregate-to-provider: "true"`` that holds all verbs on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.kubebind import (
    BINDER_NAME,
    CLAIMABLE,
    GROUP,
    LABEL_AGGREGATE_TO_PARENT,
    LABEL_AGGREGATE_TO_PROVIDER,
    provider_crds,
)
from fairlead.api.meta import JSON
from fairlead.provider.binder import RBAC_GROUP, RBAC_VERSION, binder_cluster_role, rule
from fairlead.provider.options import DEFAULT_NAMESPACE
from fairlead.provider.rbac.reconcile import READ_VERBS, VERBS


NAME = "fairlead-provider"
DEFAULT_CLAIMS = ("secrets",)
"""The claimable resources whose rights are printed together with exports."""

HEALTH_PORT = 8081
METRICS_PORT = 8080

_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fairlead"}


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    exports: Sequence[str] = (),
    claims: Sequence[str] = DEFAULT_CLAIMS,
    replicas: int = 1,
) -> list[JSON]:
    """Everything to apply, in order.

    Args:
        namespace: of the controllers.
        image: that runs them.
        exports: what consumers may be offered, each as ``plural.group``.
        claims: which core resources consumers may claim beside them; rights on these are part of
            the result only when there are exports.
        replicas: of the Deployment; one of them works at a time.

    Raises:
        ValueError: an export has no group, or a claim is for what cannot be claimed.
    """
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(namespace)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(NAME, namespace)},
        _cluster_role(f"{NAME}-controllers", _controller_rules()),
        _binding("ClusterRoleBinding", f"{NAME}-controllers", "ClusterRole", namespace),
        _aggregated(NAME, LABEL_AGGREGATE_TO_PROVIDER),
        _binding("ClusterRoleBinding", NAME, "ClusterRole", namespace),
        *export_roles(exports, claims=claims),
        binder_cluster_role(),
        _aggregated(f"{BINDER_NAME}-exports", LABEL_AGGREGATE_TO_PARENT),
        _leader_election_role(namespace),
        _binding("RoleBinding", f"{NAME}-leader-election", "Role", namespace),
        _deployment(namespace, image, replicas),
    ]


def export_roles(exports: Sequence[str], *, claims: Sequence[str] = DEFAULT_CLAIMS) -> list[JSON]:
    """The labelled ClusterRoles that let the provider hand out rights on exported kinds.

    One for each export and claim, so that applying those of another export takes nothing away.

    Raises:
        ValueError: an export has no group, or a claim is for what cannot be claimed.
    """
    roles = []
    for export in exports:
        plural, dot, group = export.partition(".")
        if not (plural and dot and group):
            raise ValueError(f"export {export!r} has to be PLURAL.GROUP, such as widgets.x.org")
        roles.append(_part(f"{NAME}-export-{export}", [rule(group, [plural], VERBS)]))
    if exports:
        for claim in claims:
            if claim not in CLAIMABLE:
                allowed = ", ".join(sorted(CLAIMABLE))
                raise ValueError(f"claim {claim!r} is not possible: only {allowed} can be claimed")
            roles.append(_part(f"{NAME}-claim-{claim}", [rule("", [claim], VERBS)]))
    return roles


def _controller_rules() -> list[JSON]:
    status = [
        f"{plural}/status"
        for plural in (
            *("apiserviceexportrequests", "apiserviceexports"),
            *("apiservicenamespaces", "clusterbindings"),
        )
    ]
    own_crds = sorted(crd["metadata"]["name"] for crd in provider_crds())
    crds = rule("apiextensions.k8s.io", ["customresourcedefinitions"], ("update",))
    return [
        rule(GROUP, ["apiserviceexportrequests", "clusterbindings"], READ_VERBS),
        rule(GROUP, ["apiserviceexports", "boundschemas"], (*READ_VERBS, "create", "patch")),
        rule(GROUP, ["apiservicenamespaces"], (*READ_VERBS, "create")),
        rule(GROUP, status, ("patch",)),
        rule(GROUP, ["apiserviceexports/finalizers"], ("update",)),
        rule("", ["namespaces"], (*READ_VERBS, "create", "delete")),
        rule("", ["events"], ("create", "patch")),
        rule(
            RBAC_GROUP,
            ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
            (*READ_VERBS, "create", "patch", "delete"),
        ),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], (*READ_VERBS, "create")),
        {**crds, "resourceNames": own_crds},
    ]


def _meta(name: str, namespace: str = "") -> JSON:
    metadata: JSON = {"name": name, "labels": dict(_LABELS)}
    return metadata | ({"namespace": namespace} if namespace else {})


def _cluster_role(name: str, rules: list[JSON]) -> JSON:
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": _meta(name),
        "rules": rules,
    }


def _part(name: str, rules: list[JSON]) -> JSON:
    """A ClusterRole whose rights the provider gets by aggregation."""
    role = _cluster_role(name, rules)
    role["metadata"]["labels"][LABEL_AGGREGATE_TO_PROVIDER] = "true"
    return role


def _aggregated(name: str, label: str) -> JSON:
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": _meta(name),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
        "rules": [],
    }


def _binding(kind: str, name: str, role_kind: str, namespace: str) -> JSON:
    return {
        "apiVersion": RBAC_VERSION,
        "kind": kind,
        "metadata": _meta(name, namespace if kind == "RoleBinding" else ""),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role_kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }


def _leader_election_role(namespace: str) -> JSON:
    leases = rule("coordination.k8s.io", ["leases"], ("create",))
    own = rule("coordination.k8s.io", ["leases"], ("get", "update", "patch"))
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "Role",
        "metadata": _meta(f"{NAME}-leader-election", namespace),
        "rules": [leases, {**own, "resourceNames": [NAME]}],
    }


def _deployment(namespace: str, image: str, replicas: int) -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(NAME, namespace),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_container(image)],
                },
            },
        },
    }


def _container(image: str) -> JSON:
    return {
        "name": "provider",
        "image": image,
        "args": [
            *("provider", "run", "--leader-elect=true"),
            f"--health-probe-bind-address=0.0.0.0:{HEALTH_PORT}",
            f"--metrics-bind-address=0.0.0.0:{METRICS_PORT}",
        ],
        "ports": [
            {"name": "health", "containerPort": HEALTH_PORT},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
