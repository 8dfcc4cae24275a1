"""Rights of a consumer at the provider, for kbind v2: roles, and their bindings to its account.

In each of its namespaces it may use the objects of its APIs. All consumers share two roles: one to
read the identity of the cluster and its CRDs, and one for their Leases. RBAC can name neither: a
list with a label selector, by which a konnector finds the offered CRDs, is not limited to names,
and the name of a Lease has a uid that is unknown before the konnector reports.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.kbind.names import (
    IDENTITY_NAMESPACE,
    LEASE_NAMESPACE,
    LOGICALCLUSTER_NAME,
    LOGICALCLUSTERS,
)
from fairlead.api.kbind.types import Direction, RelatedResource
from fairlead.api.kubebind import BINDER_NAME
from fairlead.api.manifests import RBAC_GROUP, READ_VERBS, rule
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.provider.rights import MANAGED_BY
from fairlead.provider.v2.record import KbindInvitation


CONSUMERS_ROLE = "kbind-consumers"
"""Name of the ClusterRole of all consumers, and of the Role for their Leases."""
OBJECTS_ROLE = f"{BINDER_NAME}-kbind"
"""Name of the Role in each namespace of a consumer, and prefix of its ClusterRole."""

_SYNC: tuple[str, ...] = (*READ_VERBS, "create", "patch", "delete")
_RELATED: dict[Direction, tuple[str, ...]] = {"FromProvider": READ_VERBS, "FromConsumer": _SYNC}


def everywhere(home: str) -> str:
    """Return the name of a consumer's own ClusterRole and of its ClusterRoleBindings."""
    # No namespace has a dot in its name.
    return f"{OBJECTS_ROLE}.{home}"


def rights(home: str, invitation: KbindInvitation) -> list[tuple[Resource, JSON]]:
    """Return the rights of a consumer, each role before the binding to it.

    The namespaces in which they are have to exist, that of the Leases among them.
    """
    objects: list[tuple[Resource, JSON]] = [
        (CLUSTERROLES, _role(CLUSTERROLES, CONSUMERS_ROLE, "", _shared_rules())),
        (ROLES, _role(ROLES, CONSUMERS_ROLE, LEASE_NAMESPACE, [_lease_rule()])),
        (
            CLUSTERROLEBINDINGS,
            _bound(CLUSTERROLES, CONSUMERS_ROLE, f"{CONSUMERS_ROLE}.{home}", "", home),
        ),
        (
            ROLEBINDINGS,
            _bound(ROLES, CONSUMERS_ROLE, f"{CONSUMERS_ROLE}.{home}", LEASE_NAMESPACE, home),
        ),
    ]
    rules = _object_rules(invitation.apis, invitation.related_resources)
    for namespace in invitation.namespaces:
        objects += [
            (ROLES, _role(ROLES, OBJECTS_ROLE, namespace, rules)),
            (ROLEBINDINGS, _bound(ROLES, OBJECTS_ROLE, OBJECTS_ROLE, namespace, home)),
        ]
    if invitation.whole_cluster:
        name = everywhere(home)
        # Namespaces of objects are made as they are needed.
        rules = [*rules, rule("", ["namespaces"], ("create",))]
        objects += [
            (CLUSTERROLES, _role(CLUSTERROLES, name, "", rules)),
            (CLUSTERROLEBINDINGS, _bound(CLUSTERROLES, name, name, "", home)),
        ]
    return objects


def _shared_rules() -> list[JSON]:
    crds, workspaces = CUSTOMRESOURCEDEFINITIONS, LOGICALCLUSTERS
    return [
        rule("", ["namespaces"], ("get",), names=[IDENTITY_NAMESPACE]),
        rule(workspaces.group, [workspaces.plural], ("get",), names=[LOGICALCLUSTER_NAME]),
        rule(crds.group, [crds.plural], READ_VERBS),
    ]


def _lease_rule() -> JSON:
    return rule(LEASES.group, [LEASES.plural], ("get", "create", "update"))


def _object_rules(apis: Iterable[str], related: Iterable[RelatedResource]) -> list[JSON]:
    rules = []
    for api in apis:
        plural, _, group = api.partition(".")
        rules.append(rule(group, [plural], _SYNC))
    rules += [rule("", [item.resource], _RELATED[item.direction]) for item in related]
    return rules


def _role(kind: Resource, name: str, namespace: str, rules: list[JSON]) -> JSON:
    return {**_typed(kind, name, namespace), "rules": rules}


def _bound(role: Resource, role_name: str, name: str, namespace: str, home: str) -> JSON:
    return {
        **_typed(ROLEBINDINGS if namespace else CLUSTERROLEBINDINGS, name, namespace),
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": role.kind, "name": role_name},
        "subjects": [{"kind": "ServiceAccount", "name": BINDER_NAME, "namespace": home}],
    }


def _typed(kind: Resource, name: str, namespace: str) -> JSON:
    metadata: JSON = {"name": name, "labels": dict(MANAGED_BY)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
