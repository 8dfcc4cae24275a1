"""ClusterRoles with rights on bound kinds: the konnector's, and those of people.

The konnector's own ClusterRole aggregates by label, so that it holds the rights on exactly the
bound and claimed kinds and never hands out any itself. People get theirs by the aggregation of
Kubernetes' own roles view, edit and admin (Kubernetes, "Using RBAC Authorization", "User-facing
roles").
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
from fairlead.api.manifests import AGGREGATE_TO_ADMIN, AGGREGATE_TO_EDIT, AGGREGATE_TO_VIEW
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS


LABEL_SERVICE_BINDING = "servicebinding.io/controller"
"""Aggregates into the rights of a Service Binding implementation (the specification, RBAC)."""


READ = ["get", "list", "watch"]
SYNC = [*READ, "patch"]
CLAIM = [*READ, "create", "update", "patch", "delete"]
EDIT = [*CLAIM, "deletecollection"]


ADMISSION_REMEDY = (
    "The policy, webhook or quota that refuses this has to admit the konnector's account"
)
"""Remedy for a write that admission in the consumer's cluster refuses, where no right helps."""


def konnector_role_name(binding: str) -> str:
    """Return the ClusterRole with the konnector's rights for one binding."""
    return f"kube-bind-konnector-{binding}"


def reader_role_name(binding: str) -> str:
    """Return the ClusterRole with a Service Binding implementation's rights for one binding."""
    return f"kube-bind-servicebinding-{binding}"


def editor_role_name(binding: str) -> str:
    """Return the ClusterRole by which people with edit or admin write what a binding binds."""
    return f"kube-bind-edit-{binding}"


def viewer_role_name(binding: str) -> str:
    """Return the ClusterRole by which people with view read what a binding binds."""
    return f"kube-bind-view-{binding}"


def role_labels(binding: str) -> dict[str, str]:
    """Return all ClusterRoles of a binding by name, each with the label that tells it is ours."""
    return {
        konnector_role_name(binding): LABEL_AGGREGATE_TO_KONNECTOR,
        reader_role_name(binding): LABEL_SERVICE_BINDING,
        editor_role_name(binding): AGGREGATE_TO_EDIT,
        viewer_role_name(binding): AGGREGATE_TO_VIEW,
    }


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
    """Return the programs' ClusterRoles of one binding, with exactly what is bound and claimed."""
    rules = [_rule(item, SYNC) for item in resources]
    rules += [_rule(item, ["update"], subresource="status") for item in resources]
    rules += [_rule(item, CLAIM) for item in claims]
    rules.append(_crds(resources))
    return [
        _role(konnector_role_name(binding), [LABEL_AGGREGATE_TO_KONNECTOR], binding, rules),
        _role(
            reader_role_name(binding),
            [LABEL_SERVICE_BINDING],
            binding,
            [_rule(item, READ) for item in resources],
        ),
    ]


def user_roles(binding: str, resources: Sequence[GroupResource]) -> list[JSON]:
    """Return the ClusterRoles by which people may use what a binding binds.

    People who have view, edit or admin in a namespace have these rights there. They are on the
    objects alone: a status is the provider's, and what is claimed has rights of its own.
    """
    write, read = ([_rule(item, verbs) for item in resources] for verbs in (EDIT, READ))
    # Kubernetes aggregates edit to admin as well, unless a cluster's owner has changed that.
    targets = [AGGREGATE_TO_EDIT, AGGREGATE_TO_ADMIN]
    return [
        _role(editor_role_name(binding), targets, binding, write),
        _role(viewer_role_name(binding), [AGGREGATE_TO_VIEW], binding, read),
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


def _role(name: str, labels: Iterable[str], binding: str, rules: list[JSON]) -> JSON:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": dict.fromkeys(labels, "true"),
            "annotations": {
                "kubernetes.io/description": (
                    f"Rights on the APIs that {APISERVICEBINDINGS.kind} {binding} of "
                    f"{API_VERSION} binds."
                )
            },
        },
        "rules": rules,
    }
