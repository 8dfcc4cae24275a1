"""ClusterRoles with the konnector's rights on bound kinds, one pair per binding.

The konnector's own ClusterRole aggregates by label, so that it holds the rights on exactly the
bound and claimed kinds and never hands out any itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    LABEL_AGGREGATE_TO_KONNECTOR,
    GroupResource,
    PermissionClaim,
    crd_name,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS


LABEL_SERVICE_BINDING = "servicebinding.io/controller"
"""Aggregates into the rights of a Service Binding implementation (the specification, RBAC)."""

READ = ["get", "list", "watch"]
SYNC = [*READ, "patch"]
CLAIM = [*READ, "create", "update", "patch", "delete"]


ADMISSION_REMEDY = (
    "The policy, webhook or quota that says so has to let the konnector's account through"
)
"""Remedy for a write that admission in the consumer's cluster refuses, where no right helps."""


def konnector_role_name(binding: str) -> str:
    """Return the ClusterRole with the konnector's rights for one binding."""
    return f"kube-bind-konnector-{binding}"


def reader_role_name(binding: str) -> str:
    """Return the ClusterRole with a Service Binding implementation's rights for one binding."""
    return f"kube-bind-servicebinding-{binding}"


def remedy(binding: str) -> str:
    """Return the remedy for a right that the konnector lacks on a bound or claimed resource."""
    return (
        f"ClusterRole {konnector_role_name(binding)}, labelled "
        f'{LABEL_AGGREGATE_TO_KONNECTOR}: "true", must grant it; '
        f"`fairlead accept {binding}` writes that role"
    )


def binding_roles(
    binding: str, resources: Sequence[GroupResource], claims: Sequence[PermissionClaim]
) -> list[JSON]:
    """Return both ClusterRoles of one binding, with exactly the bound and claimed resources."""
    rules = [_rule(item, SYNC) for item in resources]
    rules += [_rule(item, ["update"], subresource="status") for item in resources]
    rules += [_rule(item, CLAIM) for item in claims]
    rules.append(_crds(resources))
    return [
        _role(konnector_role_name(binding), LABEL_AGGREGATE_TO_KONNECTOR, binding, rules),
        _role(
            reader_role_name(binding),
            LABEL_SERVICE_BINDING,
            binding,
            [_rule(item, READ) for item in resources],
        ),
    ]


def _rule(item: GroupResource, verbs: Iterable[str], *, subresource: str = "") -> JSON:
    resource = f"{item.resource}/{subresource}" if subresource else item.resource
    return {"apiGroups": [item.group], "resources": [resource], "verbs": list(verbs)}


def _crds(resources: Iterable[GroupResource]) -> JSON:
    """Return the rule to update the CRDs of bound kinds, and to delete them with the binding."""
    return {
        "apiGroups": [CUSTOMRESOURCEDEFINITIONS.group],
        "resources": [CUSTOMRESOURCEDEFINITIONS.plural],
        "resourceNames": sorted({crd_name(item.resource, item.group) for item in resources}),
        "verbs": ["update", "delete"],
    }


def _role(name: str, label: str, binding: str, rules: list[JSON]) -> JSON:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": {label: "true"},
            "annotations": {
                "kubernetes.io/description": (
                    f"Rights on what {APISERVICEBINDINGS.kind} {binding} of {API_VERSION} binds."
                )
            },
        },
        "rules": rules,
    }
