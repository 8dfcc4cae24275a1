"""What a real cluster needs to run the konnector, with no right too many.

Rights on what is bound come with each binding: a ClusterRole labelled
``rbac.kube-bind.io/aggregate-to-konnector: "true"`` that ``fairlead bind`` writes. The konnector
itself can write no RBAC object.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    GROUP,
    LABEL_AGGREGATE_TO_KONNECTOR,
)
from fairlead.api.meta import JSON
from fairlead.konnector.options import DEFAULT_NAMESPACE


NAME = "konnector"
"""The ServiceAccount and the Deployment."""
ROLE = "fairlead-konnector"
LEASE = "kube-bind"
"""kube-bind's own name for it, so that both konnectors never work at once."""

HEALTH_PORT = 8081
METRICS_PORT = 8080

_RBAC = "rbac.authorization.k8s.io"
_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fairlead"}
_READ = ("get", "list", "watch")


def manifests(*, namespace: str = DEFAULT_NAMESPACE, image: str, replicas: int = 1) -> list[JSON]:
    """Everything to apply, in order.

    Args:
        namespace: of the konnector and its kubeconfig Secrets.
        image: that runs it.
        replicas: of the Deployment; one of them works at a time.
    """
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(namespace)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(NAME, namespace)},
        _aggregated(),
        _own_rights(),
        _binding("ClusterRoleBinding", ROLE, "ClusterRole", namespace),
        _role(
            namespace, "konnector-secrets", [_rule("", ["secrets"], *_READ, "create", "update")]
        ),
        _binding("RoleBinding", "konnector-secrets", "Role", namespace),
        _role(namespace, "konnector-leader-election", _lease_rules()),
        _binding("RoleBinding", "konnector-leader-election", "Role", namespace),
        _deployment(namespace, image, replicas),
    ]


def _own_rights() -> JSON:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": _meta(f"{ROLE}-controllers", "", {LABEL_AGGREGATE_TO_KONNECTOR: "true"}),
        "rules": [
            _rule(GROUP, [APISERVICEBINDINGS.plural], *_READ, "patch"),
            _rule(GROUP, [f"{APISERVICEBINDINGS.plural}/status"], "patch"),
            _rule(GROUP, [f"{APISERVICEBINDINGS.plural}/finalizers"], "update"),
            _rule(GROUP, [APISERVICEBINDINGBUNDLES.plural], *_READ),
            _rule(
                "apiextensions.k8s.io",
                ["customresourcedefinitions"],
                *_READ,
                "create",
                "update",
                "delete",
            ),
            _rule("", ["namespaces"], *_READ, "create"),
            _rule("", ["events"], "create", "patch"),
        ],
    }


def _lease_rules() -> list[JSON]:
    """The name of what is created cannot be restricted."""
    own = _rule("coordination.k8s.io", ["leases"], "get", "update", "patch")
    return [
        _rule("coordination.k8s.io", ["leases"], "create"),
        {**own, "resourceNames": [LEASE]},
    ]


def _rule(group: str, resources: Sequence[str], *verbs: str) -> JSON:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _meta(name: str, namespace: str = "", labels: dict[str, str] | None = None) -> JSON:
    metadata: JSON = {"name": name, "labels": {**_LABELS, **(labels or {})}}
    return metadata | ({"namespace": namespace} if namespace else {})


def _aggregated() -> JSON:
    selector = {"matchLabels": {LABEL_AGGREGATE_TO_KONNECTOR: "true"}}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": _meta(ROLE),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
        "rules": [],
    }


def _role(namespace: str, name: str, rules: list[JSON]) -> JSON:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _meta(name, namespace),
        "rules": rules,
    }


def _binding(kind: str, name: str, role_kind: str, namespace: str) -> JSON:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": _meta(name, namespace if kind == "RoleBinding" else ""),
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
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
        "name": NAME,
        "image": image,
        "args": [
            *("konnector", "run", "--leader-elect=true"),
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
