"""The controllers' rights in a cluster, and the kinds that may be workloads.

Any editor of a namespace can write a binding, and the controllers then write its workloads. So
kinds that the controllers write for themselves, and kinds that decide about rights or about
others' writes, are never workloads, even if a binding or a mapping names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Literal

from fairlead.api.manifests import READ_VERBS, lease_rules, rule
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.coreos import BINDABLEKINDS, BINDABLEKINDS_NAME
from fairlead.api.servicebinding.spec import crds


BINDING_GROUPS = ("servicebinding.io", "binding.operators.coreos.com")
_DECIDING = frozenset(
    {
        *BINDING_GROUPS,
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "authorization.openshift.io",
        "certificates.k8s.io",
        "rbac.authorization.k8s.io",
    }
)
"""API groups all of whose kinds decide about rights, or about others' writes."""
_RUNNING = {
    "": frozenset({"pods", "podtemplates", "replicationcontrollers"}),
    "apps": frozenset({"daemonsets", "deployments", "replicasets", "statefulsets"}),
    "batch": frozenset({"cronjobs", "jobs"}),
    "extensions": frozenset({"daemonsets", "deployments", "replicasets"}),
}
"""Kinds of built-in groups that may be workloads."""
_BUILT_IN = frozenset(
    {
        *_RUNNING,
        "autoscaling",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
"""API groups of Kubernetes' own kinds; not recognized by suffix, which CRDs may share."""

Eligibility = Literal["free", "mapped", "never"]


def controller_rules() -> list[JSON]:
    """Return the controllers' rules, without the aggregated ones."""
    own_crds = sorted(crd["metadata"]["name"] for crd in crds())
    bindings = [
        part
        for group in BINDING_GROUPS
        for part in (
            rule(group, ["servicebindings"], (*READ_VERBS, "patch")),
            rule(group, ["servicebindings/status"], ("patch",)),
            rule(group, ["servicebindings/finalizers"], ("update",)),
        )
    ]
    return [
        *bindings,
        rule("servicebinding.io", ["clusterworkloadresourcemappings"], READ_VERBS),
        rule(BINDABLEKINDS.group, [BINDABLEKINDS.plural], (*READ_VERBS, "create")),
        rule(BINDABLEKINDS.group, [BINDABLEKINDS.plural], ("patch",), names=[BINDABLEKINDS_NAME]),
        rule("", ["secrets"], (*READ_VERBS, "create", "patch", "delete")),
        rule("", ["configmaps", "services"], READ_VERBS),
        rule("route.openshift.io", ["routes"], READ_VERBS),
        rule("", ["events"], ("create", "patch")),
        rule("authorization.k8s.io", ["subjectaccessreviews"], ("create",)),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], (*READ_VERBS, "create")),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], ("update",), names=own_crds),
    ]


def _written(rules: Iterable[JSON]) -> Iterator[tuple[str, str]]:
    """Yield group and plural of the resources that rules allow to write."""
    for granted in rules:
        if set(granted["verbs"]) - set(READ_VERBS):
            for group in granted["apiGroups"]:
                for resource in granted["resources"]:
                    yield group, resource.partition("/")[0]


@cache
def _own() -> frozenset[tuple[str, str]]:
    """Return group and plural of the resources that the controllers write for themselves."""
    rules = [*controller_rules(), *lease_rules("")]
    # Events exist in both groups.
    return frozenset({*_written(rules), ("events.k8s.io", "events")})


@lru_cache(maxsize=1000)
def eligibility(resource: Resource) -> Eligibility:
    """Return whether a kind may be a workload.

    Returns:
        ``never``; ``mapped`` if an administrator's ClusterWorkloadResourceMapping has to name
        the kind; else ``free``.
    """
    if resource.group in _DECIDING or (resource.group, resource.plural) in _own():
        return "never"
    if not resource.namespaced:
        return "mapped"
    if resource.group not in _BUILT_IN:
        return "free"
    return "free" if resource.plural in _RUNNING.get(resource.group, ()) else "mapped"
