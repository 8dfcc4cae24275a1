"""Objects that a cluster needs to run one of Fairlead's programs.

Each program has a ServiceAccount, roles bound to it alone, a Lease of its own and a Deployment
that satisfies the restricted Pod Security Standard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from fairlead.api.flags import Flag
from fairlead.api.meta import JSON


READ_VERBS = ("get", "list", "watch")
ALL_VERBS = (*READ_VERBS, "create", "update", "patch", "delete")
"""All RBAC verbs on objects except deletecollection."""

HEALTH_PORT = 8081
METRICS_PORT = 8080

RBAC_GROUP = "rbac.authorization.k8s.io"
AGGREGATE_TO_VIEW = f"{RBAC_GROUP}/aggregate-to-view"
AGGREGATE_TO_EDIT = f"{RBAC_GROUP}/aggregate-to-edit"
AGGREGATE_TO_ADMIN = f"{RBAC_GROUP}/aggregate-to-admin"
_RBAC_VERSION = f"{RBAC_GROUP}/v1"
USER = 65532
"""Uid and gid of the container: those of the user nonroot in distroless images."""
# Python loads client certificates from files alone, and the root file system is read-only.
_TEMPORARY: JSON = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], *, names: Sequence[str] = ()
) -> JSON:
    """Return one RBAC rule; the core group is ""."""
    result: JSON = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        result["resourceNames"] = list(names)
    return result


def lease_rules(lease: str) -> list[JSON]:
    """Return the rights on one Lease; creating cannot be limited to a name."""
    group = "coordination.k8s.io"
    return [
        rule(group, ["leases"], ["create"]),
        rule(group, ["leases"], ["get", "update"], names=[lease]),
    ]


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """Number, size and placement of a program's Pods.

    The default memory is enough for 40,000 objects of a konnector (docs/reference/sizes.md).
    Replicas are spread over nodes by default, so that not all of them fail with one.

    Attributes:
        replicas: Number of Pods; if the program has a Lease, one works and the others stand by.
        cpu_request: CPU that a node keeps free for each Pod.
        cpu_limit: CPU that a Pod may use at most; default: no limit.
        memory_request: Memory that a node keeps free for each Pod.
        memory_limit: Memory beyond which a Pod is killed; docs/reference/sizes.md has amounts by
            number of objects.
        priority_class: PriorityClass of the Pods.
        tolerations: Taint of nodes on which the Pods may run, such as dedicated=infra:NoSchedule;
            may be given several times.
        spread: Label of nodes, such as topology.kubernetes.io/zone; replicas are spread over its
            values if there is room. none turns spreading off. May be given several times.
        pull_secrets: Secret of the namespace for pulling the image; may be given several times.
        host_aliases: Address of host names that the cluster's DNS does not know, for example of a
            provider; may be given several times.
    """

    replicas: Annotated[int, Flag(least=0)] = 2
    cpu_request: Annotated[str, Flag(metavar="AMOUNT")] = "10m"
    cpu_limit: Annotated[str, Flag(metavar="AMOUNT")] = ""
    memory_request: Annotated[str, Flag(metavar="AMOUNT")] = "128Mi"
    memory_limit: Annotated[str, Flag(metavar="AMOUNT")] = "512Mi"
    priority_class: Annotated[str, Flag(metavar="NAME", names="object")] = ""
    tolerations: Annotated[tuple[JSON, ...], Flag("--toleration", "KEY[=VALUE][:EFFECT]")] = ()
    spread: Annotated[tuple[str, ...], Flag("--topology-spread", "LABEL")] = (
        "kubernetes.io/hostname",
    )
    pull_secrets: Annotated[
        tuple[str, ...], Flag("--image-pull-secret", "NAME", names="object")
    ] = ()
    host_aliases: Annotated[tuple[JSON, ...], Flag("--host-alias", "ADDRESS=NAME[,NAME]")] = ()

    def resources(self) -> JSON:
        """Return the requests and limits of the container."""
        limits = {"cpu": self.cpu_limit, "memory": self.memory_limit}
        return {
            "requests": {"cpu": self.cpu_request, "memory": self.memory_request},
            "limits": {name: amount for name, amount in limits.items() if amount},
        }

    def placement(self, selector: Mapping[str, str]) -> JSON:
        """Return the members of a Pod's spec about its nodes and the pulling of its image."""
        fields: JSON = {}
        if self.pull_secrets:
            fields["imagePullSecrets"] = [{"name": name} for name in self.pull_secrets]
        if self.priority_class:
            fields["priorityClassName"] = self.priority_class
        if self.tolerations:
            fields["tolerations"] = list(self.tolerations)
        if self.host_aliases:
            fields["hostAliases"] = list(self.host_aliases)
        if self.spread:
            fields["topologySpreadConstraints"] = [_spread(key, selector) for key in self.spread]
        return fields


DEFAULT_PODS = Pods()


def _spread(key: str, selector: Mapping[str, str]) -> JSON:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        # A cluster with a single node runs all replicas too.
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }


def labelled(documents: Sequence[JSON], labels: Mapping[str, str]) -> list[JSON]:
    """Return the objects with more labels, also in their Pod templates; their own labels win."""
    return [_labelled(one, labels) for one in documents] if labels else list(documents)


def _labelled(document: JSON, labels: Mapping[str, str]) -> JSON:
    labelled = {**document, "metadata": _with(document["metadata"], labels)}
    if template := document.get("spec", {}).get("template"):
        template = {**template, "metadata": _with(template["metadata"], labels)}
        labelled["spec"] = {**document["spec"], "template": template}
    return labelled


def _with(metadata: JSON, labels: Mapping[str, str]) -> JSON:
    # Selectors and aggregation rules rely on an object's own labels.
    return {**metadata, "labels": {**labels, **metadata.get("labels", {})}}


class PodProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program in a cluster; ``command`` has the words after ``fairlead``, without flags.

    Without a ``lease`` all replicas work at once. ``ports`` are further ports by name, in addition
    to health and metrics; ``environment`` has entries of the container's ``env``.
    """

    name: str
    namespace: str
    image: str
    command: tuple[str, ...]
    lease: str = ""
    pods: Pods = DEFAULT_PODS
    flags: tuple[str, ...] = ()
    ports: Mapping[str, int] = {}
    metrics_port: int = METRICS_PORT
    environment: tuple[JSON, ...] = ()

    def meta(
        self, name: str = "", *, namespaced: bool = False, labels: Mapping[str, str] | None = None
    ) -> JSON:
        """Return metadata with the recommended labels; the default name is the program's."""
        metadata: JSON = {"name": name or self.name}
        if namespaced:
            metadata["namespace"] = self.namespace
        return {**metadata, "labels": {**self._labels(), **(labels or {})}}

    def account(self) -> list[JSON]:
        """Return the namespace and the ServiceAccount."""
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": self.meta(self.namespace)},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self.meta(namespaced=True)},
        ]

    def cluster_role(
        self, name: str, rules: Sequence[JSON], *, labels: Mapping[str, str] | None = None
    ) -> JSON:
        """Return a ClusterRole; labels make it a part of an aggregated one."""
        return {
            "apiVersion": _RBAC_VERSION,
            "kind": "ClusterRole",
            "metadata": self.meta(name, labels=labels),
            "rules": list(rules),
        }

    def aggregated_role(
        self, name: str, label: str, *, labels: Mapping[str, str] | None = None
    ) -> JSON:
        """Return a ClusterRole that aggregates all with ``label: "true"``.

        It has no ``rules``: Kubernetes' controller fills them in. With an empty list, applying the
        manifest again would take all rights away until that controller has run.
        """
        selector = {"matchLabels": {label: "true"}}
        return {
            "apiVersion": _RBAC_VERSION,
            "kind": "ClusterRole",
            "metadata": self.meta(name, labels=labels),
            "aggregationRule": {"clusterRoleSelectors": [selector]},
        }

    def role(self, name: str, rules: Sequence[JSON]) -> JSON:
        """Return a Role in the program's namespace."""
        return {
            "apiVersion": _RBAC_VERSION,
            "kind": "Role",
            "metadata": self.meta(name, namespaced=True),
            "rules": list(rules),
        }

    def bound(self, role: JSON) -> JSON:
        """Return the binding of a role to the program's ServiceAccount, with the role's name."""
        name, kind = role["metadata"]["name"], role["kind"]
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        return {
            "apiVersion": _RBAC_VERSION,
            "kind": f"{kind}Binding",
            "metadata": self.meta(name, namespaced=kind == "Role"),
            # Immutable: another role needs a binding of another name.
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
            "subjects": [subject],
        }

    def lease_rules(self) -> list[JSON]:
        """Return the rights on the program's own Lease; creating cannot be limited to a name."""
        return lease_rules(self.lease)

    def deployment(self) -> JSON:
        """Return the Deployment; with a Lease, its replicas elect a leader."""
        labels = self._labels()
        pod: JSON = {
            "serviceAccountName": self.name,
            "securityContext": {
                "runAsNonRoot": True,
                # As a number: a kubelet cannot check runAsNonRoot against the name in an image.
                "runAsUser": USER,
                "runAsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [self._container()],
            "volumes": [_TEMPORARY],
            **self.pods.placement(labels),
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.meta(namespaced=True),
            "spec": {
                "replicas": self.pods.replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }

    def _labels(self) -> dict[str, str]:
        # Also the Deployment's selector, which is immutable: another label here would make every
        # update of an installed Deployment fail.
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/part-of": "fairlead"}

    def _container(self) -> JSON:
        election = ["--leader-elect=true", f"--lease-name={self.lease}"] if self.lease else []
        container: JSON = {
            "name": self.name,
            "image": self.image,
            # By default a kubelet pulls the tag "latest" at each start, and a private registry may
            # lack it.
            "imagePullPolicy": "IfNotPresent",
            "args": [
                *self.command,
                f"--namespace={self.namespace}",
                *election,
                # The kubelet and Prometheus come to the Pod's address; unless told otherwise,
                # programs listen on loopback alone.
                f"--health-probe-bind-address=0.0.0.0:{HEALTH_PORT}",
                f"--metrics-bind-address=0.0.0.0:{self.metrics_port}",
                # So that an error at the start is an object too.
                "--log-format=json",
                *self.flags,
            ],
            "ports": [
                {"name": "health", "containerPort": HEALTH_PORT},
                {"name": "metrics", "containerPort": self.metrics_port},
                *({"name": name, "containerPort": port} for name, port in self.ports.items()),
            ],
            # An image that is new to a node compiles what it imports, and a busy node takes its
            # time. To start again would take even longer.
            "startupProbe": {
                "httpGet": {"path": "/healthz", "port": "health"},
                "periodSeconds": 2,
                "failureThreshold": 150,
                "timeoutSeconds": 10,
            },
            "livenessProbe": {
                "httpGet": {"path": "/healthz", "port": "health"},
                "timeoutSeconds": 10,
            },
            "readinessProbe": {
                "httpGet": {"path": "/readyz", "port": "health"},
                "timeoutSeconds": 5,
            },
            "resources": self.pods.resources(),
            "volumeMounts": [{"name": _TEMPORARY["name"], "mountPath": "/tmp"}],  # noqa: S108
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        if self.environment:
            container["env"] = list(self.environment)
        return container

    def service(self, ports: Mapping[str, int]) -> JSON:
        """Return a Service in front of the replicas.

        ``ports`` maps the name of a Pod's port to the Service's port number.
        """
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.meta(namespaced=True),
            "spec": {
                "selector": self._labels(),
                "ports": [
                    {"name": name, "port": port, "targetPort": name}
                    for name, port in ports.items()
                ],
            },
        }
