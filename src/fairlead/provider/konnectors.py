"""Recognition of kube-bind's own konnector, and of the rights that it would lack.

The version number does not tell the two apart. The last writer of version or heartbeat does, which
the server records in ``metadata.managedFields``: Fairlead's konnector writes on the
provider as ``kube-bind.io``, kube-bind's own by its program's name, ``konnector``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.kubebind import FIELD_MANAGER, APIServiceExport
from fairlead.api.kubebind.claims import claimable
from fairlead.api.kubebind.conditions import CREDENTIALS_IN_USE, get_condition, stored_conditions
from fairlead.api.meta import JSON, Object
from fairlead.provider.rights import cluster_names


_PROVIDER = frozenset({"fairlead", "fairlead-provider"})
"""Field managers of Fairlead on the provider, which write no heartbeats.

Kubernetes 1.20 lists them as managers of the whole status, although they write a part of it.
"""


def is_original(binding: Object) -> bool:
    """Whether the konnector that wrote a ClusterBinding is kube-bind's own.

    False without a writer. If the server does not name the writer, the condition CredentialsInUse
    stands for ours.
    """
    read = binding.decode(_ClusterBinding)
    if not read.status.last_heartbeat_time:
        return False
    writers = [
        (entry.time, entry.manager != FIELD_MANAGER)
        for entry in read.metadata.managed_fields
        if entry.manager not in _PROVIDER
        and {"f:lastHeartbeatTime", "f:konnectorVersion"}
        & set(entry.fields_v1.get("f:status", {}))
    ]
    if writers:
        # Times of managedFields are whole seconds of UTC, which compare as text. Of two in one
        # second the original's counts, since True is more than False.
        _, original = max(writers)
        return original
    return get_condition(stored_conditions(binding), CREDENTIALS_IN_USE) is None


def shortcoming(binding: Object, export: Object, granted: Callable[[str], bool]) -> str:
    """Return why no object crosses between a consumer and an export, "" if no cause is known.

    The cause that is known is kube-bind's own konnector. It watches all namespaces for claimed
    kinds under informerScope Cluster, and for exported kinds under isolation Namespaced, which
    Fairlead's konnector does not need and the provider does not grant by default.

    Args:
        binding: the consumer's ClusterBinding.
        export: one of its APIServiceExports.
        granted: tells whether a ClusterRoleBinding with the given name exists.
    """
    kinds = unwatchable(export, granted)
    if not kinds or not is_original(binding):
        return ""
    version = binding.decode(_ClusterBinding).status.konnector_version or "of no known version"
    return (
        f"its konnector ({version}) is not Fairlead's: for APIServiceExport {export.meta.name} "
        f"it watches {', '.join(kinds)} in all namespaces without the right to do so, and "
        "synchronizes none of them. Start `fairlead provider run` with --original-konnectors, "
        "or use Fairlead's konnector"
    )


def unwatchable(export: Object, granted: Callable[[str], bool]) -> list[str]:
    """Return the kinds of an export that kube-bind's konnector would watch without the right."""
    spec = export.decode(APIServiceExport).spec
    exported, claimed = cluster_names(export.key)
    kinds: list[str] = []
    if _watched_everywhere(spec.informer_scope, spec.isolation) and not granted(exported):
        kinds += [resource.name for resource in spec.resources]
    if spec.informer_scope == "Cluster" and not granted(claimed):
        kinds += [claim.name for claim in spec.permission_claims if claimable(claim)]
    return list(dict.fromkeys(kinds))


def _watched_everywhere(informer_scope: str, isolation: str) -> bool:
    return informer_scope == "Namespaced" and isolation == "Namespaced"


class _Entry(msgspec.Struct, rename="camel"):
    manager: str = ""
    time: str = ""
    fields_v1: JSON = msgspec.field(default_factory=dict, name="fieldsV1")


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: list[_Entry] = []


class _Status(msgspec.Struct, rename="camel"):
    last_heartbeat_time: str = ""
    konnector_version: str = ""


class _ClusterBinding(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)
