"""The ClusterRoles and bindings of a new cluster, limited to the kinds that the sandbox serves.

Names and rules follow "Using RBAC Authorization", default roles and role bindings.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.meta import JSON


RBAC = "rbac.authorization.k8s.io"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_AGGREGATE = f"{RBAC}/aggregate-to-"

_CORE_VIEW = (
    "configmaps",
    "endpoints",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "pods",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "serviceaccounts",
    "services",
    "services/status",
)
_CORE_STATUS = (
    "bindings",
    "events",
    "limitranges",
    "namespaces",
    "namespaces/status",
    "pods/log",
    "pods/status",
    "replicationcontrollers/status",
    "resourcequotas",
    "resourcequotas/status",
)
_CORE_EDIT = (
    "configmaps",
    "endpoints",
    "events",
    "persistentvolumeclaims",
    "pods",
    "pods/attach",
    "pods/exec",
    "pods/portforward",
    "pods/proxy",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "secrets",
    "serviceaccounts",
    "services",
    "services/proxy",
)
_APPS = (
    "daemonsets",
    "deployments",
    "deployments/scale",
    "replicasets",
    "replicasets/scale",
    "statefulsets",
    "statefulsets/scale",
)
_APPS_STATUS = (
    "controllerrevisions",
    "daemonsets/status",
    "deployments/status",
    "replicasets/status",
    "statefulsets/status",
)
_BATCH = ("cronjobs", "jobs")
_URLS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_URLS)


def _rule(group: str, resources: Iterable[str], verbs: Iterable[str]) -> JSON:
    return {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}


def _urls(urls: Iterable[str], verbs: Iterable[str] = ("get",)) -> JSON:
    return {"nonResourceURLs": [*urls], "verbs": [*verbs]}


_EVERYTHING = [_rule("*", ("*",), ("*",)), _urls(("*",), ("*",))]
_VIEW = [
    _rule("", _CORE_VIEW, _READ),
    _rule("", _CORE_STATUS, _READ),
    _rule("apps", (*_APPS, *_APPS_STATUS), _READ),
    _rule("batch", (*_BATCH, "cronjobs/status", "jobs/status"), _READ),
    _rule("discovery.k8s.io", ("endpointslices",), _READ),
    _rule("networking.k8s.io", ("ingresses", "ingresses/status", "networkpolicies"), _READ),
    _rule("policy", ("poddisruptionbudgets", "poddisruptionbudgets/status"), _READ),
]
_EDIT = [
    _rule("", ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets"), _READ),
    _rule("", ("services/proxy",), _READ),
    _rule("", ("serviceaccounts",), ("impersonate",)),
    _rule("", ("serviceaccounts/token",), ("create",)),
    _rule("", _CORE_EDIT, _WRITE),
    _rule("apps", _APPS, _WRITE),
    _rule("batch", _BATCH, _WRITE),
    _rule("networking.k8s.io", ("ingresses", "networkpolicies"), _WRITE),
    _rule("policy", ("poddisruptionbudgets",), _WRITE),
    _rule("coordination.k8s.io", ("leases",), (*_READ, *_WRITE)),
]
_ADMIN = [
    _rule("authorization.k8s.io", ("localsubjectaccessreviews",), ("create",)),
    _rule(RBAC, ("rolebindings", "roles"), (*_READ, *_WRITE)),
]
_BASIC = [
    _rule(
        "authorization.k8s.io",
        ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        ("create",),
    ),
    _rule("authentication.k8s.io", ("selfsubjectreviews",), ("create",)),
]
_DELEGATOR = [
    _rule("authentication.k8s.io", ("tokenreviews",), ("create",)),
    _rule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
]


def _metadata(name: str, labels: dict[str, str] | None = None) -> JSON:
    return {
        "name": name,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
    }


def _role(name: str, rules: list[JSON], **labels: str) -> JSON:
    # Only the names of the keywords count: the roles that this one is aggregated to.
    into = {f"{_AGGREGATE}{target}": "true" for target in labels}
    return {"metadata": _metadata(name, into), "rules": rules}


def _aggregated(name: str, **labels: str) -> JSON:
    selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
    return _role(name, [], **labels) | {"aggregationRule": {"clusterRoleSelectors": [selector]}}


def cluster_roles() -> list[JSON]:
    """Return the bodies of the default ClusterRoles."""
    return [
        _role("cluster-admin", _EVERYTHING),
        _aggregated("admin"),
        _aggregated("edit", admin=""),
        _aggregated("view", edit=""),
        _role("system:aggregate-to-admin", _ADMIN, admin=""),
        _role("system:aggregate-to-edit", _EDIT, edit=""),
        _role("system:aggregate-to-view", _VIEW, view=""),
        _role("system:auth-delegator", _DELEGATOR),
        _role("system:basic-user", _BASIC),
        _role("system:discovery", [_urls(_DISCOVERY)]),
        _role("system:public-info-viewer", [_urls(_URLS)]),
    ]


def cluster_role_bindings() -> list[JSON]:
    """Return the bodies of the default ClusterRoleBindings."""
    everyone = ("system:authenticated", "system:unauthenticated")
    return [
        _binding("cluster-admin", "system:masters"),
        _binding("system:basic-user", "system:authenticated"),
        _binding("system:discovery", "system:authenticated"),
        _binding("system:public-info-viewer", *everyone),
    ]


def _binding(role: str, *groups: str) -> JSON:
    return {
        "metadata": _metadata(role),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups],
    }
