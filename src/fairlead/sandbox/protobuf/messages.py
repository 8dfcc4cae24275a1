"""The messages that are understood: their fields by number.

Facts of Kubernetes' ``generated.proto`` files. A type is ``string`` (left out when empty),
``string*`` (kept when empty: a pointer), ``bytes``, ``int``, ``bool``, ``time``, ``microtime``, or
the name of another message; ``[]`` before it repeats, ``{}`` makes it the value of a map.
"""

from __future__ import annotations

from collections.abc import Mapping


Fields = Mapping[int, tuple[str, str]]

_META = (1, ("metadata", "ObjectMeta"))

MESSAGES: Mapping[str, Fields] = {
    "ObjectMeta": {
        1: ("name", "string"),
        2: ("generateName", "string"),
        3: ("namespace", "string"),
        5: ("uid", "string"),
        6: ("resourceVersion", "string"),
        8: ("creationTimestamp", "time"),
        9: ("deletionTimestamp", "time"),
        10: ("deletionGracePeriodSeconds", "int"),
        11: ("labels", "{}string"),
        12: ("annotations", "{}string"),
        13: ("ownerReferences", "[]OwnerReference"),
        14: ("finalizers", "[]string"),
    },
    "OwnerReference": {
        1: ("kind", "string"),
        3: ("name", "string"),
        4: ("uid", "string"),
        5: ("apiVersion", "string"),
        6: ("controller", "bool"),
        7: ("blockOwnerDeletion", "bool"),
    },
    "LabelSelector": {
        1: ("matchLabels", "{}string"),
        2: ("matchExpressions", "[]LabelSelectorRequirement"),
    },
    "LabelSelectorRequirement": {
        1: ("key", "string"),
        2: ("operator", "string"),
        3: ("values", "[]string"),
    },
    "ObjectReference": {
        1: ("kind", "string"),
        2: ("namespace", "string"),
        3: ("name", "string"),
        4: ("uid", "string"),
        5: ("apiVersion", "string"),
        6: ("resourceVersion", "string"),
        7: ("fieldPath", "string"),
    },
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "bool"),
        4: ("propagationPolicy", "string"),
        5: ("dryRun", "[]string"),
    },
    "Preconditions": {1: ("uid", "string"), 2: ("resourceVersion", "string")},
    "Namespace": dict([_META, (2, ("spec", "NamespaceSpec")), (3, ("status", "NamespaceStatus"))]),
    "NamespaceSpec": {1: ("finalizers", "[]string")},
    "NamespaceStatus": {1: ("phase", "string")},
    "ConfigMap": dict(
        [
            _META,
            (2, ("data", "{}string")),
            (3, ("binaryData", "{}bytes")),
            (4, ("immutable", "bool")),
        ]
    ),
    "Secret": dict(
        [
            _META,
            (2, ("data", "{}bytes")),
            (3, ("type", "string")),
            (4, ("stringData", "{}string")),
            (5, ("immutable", "bool")),
        ]
    ),
    "ServiceAccount": dict(
        [
            _META,
            (2, ("secrets", "[]ObjectReference")),
            (3, ("imagePullSecrets", "[]LocalObjectReference")),
            (4, ("automountServiceAccountToken", "bool")),
        ]
    ),
    "LocalObjectReference": {1: ("name", "string")},
    "Event": dict(
        [
            _META,
            (2, ("involvedObject", "ObjectReference")),
            (3, ("reason", "string")),
            (4, ("message", "string")),
            (5, ("source", "EventSource")),
            (6, ("firstTimestamp", "time")),
            (7, ("lastTimestamp", "time")),
            (8, ("count", "int")),
            (9, ("type", "string")),
            (10, ("eventTime", "microtime")),
            (11, ("series", "EventSeries")),
            (12, ("action", "string")),
            (13, ("related", "ObjectReference")),
            (14, ("reportingComponent", "string*")),
            (15, ("reportingInstance", "string*")),
        ]
    ),
    "EventSource": {1: ("component", "string"), 2: ("host", "string")},
    "EventSeries": {1: ("count", "int"), 2: ("lastObservedTime", "microtime")},
    "Lease": dict([_META, (2, ("spec", "LeaseSpec"))]),
    "LeaseSpec": {
        1: ("holderIdentity", "string*"),
        2: ("leaseDurationSeconds", "int"),
        3: ("acquireTime", "microtime"),
        4: ("renewTime", "microtime"),
        5: ("leaseTransitions", "int"),
    },
    "Role": dict([_META, (2, ("rules", "[]PolicyRule"))]),
    "ClusterRole": dict(
        [_META, (2, ("rules", "[]PolicyRule")), (3, ("aggregationRule", "AggregationRule"))]
    ),
    "PolicyRule": {
        1: ("verbs", "[]string"),
        2: ("apiGroups", "[]string"),
        3: ("resources", "[]string"),
        4: ("resourceNames", "[]string"),
        5: ("nonResourceURLs", "[]string"),
    },
    "AggregationRule": {1: ("clusterRoleSelectors", "[]LabelSelector")},
    "RoleBinding": dict([_META, (2, ("subjects", "[]Subject")), (3, ("roleRef", "RoleRef"))]),
    "ClusterRoleBinding": dict(
        [_META, (2, ("subjects", "[]Subject")), (3, ("roleRef", "RoleRef"))]
    ),
    "Subject": {
        1: ("kind", "string"),
        2: ("apiGroup", "string"),
        3: ("name", "string"),
        4: ("namespace", "string"),
    },
    "RoleRef": {1: ("apiGroup", "string"), 2: ("kind", "string"), 3: ("name", "string")},
}
"""Every message by its name; the names of kinds are those that a body may have."""

KINDS = frozenset(
    {
        ("v1", "Namespace"),
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("v1", "Event"),
        ("coordination.k8s.io/v1", "Lease"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    }
)
"""The kinds of objects; DeleteOptions come in any group's name."""
