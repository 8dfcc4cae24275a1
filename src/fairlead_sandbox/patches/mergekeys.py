"""Merge rules of built-in kinds' lists: ``patchStrategy`` and ``patchMergeKey`` of their types.

The rules are facts of the Kubernetes API reference ("patch strategy: merge on key ..."). Lists
without a rule are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class MergeRule(msgspec.Struct, frozen=True):
    """The rule of one field: how its list merges, and the rules of its members.

    ``merge`` with a key merges objects that are identified by it, without a key a set of scalars.
    """

    merge: bool = False
    key: str = ""
    fields: Mapping[str, MergeRule] = {}


NO_FIELDS: Mapping[str, MergeRule] = {}
"""The rules of a message without merging lists."""


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
        # By number alone: unlike server-side apply, whose key has the protocol too, a strategic
        # patch cannot tell the TCP and the UDP port of one number apart.
        "ports": _keyed("containerPort"),
        "volumeDevices": _keyed("devicePath"),
        "volumeMounts": _keyed("mountPath"),
    },
)

_POD_SPEC = _object(
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    ephemeralContainers=_CONTAINER,
    volumes=_keyed("name"),
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
"""Rules by kind and field."""


def fields_of(kind: str) -> Mapping[str, MergeRule]:
    """Return the rules of a built-in kind's fields; for an unknown kind only those of metadata."""
    return {"metadata": _METADATA, **_KINDS.get(kind, NO_FIELDS)}
