"""What every invited consumer may do in its cluster namespace."""

from __future__ import annotations

from fairlead.api.kubebind import BINDER_NAME, GROUP
from fairlead.api.manifests import RBAC_GROUP, rule
from fairlead.api.meta import JSON


RBAC_VERSION = f"{RBAC_GROUP}/v1"

_ALL = ("create", "delete", "patch", "update", "get", "list", "watch")
_READ = ("get", "list", "watch")
_WRITE = ("get", "patch", "update")


def binder_cluster_role() -> JSON:
    """The ClusterRole that a RoleBinding gives a consumer in its cluster namespace.

    ``finalizers`` of exports lets the konnector make objects that block an export's deletion,
    where the server asks for that right (OwnerReferencesPermissionEnforcement).
    """
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": BINDER_NAME},
        "rules": [
            rule("", ["namespaces"], ("get",)),
            rule("", ["secrets"], _READ),
            rule(GROUP, ["apiserviceexportrequests", "apiservicenamespaces"], _ALL),
            rule(GROUP, ["apiserviceexports", "boundschemas", "clusterbindings"], _READ),
            rule(
                GROUP,
                ["apiserviceexports/status", "boundschemas/status", "clusterbindings/status"],
                _WRITE,
            ),
            rule(GROUP, ["apiserviceexports/finalizers"], ("update",)),
        ],
    }


def binder_role_binding(namespace: str) -> JSON:
    """What gives the ServiceAccount of a cluster namespace its rights there."""
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "RoleBinding",
        "metadata": {"name": BINDER_NAME, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": BINDER_NAME},
        "subjects": [{"kind": "ServiceAccount", "name": BINDER_NAME, "namespace": namespace}],
    }
