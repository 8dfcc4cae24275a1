"""Rights of a consumer by its exports: roles, and their bindings to its konnector.

Everything goes to the ServiceAccount ``kube-binder`` of the cluster namespace, and to no other.
Namespaced objects are granted in the consumer's own provider namespaces alone; the whole cluster
is granted only where the protocol needs it:

* cluster-scoped kinds: all verbs, since RBAC knows no name prefixes;
* informerScope Cluster: reading exported kinds, since the konnector watches them cluster-wide.

Neither claims nor kinds under isolation Namespaced reach further, unless the provider's operator
wants ``original_konnectors``: kube-bind's own konnector watches claimed kinds cluster-wide under
informerScope Cluster, and exported kinds under isolation Namespaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind import (
    BINDER_NAME,
    LABEL_AGGREGATE_TO_PARENT,
    APIServiceExport,
    BoundSchema,
    ExportResource,
    ExportSpec,
    GroupResource,
    bindable,
    crd_name,
)
from fairlead.api.kubebind.claims import claimable
from fairlead.api.manifests import ALL_VERBS, READ_VERBS
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)


MANAGED_BY = {"app.kubernetes.io/managed-by": "fairlead-provider"}
MANAGED_SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
RESOURCES_PREFIX = f"{BINDER_NAME}-resources-"
CLAIMS_PREFIX = f"{BINDER_NAME}-claims-"

_RBAC_GROUP = "rbac.authorization.k8s.io"
_RBAC_VERSION = f"{_RBAC_GROUP}/v1"
ORDER = (ROLES, CLUSTERROLES, ROLEBINDINGS, CLUSTERROLEBINDINGS)


class Id(NamedTuple):
    """One RBAC object."""

    resource: Resource
    key: Key


class Grounds(NamedTuple):
    """Facts that the rights of one export depend on.

    ``schemas`` are the BoundSchemas of its namespace by name, ``crds`` those that are labelled for
    export, and ``namespaces`` the provider namespaces where the consumer may work.
    """

    export: Object
    schemas: Mapping[str, Object]
    namespaces: frozenset[str]
    crds: Mapping[str, Object] = {}
    original_konnectors: bool = False


def rights(grounds: Grounds) -> dict[Id, JSON]:
    """Return the roles and bindings that an export needs, each role before its binding."""
    rights_by_scope = _granted(grounds)
    return dict(sorted(rights_by_scope.items(), key=lambda item: ORDER.index(item[0].resource)))


def export_of(binding: Object) -> Key | None:
    """Return the export that a binding of this controller was made for, None for others."""
    for subject in binding.decode(_Binding).subjects:
        if subject.kind != "ServiceAccount" or subject.name != BINDER_NAME:
            continue
        infix = "" if binding.meta.namespace else f"{subject.namespace}."
        for prefix in (RESOURCES_PREFIX + infix, CLAIMS_PREFIX + infix):
            if binding.meta.name.startswith(prefix):
                return Key(subject.namespace, binding.meta.name.removeprefix(prefix))
    return None


def names_in_namespaces(export: str) -> tuple[str, str]:
    """Return the names of an export's Roles and RoleBindings, for resources and for claims."""
    return f"{RESOURCES_PREFIX}{export}", f"{CLAIMS_PREFIX}{export}"


def cluster_names(key: Key) -> tuple[str, str]:
    """Return the names of an export's ClusterRoles and bindings, for its resources and claims.

    Consumers choose the names of their exports. No namespace has a dot in its name, so that no
    choice of a consumer makes this another consumer's name.
    """
    both = f"{key.namespace}.{key.name}"
    return f"{RESOURCES_PREFIX}{both}", f"{CLAIMS_PREFIX}{both}"


def exports_of_role(role: Object, owner: str) -> Iterator[Key]:
    """Yield the exports that a role may have been made for, also without its binding.

    Args:
        role: as it is stored.
        owner: the cluster namespace whose consumer the role's namespace is for.
    """
    for prefix in (RESOURCES_PREFIX, CLAIMS_PREFIX):
        if not role.meta.name.startswith(prefix):
            continue
        name = role.meta.name.removeprefix(prefix)
        if role.meta.namespace:
            yield Key(owner, name)
        elif "." in name:
            yield Key(*name.split(".", 1))


def _granted(grounds: Grounds) -> dict[Id, JSON]:
    key = grounds.export.key
    spec = grounds.export.decode(APIServiceExport).spec
    everywhere, others = _by_scope(spec, grounds)
    resources, claims = names_in_namespaces(key.name)
    resources_everywhere, claims_everywhere = cluster_names(key)
    rules = _rules(everywhere, ALL_VERBS)
    foreign = grounds.original_konnectors
    if spec.informer_scope == "Cluster" or (foreign and spec.isolation == "Namespaced"):
        rules += _rules(others, READ_VERBS)
    objects = _grant(key, "", resources_everywhere, rules)
    rules = _rules(others, ALL_VERBS)
    for namespace in _object_namespaces(spec, grounds):
        objects |= _grant(key, namespace, resources, rules)
    claimed = _rules(filter(claimable, spec.permission_claims), ALL_VERBS)
    if foreign and spec.informer_scope == "Cluster":
        return objects | _grant(key, "", claims_everywhere, claimed)
    for namespace in sorted(grounds.namespaces):
        objects |= _grant(key, namespace, claims, claimed)
    return objects


def _object_namespaces(spec: ExportSpec, grounds: Grounds) -> list[str]:
    """Return the namespaces of the consumer's copies."""
    if spec.isolation == "Namespaced":
        return [grounds.export.key.namespace]
    return sorted(grounds.namespaces)


def _by_scope(
    spec: ExportSpec, grounds: Grounds
) -> tuple[list[ExportResource], list[ExportResource]]:
    """Return the resources that are cluster-scoped in the provider's cluster, and all others.

    Kinds of Kubernetes are in neither list, even if an export names them.
    """
    # Exports of older versions may name one resource many times, and each look at it decodes its
    # schema.
    resources = {one.group_resource: one for one in spec.resources if bindable(one.group)}
    everywhere: list[ExportResource] = []
    others: list[ExportResource] = []
    for resource in resources.values():
        (everywhere if _cluster_scoped(resource, spec, grounds) else others).append(resource)
    return everywhere, others


def _cluster_scoped(resource: ExportResource, spec: ExportSpec, grounds: Grounds) -> bool:
    """Whether objects of a resource live outside of namespaces, by all sources that know.

    Under Namespaced isolation the BoundSchema of a namespaced kind says that it is cluster-scoped.
    """
    stored = grounds.schemas.get(resource.name)
    if spec.isolation == "Namespaced" or stored is None:
        return False
    crd = grounds.crds.get(crd_name(resource.resource, resource.group))
    namespaced = crd is not None and crd_spec(crd).namespaced
    return stored.decode(BoundSchema).spec.scope == "Cluster" and not namespaced


def _rules(resources: Iterable[GroupResource], verbs: tuple[str, ...]) -> list[JSON]:
    """Return one rule for each API group."""
    groups: dict[str, list[str]] = {}
    for resource in resources:
        groups.setdefault(resource.group, []).append(resource.resource)
    return [
        # Sorted, so that an export that lists its resources in another order is no difference to
        # write.
        {"apiGroups": [group], "resources": sorted(set(plurals)), "verbs": list(verbs)}
        for group, plurals in sorted(groups.items())
    ]


def _grant(key: Key, namespace: str, name: str, rules: list[JSON]) -> dict[Id, JSON]:
    """Return a role and its binding to the consumer, for a namespace or else the cluster.

    Returns {} without rules.
    """
    if not rules:
        return {}
    role = ROLES if namespace else CLUSTERROLES
    binding = ROLEBINDINGS if namespace else CLUSTERROLEBINDINGS
    metadata: JSON = {"name": name, "labels": dict(MANAGED_BY)}
    if namespace:
        metadata["namespace"] = namespace
    role_metadata = metadata
    if not namespace:
        # Aggregated into ClusterRole kube-binder-exports, which the manifests have as in
        # kube-bind.
        labels = MANAGED_BY | {LABEL_AGGREGATE_TO_PARENT: "true"}
        role_metadata = metadata | {"labels": labels}
    identity = Key(namespace, name)
    return {
        Id(role, identity): {
            "apiVersion": _RBAC_VERSION,
            "kind": role.kind,
            "metadata": role_metadata,
            "rules": rules,
        },
        Id(binding, identity): {
            "apiVersion": _RBAC_VERSION,
            "kind": binding.kind,
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC_GROUP, "kind": role.kind, "name": name},
            "subjects": [
                {"kind": "ServiceAccount", "name": BINDER_NAME, "namespace": key.namespace}
            ],
        },
    }


class _Subject(msgspec.Struct, frozen=True):
    kind: str
    name: str
    namespace: str = ""


class _Binding(msgspec.Struct, frozen=True):
    subjects: list[_Subject] = []
