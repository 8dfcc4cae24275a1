"""How the lists of built-in kinds merge: ``patchStrategy`` and ``patchMergeKey`` of their types.

Facts of the Kubernetes API reference ("patch strategy: merge on key ..."). Lists that are not
here are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class MergeRule(msgspec.Struct, frozen=True):
    """One field: how its list merges, and what is known of its members.

    ``merge`` with a key is a list of objects told apart by it, without one a set of scalars.
    """

    merge: bool = False
    key: str = ""
    fields: Mapping[str, MergeRule] = {}


NO_FIELDS: Mapping[str, MergeRule] = {}


def _keyed(key: str, fields: Mapping[str, MergeRule] = NO_FIELDS) -> MergeRule:
    return MergeRule(merge=True, key=key, fields=fields)


def _object(**fields: MergeRule) -> MergeRule:
    return MergeRule(fields=fields)


_SET = MergeRule(merge=True)
_CONDITIONS = _object(conditions=_keyed("type"))

_METADATA = _object(ownerReferences=_keyed("uid"), finalizers=_SET)

_CONTAINER = _keyed(
    "name",
    {
        "env": _keyed("name"),
        "ports": _keyed("containerPort"),
        "volumeDevices": _keyed("devicePath"),
        "volumeMounts": _keyed("mountPath"),
    },
)

_POD_SPEC = _object(
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    ephemeralContainers=_CONTAINER,
    volumes=_keyed("name", {"projected": MergeRule()}),
    imagePullSecrets=_keyed("name"),
    hostAliases=_keyed("ip"),
    topologySpreadConstraints=_keyed("topologyKey"),
    resourceClaims=_keyed("name"),
    schedulingGates=_keyed("name"),
)

_TEMPLATE = _object(metadata=_METADATA, spec=_POD_SPEC)
_WORKLOAD = _object(template=_TEMPLATE)

_KINDS: Mapping[str, Mapping[str, MergeRule]] = {
    "CronJob": {"spec": _object(jobTemplate=_object(metadata=_METADATA, spec=_WORKLOAD))},
    "DaemonSet": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "Deployment": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "Job": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "MutatingWebhookConfiguration": {"webhooks": _keyed("name")},
    "Namespace": {"status": _CONDITIONS},
    "Node": {
        "spec": _object(podCIDRs=_SET),
        "status": _object(conditions=_keyed("type"), addresses=_keyed("type")),
    },
    "PersistentVolumeClaim": {"status": _CONDITIONS},
    "Pod": {
        "spec": _POD_SPEC,
        "status": _object(conditions=_keyed("type"), podIPs=_keyed("ip")),
    },
    "PodTemplate": {"template": _TEMPLATE},
    "ReplicaSet": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "ReplicationController": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "Service": {"spec": _object(ports=_keyed("port")), "status": _CONDITIONS},
    "ServiceAccount": {"secrets": _keyed("name"), "imagePullSecrets": _keyed("name")},
    "StatefulSet": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "ValidatingWebhookConfiguration": {"webhooks": _keyed("name")},
}


def fields_of(kind: str) -> Mapping[str, MergeRule]:
    """Return the merge rules of a built-in kind's fields; those of metadata for any kind."""
    return {"metadata": _METADATA, **_KINDS.get(kind, NO_FIELDS)}
