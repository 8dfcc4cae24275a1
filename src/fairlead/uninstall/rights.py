"""The least rights of a hook that runs ``fairlead uninstall PROGRAM --yes --prepare``.

The hook looks at the users of the program, refuses, or deletes webhook configurations and objects
that serve the program alone. Other objects of the manifests are left to the tool that runs the
hook.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kbind.names import KBIND_KINDS
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BINDABLERESOURCESREQUESTS,
    CLUSTERBINDINGS,
)
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
)
from fairlead.api.servicebinding.coreos import BINDABLEKINDS, COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.uninstall.footprints import WEBHOOKS, Program


class HookRights(msgspec.Struct, frozen=True):
    """Rules of a ClusterRole, and of a Role in the program's namespace."""

    cluster: list[JSON]
    namespace: list[JSON]


# Without watch: the command lists again at intervals. Without Pods: with --prepare it waits for
# none.
_READ = ("get", "list")
_LOOKED_AT: dict[Program, Sequence[Resource]] = {
    "binding": (SERVICEBINDINGS, COREOS_SERVICEBINDINGS, BINDABLEKINDS),
    "konnector": (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES, *KBIND_KINDS),
    "postgres": (POSTGRESACCESSES,),
    "provider": (
        *(APISERVICEEXPORTS, APISERVICEEXPORTTEMPLATES),
        *(APISERVICENAMESPACES, CLUSTERBINDINGS),
    ),
    "serve": (),
}
_TAKEN: dict[Program, tuple[Sequence[Resource], Sequence[Resource]]] = {
    "binding": ((*WEBHOOKS, BINDABLEKINDS), (SECRETS,)),
    "konnector": ((CLUSTERROLES,), (SECRETS,)),
    "postgres": ((), ()),
    "provider": ((), ()),
    "serve": ((), (BINDABLERESOURCESREQUESTS, SECRETS)),
}
"""Kinds that are deleted for each program: in the cluster, and in its namespace."""


def hook_rights(program: Program) -> HookRights:
    """Return the rights of a hook for one program, to be bound to a ServiceAccount of its own.

    Kinds that only a running cluster knows, such as the kinds that a konnector has bound, are not
    among them: the hook counts their objects if it has the right by other roles.
    """
    # CRDs tell which kinds there are, Namespaces which are being deleted, and Deployments of other
    # namespaces whether another installation does the work. Roles and webhooks are found by label.
    everywhere = (
        *(CUSTOMRESOURCEDEFINITIONS, NAMESPACES, DEPLOYMENTS),
        *(CLUSTERROLES, CLUSTERROLEBINDINGS, *WEBHOOKS, *_LOOKED_AT[program]),
    )
    here = (SERVICES, LEASES, ROLES, ROLEBINDINGS, SERVICEACCOUNTS, *_TAKEN[program][1])
    cluster, namespace = _TAKEN[program]
    return HookRights(
        cluster=[*map(_reading, everywhere), *map(_deleting, cluster)],
        namespace=[*map(_reading, dict.fromkeys(here)), *map(_deleting, namespace)],
    )


def _reading(resource: Resource) -> JSON:
    return rule(resource.group, [resource.plural], _READ)


def _deleting(resource: Resource) -> JSON:
    return rule(resource.group, [resource.plural], ("delete",))
