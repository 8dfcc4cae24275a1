"""The konnector's rights on what a binding of kbind v2 binds, in the consumer's cluster.

Those of a ClusterBinding are a ClusterRole, which the konnector's own aggregates by label. Those
of a Binding are a Role in its namespace, so that it gives no right on objects of other namespaces;
its CRDs are the cluster's, and a ClusterRole has the rights on them by their names. An
administrator applies these roles, for the konnector can write no RBAC object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.api.kbind.names import API_VERSION, BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.types import RelatedResource
from fairlead.api.kubebind import LABEL_AGGREGATE_TO_KONNECTOR
from fairlead.api.manifests import (
    AGGREGATE_TO_ADMIN,
    AGGREGATE_TO_EDIT,
    AGGREGATE_TO_VIEW,
    RBAC_GROUP,
    READ_VERBS,
    rule,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS


_SYNC = (*READ_VERBS, "patch")
"""Verbs on objects that cross: the finalizer and the annotation of a conflict are patches."""
_RELATED = {
    "FromConsumer": READ_VERBS,
    "FromProvider": (*READ_VERBS, "create", "patch", "delete"),
}
"""Verbs on related objects by the direction in which they are copied."""
_EDIT = (*READ_VERBS, "create", "update", "patch", "delete", "deletecollection")
"""Verbs of people with edit or admin on what is bound."""


def role_name(name: str, namespace: str = "") -> str:
    """Return the name of the roles of a binding; a ClusterBinding has no namespace."""
    # No name of an object has a colon, so that no ClusterBinding takes a Binding's name.
    return f"kbind-konnector:{namespace}:{name}" if namespace else f"kbind-konnector-{name}"


def connection_role_name(name: str) -> str:
    """Return the name of the role of a Connection, which no binding has."""
    return f"kbind-konnector-connection:{name}"


def user_role_names(name: str, namespace: str = "") -> tuple[str, str]:
    """Return the names of the roles by which people write and read what a binding binds."""
    suffix = f":{namespace}:{name}" if namespace else f"-{name}"
    return f"kbind-edit{suffix}", f"kbind-view{suffix}"


def connection_roles(name: str, apis: Sequence[str], *, objects: bool) -> list[JSON]:
    """Return the ClusterRole of a Connection that makes CRDs, or binds, without a binding.

    Args:
        name: name of the Connection.
        apis: names of the APIs that its provider exports, PLURAL.GROUP.
        objects: whether their objects are bound too (autoBind), or CRDs are made alone
            (pullPolicy All).
    """
    if not apis:
        return []
    rules = [*(_object_rules(apis, ()) if objects else ()), _crd_rule(apis)]
    role = _cluster_role(name, "", rules)
    described = {"annotations": _description(CONNECTIONS.kind, name)}
    return [
        {**role, "metadata": {**role["metadata"], "name": connection_role_name(name)} | described}
    ]


def user_roles(name: str, apis: Sequence[str], namespace: str = "") -> list[JSON]:
    """Return the ClusterRoles by which people use what a binding binds, where they have rights.

    Kubernetes aggregates them to its roles view, edit and admin (Kubernetes, "Using RBAC
    Authorization", "User-facing roles"). They are on objects alone: a status is the provider's.

    Args:
        name: name of the binding.
        apis: names of the APIs that it lists, PLURAL.GROUP.
        namespace: namespace of a Binding, "" for a ClusterBinding.
    """
    edit, view = user_role_names(name, namespace)
    return [
        _people_role(edit, name, namespace, apis, _EDIT, AGGREGATE_TO_EDIT, AGGREGATE_TO_ADMIN),
        _people_role(view, name, namespace, apis, READ_VERBS, AGGREGATE_TO_VIEW),
    ]


def cluster_binding_roles(
    name: str, apis: Sequence[str], related: Iterable[RelatedResource] = ()
) -> list[JSON]:
    """Return the ClusterRole of a ClusterBinding.

    Args:
        name: name of the ClusterBinding.
        apis: names of the APIs that it lists, PLURAL.GROUP.
        related: its rules about related objects.
    """
    rules = [*_object_rules(apis, related), _crd_rule(apis)]
    return [_cluster_role(name, "", rules)]


def binding_roles(
    name: str,
    namespace: str,
    apis: Sequence[str],
    related: Iterable[RelatedResource] = (),
    *,
    konnector: JSON,
) -> list[JSON]:
    """Return the Role of a Binding with its RoleBinding, and the ClusterRole for its CRDs.

    Args:
        name: name of the Binding.
        namespace: its namespace.
        apis: names of the APIs that it lists, PLURAL.GROUP.
        related: its rules about related objects.
        konnector: the subject that is the konnector's account.
    """
    metadata = {"name": role_name(name, namespace), "namespace": namespace}
    ref = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": metadata["name"]}
    described = {**metadata, "annotations": _of_binding(name, namespace)}
    return [
        {**_typed("Role", described), "rules": _object_rules(apis, related)},
        {**_typed("RoleBinding", described), "roleRef": ref, "subjects": [konnector]},
        _cluster_role(name, namespace, [_crd_rule(apis)]),
    ]


def _object_rules(apis: Sequence[str], related: Iterable[RelatedResource]) -> list[JSON]:
    rules = []
    for api in dict.fromkeys(apis):
        plural, _, group = api.partition(".")
        rules.append(rule(group, [plural], _SYNC))
        rules.append(rule(group, [f"{plural}/status"], ("update",)))
    directions = {(item.resource, item.direction): None for item in related}
    rules += [rule("", [plural], _RELATED[direction]) for plural, direction in directions]
    return rules


def _crd_rule(apis: Sequence[str]) -> JSON:
    """Return the rule to update the CRDs of bound APIs, and to delete those that were made."""
    crds = CUSTOMRESOURCEDEFINITIONS
    return rule(crds.group, [crds.plural], ("update", "delete"), names=sorted(set(apis)))


def _cluster_role(name: str, namespace: str, rules: list[JSON]) -> JSON:
    metadata = {
        "name": role_name(name, namespace),
        "labels": {LABEL_AGGREGATE_TO_KONNECTOR: "true"},
        "annotations": _of_binding(name, namespace),
    }
    return {**_typed("ClusterRole", metadata), "rules": rules}


def _people_role(
    role: str, name: str, namespace: str, apis: Sequence[str], verbs: Sequence[str], *targets: str
) -> JSON:
    metadata = {
        "name": role,
        "labels": dict.fromkeys(targets, "true"),
        "annotations": _of_binding(name, namespace),
    }
    kinds = [api.partition(".") for api in dict.fromkeys(apis)]
    rules = [rule(group, [plural], verbs) for plural, _, group in kinds]
    return {**_typed("ClusterRole", metadata), "rules": rules}


def _of_binding(name: str, namespace: str) -> JSON:
    if namespace:
        return _description(BINDINGS.kind, f"{namespace}/{name}")
    return _description(CLUSTERBINDINGS.kind, name)


def _typed(kind: str, metadata: JSON) -> JSON:
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata}


def _description(kind: str, title: str) -> JSON:
    text = f"Rights on what {kind} {title} of {API_VERSION} binds."
    return {"kubernetes.io/description": text}
