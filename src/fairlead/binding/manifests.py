"""What a real cluster needs to run the binding controllers, with no right too many.

Rights on services and workloads reach the controllers by aggregation: whoever offers a kind also
creates a ClusterRole labelled ``servicebinding.io/controller: "true"`` (specification 1.1, RBAC).
The rights on the workloads of ``apps`` come along in such a role, to be left out where unwanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.meta import JSON
from fairlead.api.servicebinding import crds
from fairlead.api.servicebinding_common import CONTROLLER_LABEL
from fairlead.binding.options import DEFAULT_NAMESPACE


NAME = "fairlead-binding"
HEALTH_PORT = 8081
METRICS_PORT = 8080

READ = ("get", "list", "watch")
_RBAC_GROUP = "rbac.authorization.k8s.io"
_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fairlead"}
_BINDING_GROUPS = ("servicebinding.io", "binding.operators.coreos.com")


def manifests(*, namespace: str = DEFAULT_NAMESPACE, image: str, replicas: int = 1) -> list[JSON]:
    """Everything to apply, in order.

    Args:
        namespace: of the controllers.
        image: that runs them.
        replicas: of the Deployment; one of them works at a time.
    """
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(namespace)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(NAME, namespace)},
        _aggregated(),
        controller_role(f"{NAME}-controllers", _controller_rules()),
        controller_role(f"{NAME}-workloads", _workload_rules()),
        _binding("ClusterRoleBinding", NAME, "ClusterRole", namespace),
        _leader_election_role(namespace),
        _binding("RoleBinding", f"{NAME}-leader-election", "Role", namespace),
        _deployment(namespace, image, replicas),
    ]


def controller_role(name: str, rules: list[JSON]) -> JSON:
    """A ClusterRole whose rights every Service Binding controller gets by aggregation."""
    metadata = _meta(name)
    metadata["labels"][CONTROLLER_LABEL] = "true"
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": rules,
    }


def rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> JSON:
    """One rule of a role."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _controller_rules() -> list[JSON]:
    own_crds = sorted(crd["metadata"]["name"] for crd in crds())
    crd_updates = rule("apiextensions.k8s.io", ["customresourcedefinitions"], ("update",))
    bindings = [
        part
        for group in _BINDING_GROUPS
        for part in (
            rule(group, ["servicebindings"], (*READ, "patch")),
            rule(group, ["servicebindings/status"], ("patch",)),
            rule(group, ["servicebindings/finalizers"], ("update",)),
        )
    ]
    return [
        *bindings,
        rule("servicebinding.io", ["clusterworkloadresourcemappings"], READ),
        rule("", ["secrets"], (*READ, "create", "patch")),
        rule("", ["configmaps", "services"], READ),
        rule("", ["events"], ("create", "patch")),
        rule("authorization.k8s.io", ["subjectaccessreviews"], ("create",)),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], (*READ, "create")),
        {**crd_updates, "resourceNames": own_crds},
    ]


def _workload_rules() -> list[JSON]:
    verbs = (*READ, "update", "patch")
    apps = ["deployments", "statefulsets", "daemonsets", "replicasets"]
    return [rule("apps", apps, verbs), rule("batch", ["cronjobs"], verbs)]


def _meta(name: str, namespace: str = "") -> JSON:
    metadata: JSON = {"name": name, "labels": dict(_LABELS)}
    return metadata | ({"namespace": namespace} if namespace else {})


def _aggregated() -> JSON:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": _meta(NAME),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {CONTROLLER_LABEL: "true"}}]},
        "rules": [],
    }


def _binding(kind: str, name: str, role_kind: str, namespace: str) -> JSON:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": _meta(name, namespace if kind == "RoleBinding" else ""),
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": role_kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    }


def _leader_election_role(namespace: str) -> JSON:
    leases = rule("coordination.k8s.io", ["leases"], ("create",))
    own = rule("coordination.k8s.io", ["leases"], ("get", "update", "patch"))
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
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
        "name": "binding",
        "image": image,
        "args": [
            *("binding", "run", "--leader-elect=true"),
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
