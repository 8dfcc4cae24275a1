"""What a real cluster needs to run the operator, with no right too many."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.access import GROUP, POSTGRESACCESSES, POSTGRESSERVERS, crds
from fairlead.api.meta import JSON
from fairlead.postgres.options import DEFAULT_NAMESPACE


NAME = "fairlead-postgres"
AGGREGATE_TO_PROVIDER_LABEL = "rbac.kube-bind.io/aggregate-to-provider"
SERVICE_BINDING_LABEL = "servicebinding.io/controller"
HEALTH_PORT = 8081
METRICS_PORT = 8080

_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "fairlead"}
_RBAC_GROUP = "rbac.authorization.k8s.io"
_RBAC_VERSION = f"{_RBAC_GROUP}/v1"
_READ = ("get", "list", "watch")
_ALL = (*_READ, "create", "update", "patch", "delete")


def manifests(
    *, namespace: str = DEFAULT_NAMESPACE, image: str, exported: bool = False, replicas: int = 1
) -> list[JSON]:
    """Everything to apply, in order.

    Args:
        namespace: of the operator and of the credentials of PostgresServers.
        image: that runs it.
        exported: let kube-bind's provider hand out rights on PostgresAccess, and label its CRD.
        replicas: of the Deployment; one of them works at a time.
    """
    parts = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(namespace)},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(NAME, namespace)},
        _role("ClusterRole", NAME, "", _cluster_rules()),
        _role("Role", NAME, namespace, _own_rules()),
        _binding("ClusterRoleBinding", "", namespace),
        _binding("RoleBinding", namespace, namespace),
        service_binding_role(),
    ]
    if exported:
        parts.append(export_role())
    return [*parts, _deployment(namespace, image, replicas, exported=exported)]


def export_role() -> JSON:
    """The rights that the provider hands out with PostgresAccess, its to have by aggregation."""
    rules = [_rule(GROUP, [POSTGRESACCESSES.plural], _ALL)]
    role = _role("ClusterRole", f"{NAME}-export", "", rules)
    role["metadata"]["labels"][AGGREGATE_TO_PROVIDER_LABEL] = "true"
    return role


def service_binding_role() -> JSON:
    """The rights of service-binding controllers on PostgresAccess as a Provisioned Service."""
    rules = [_rule(GROUP, [POSTGRESACCESSES.plural], _READ)]
    role = _role("ClusterRole", f"{NAME}-servicebinding", "", rules)
    role["metadata"]["labels"][SERVICE_BINDING_LABEL] = "true"
    return role


def _cluster_rules() -> list[JSON]:
    own_crds = [crd["metadata"]["name"] for crd in crds()]
    accesses, servers = POSTGRESACCESSES.plural, POSTGRESSERVERS.plural
    definitions = _rule("apiextensions.k8s.io", ["customresourcedefinitions"], ("update",))
    return [
        _rule(GROUP, [accesses], (*_READ, "patch")),
        _rule(GROUP, [servers], _READ),
        _rule(GROUP, [f"{accesses}/status", f"{servers}/status"], ("patch",)),
        _rule(GROUP, [f"{accesses}/finalizers"], ("update",)),
        _rule("", ["secrets"], (*_READ, "create", "patch", "delete")),
        _rule("", ["namespaces"], ("get",)),
        _rule("", ["events"], ("create", "patch")),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], (*_READ, "create")),
        {**definitions, "resourceNames": own_crds},
    ]


def _own_rules() -> list[JSON]:
    leases = _rule("coordination.k8s.io", ["leases"], ("create",))
    own = _rule("coordination.k8s.io", ["leases"], ("get", "update", "patch"))
    return [leases, {**own, "resourceNames": [NAME]}]


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> JSON:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


def _meta(name: str, namespace: str = "") -> JSON:
    metadata: JSON = {"name": name, "labels": dict(_LABELS)}
    return metadata | ({"namespace": namespace} if namespace else {})


def _role(kind: str, name: str, namespace: str, rules: list[JSON]) -> JSON:
    return {
        "apiVersion": _RBAC_VERSION,
        "kind": kind,
        "metadata": _meta(name, namespace),
        "rules": rules,
    }


def _binding(kind: str, namespace: str, account_namespace: str) -> JSON:
    role = "ClusterRole" if kind == "ClusterRoleBinding" else "Role"
    return {
        "apiVersion": _RBAC_VERSION,
        "kind": kind,
        "metadata": _meta(NAME, namespace),
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": role, "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": account_namespace}],
    }


def _deployment(namespace: str, image: str, replicas: int, *, exported: bool) -> JSON:
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
                    "containers": [_container(namespace, image, exported=exported)],
                    "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
                },
            },
        },
    }


def _container(namespace: str, image: str, *, exported: bool) -> JSON:
    return {
        "name": "postgres",
        "image": image,
        "args": [
            *("postgres", "run", "--leader-elect=true", f"--namespace={namespace}"),
            f"--health-probe-bind-address=0.0.0.0:{HEALTH_PORT}",
            f"--metrics-bind-address=0.0.0.0:{METRICS_PORT}",
            *(["--exported"] if exported else []),
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
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
