"""Conditions of kube-bind: with a severity, and with Ready as a summary of all others.

Unlike ``metav1.Condition`` there is no observedGeneration, and the transition time changes with
the message too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec

from fairlead.api.conditions import ConditionStatus, Event
from fairlead.api.meta import Object


Severity = Literal["", "Error", "Warning", "Info"]

READY: Final = "Ready"
ANOTHER_KONNECTOR: Final = "AnotherKonnector"
"""Fairlead's, on an APIServiceBinding: True while another konnector uses its ClusterBinding."""
SEVERAL_KONNECTORS: Final = "SeveralKonnectors"
"""Reason of AnotherKonnector if the other konnectors are Fairlead's too."""
CLEARED: Final = "Cleared"
"""Fairlead's, on a ClusterBinding: False while the objects of a revoked consumer are deleted.

The message names those that are left, and what holds each.
"""
CONFLICTS: Final = "Conflicts"
CONNECTED: Final = "Connected"
CONVERSION_FAILING: Final = "ConversionFailing"
"""Fairlead's, on an APIServiceBinding: a conversion webhook of its provider does not answer."""
COPIES_HELD: Final = "CopiesHeld"
"""Fairlead's, on an APIServiceBinding: its copies are of another cluster, and none is deleted."""
CREDENTIALS_IN_USE: Final = "CredentialsInUse"
"""Fairlead's, on a ClusterBinding: the message is the digest of the kubeconfig that wrote it."""
CONSUMER_CLUSTER: Final = "ConsumerCluster"
"""Fairlead's, on an APIServiceExport: the message is the uid of the cluster that binds it."""
CONSUMER_IN_SYNC: Final = "ConsumerInSync"
EXPORTS_READY: Final = "ExportsReady"
FIELDS_LOST: Final = "FieldsLost"
"""Reason of ExportsReady and Connected while each request would take fields from objects."""
HEALTHY: Final = "Healthy"
HEARTBEAT_TIMEOUT: Final = "HeartbeatTimeout"
"""Reason of Healthy while the konnector is silent."""
HEARTBEATING: Final = "Heartbeating"
INFORMERS_SYNCED: Final = "InformersSynced"
KONNECTORS: Final = "KonnectorsAtWork"
"""Fairlead's, on a ClusterBinding: the message names the konnectors that use it, with times."""
NAMES_TAKEN: Final = "NamesTaken"
"""Fairlead's, on an APIServiceBinding: another CRD of its cluster has a name of a bound one."""
NAMESPACE_LIMIT_REACHED: Final = "NamespaceLimitReached"
"""Reason of NamespaceReady while the consumer has as many namespaces as one may have."""
NAMESPACE_READY: Final = "NamespaceReady"
"""Fairlead's, on an APIServiceNamespace, which has no condition in kube-bind."""
OBJECTS_FAILING: Final = "ObjectsFailing"
"""Fairlead's, on an APIServiceBinding: an API server refuses writes to some of its objects."""
REFUSED_HERE: Final = "because this cluster refuses it: "
"""Words of that condition before a refusal of the consumer's own server."""
OBJECTS_REWRITTEN: Final = "ObjectsRewritten"
"""Fairlead's, on an APIServiceBinding: another writer undoes the konnector's writes to objects."""
OBJECTS_REMAIN: Final = "ObjectsRemain"
OBJECTS_UNKNOWN: Final = "ObjectsUnknown"
"""Reasons of NamespaceReady and Cleared while what should go is there.

Objects remain in it, or some kinds of objects cannot be listed.
"""
PERMISSIONS_GRANTED: Final = "PermissionsGranted"
"""Fairlead's, on an APIServiceExport: the consumer has the rights that the export needs."""
PERMISSION_CLAIM: Final = "PermissionClaim"
PROVIDER_IN_SYNC: Final = "ProviderInSync"
SCHEMA_IN_SYNC: Final = "SchemaInSync"
SECRET_VALID: Final = "SecretValid"  # noqa: S105  # the type of a condition
SYNCED: Final = "Synced"
VALID_VERSION: Final = "ValidVersion"
VERSIONS_REMOVED: Final = "VersionsRemoved"
"""Fairlead's, on an APIServiceBinding: the provider lacks versions in which objects are stored."""
WITHOUT_STATUS: Final = "WithoutStatus"
"""Fairlead's, on an APIServiceBinding: no status comes back of some of its kinds. No fault."""


WRONG_WHILE_TRUE: Final = (
    *(ANOTHER_KONNECTOR, COPIES_HELD, OBJECTS_FAILING, OBJECTS_REWRITTEN, CONFLICTS),
    *(CONVERSION_FAILING, NAMES_TAKEN, VERSIONS_REMOVED),
)
"""Conditions of Fairlead on an APIServiceBinding that are True during a fault, else absent.

Ready summarizes only conditions that are False in a fault: these do not change it.
"""


class KubeBindCondition(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A condition; ``severity`` is set only if the status is False."""

    type: Annotated[str, msgspec.Meta(description="Type of the condition, such as Ready.")]
    status: Annotated[
        ConditionStatus,
        msgspec.Meta(
            extra_json_schema={"type": "string"}, description="Whether the condition holds."
        ),
    ]
    last_transition_time: Annotated[
        str,
        msgspec.Meta(
            extra_json_schema={"format": "date-time"},
            description="When a field of the condition last changed.",
        ),
    ] = ""
    severity: Annotated[
        Severity,
        msgspec.Meta(description="How severe the problem is; set only if the status is False."),
    ] = ""
    reason: Annotated[
        str,
        msgspec.Meta(
            description="The reason as one word; the page Reasons of the manual says what to do."
        ),
    ] = ""
    message: Annotated[
        str, msgspec.Meta(description="The reason in a sentence, with the names of the objects.")
    ] = ""

    def same_state(self, other: KubeBindCondition) -> bool:
        """Whether two conditions are equal but for the transition time."""
        return msgspec.structs.replace(self, last_transition_time="") == msgspec.structs.replace(
            other, last_transition_time=""
        )


class _Status(msgspec.Struct):
    conditions: list[KubeBindCondition] = []


class _WithStatus(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def true(type_: str) -> KubeBindCondition:
    """Return a condition that holds; it has no severity, reason or message."""
    return KubeBindCondition(type_, "True")


def false(
    type_: str, reason: str, message: str, *, severity: Severity = "Error"
) -> KubeBindCondition:
    """Return a condition that does not hold, with the reason and the remedy."""
    return KubeBindCondition(type_, "False", severity=severity, reason=reason, message=message)


def unknown(type_: str, reason: str, message: str) -> KubeBindCondition:
    """Return a condition whose status is Unknown."""
    return KubeBindCondition(type_, "Unknown", reason=reason, message=message)


def get_condition(conditions: Iterable[KubeBindCondition], type_: str) -> KubeBindCondition | None:
    """Return the condition of this type, None if it was never set."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: Iterable[KubeBindCondition], type_: str) -> bool:
    """Whether the condition of this type is set and True."""
    condition = get_condition(conditions, type_)
    return condition is not None and condition.status == "True"


MOST_MESSAGE = 4096
"""Length to which a message is cut, in characters.

Messages quote names and texts of the other side, which may send megabytes: a status that is too
large for the server would never be written again.
"""


def set_conditions(
    conditions: Iterable[KubeBindCondition],
    *new: KubeBindCondition,
    now: str,
    summary: bool = False,
) -> list[KubeBindCondition]:
    """Return the list with each new condition, Ready first and the rest in alphabetical order.

    Args:
        conditions: the list as it was stored.
        new: the conditions of this pass; a later one of the same type wins, so that a condition
            which is set twice in one pass keeps its transition time if it ends as it began.
        now: the transition time of what has changed, RFC 3339 with whole seconds.
        summary: whether to set Ready from all others (see :func:`summarize`).
    """
    stored = {condition.type: condition for condition in conditions}
    result = dict(stored)
    for condition in map(_shortened, new):
        result[condition.type] = _timed(condition, stored.get(condition.type), now)
    if summary:
        # Of all stored conditions, also of those that this pass did not set.
        ready = summarize(result.values())
        result.pop(READY, None)
        if ready is not None:
            result[READY] = _timed(ready, stored.get(READY), now)
    # A fixed order, so that equal conditions are equal bodies, which are not written again.
    return sorted(result.values(), key=lambda condition: (condition.type != READY, condition.type))


def _shortened(condition: KubeBindCondition) -> KubeBindCondition:
    """Return the condition with a message of bounded length."""
    if len(condition.message) <= MOST_MESSAGE:
        return condition
    return msgspec.structs.replace(condition, message=f"{condition.message[:MOST_MESSAGE]}...")


def transitions(
    old: Iterable[KubeBindCondition], new: Iterable[KubeBindCondition]
) -> list[KubeBindCondition]:
    """Return the conditions that turned true or false, or fail for another reason than before.

    The summary is left out, since it repeats another condition, and so is a status Unknown.
    """
    before = {condition.type: condition for condition in old}
    changed: list[KubeBindCondition] = []
    for condition in new:
        was = before.get(condition.type)
        is_reported = condition.type != READY and condition.status != "Unknown"
        same = was is not None and (was.status, was.reason) == (condition.status, condition.reason)
        if is_reported and not same:
            changed.append(condition)
    return changed


def stored_conditions(obj: Object) -> list[KubeBindCondition]:
    """Return the conditions of any kube-bind object."""
    return obj.decode(_WithStatus).status.conditions


def status_events(old: Object, new: Object) -> list[Event]:
    """Return the Events for the conditions of a kube-bind object that have turned."""
    turned = transitions(stored_conditions(old), stored_conditions(new))
    return [happening(condition) for condition in turned]


def happening(condition: KubeBindCondition) -> Event:
    """Return the Event about a condition that has turned.

    It is a Warning for a condition that is False with severity Error or Warning, or that is True
    and one of :data:`WRONG_WHILE_TRUE`.
    """
    failed = condition.status == "False" and condition.severity in {"Error", "Warning"}
    warns = failed or (condition.type in WRONG_WHILE_TRUE and condition.status == "True")
    return Event(
        "Warning" if warns else "Normal",
        condition.reason or condition.type,
        condition.message or f"{condition.type} is {condition.status}",
    )


def summarize(conditions: Iterable[KubeBindCondition]) -> KubeBindCondition | None:
    """Return Ready, as the worst of all other conditions; None if there is no other.

    False/Error is worse than False/Warning, then False/Info, then True, then Unknown. Reason and
    message are those of the first of the worst in alphabetical order; True has neither.
    """
    others = sorted(
        (condition for condition in conditions if condition.type != READY),
        key=lambda condition: (_rank(condition), condition.type),
    )
    if not others:
        return None
    worst = others[0]
    if worst.status == "True":
        return true(READY)
    return msgspec.structs.replace(worst, type=READY, last_transition_time="")


def _timed(new: KubeBindCondition, old: KubeBindCondition | None, now: str) -> KubeBindCondition:
    if new.status != "False":
        new = msgspec.structs.replace(new, severity="")
    # A stored condition without a transition time gets one, even if nothing else changes.
    if old is not None and old.last_transition_time and new.same_state(old):
        return old
    return msgspec.structs.replace(new, last_transition_time=now)


def _rank(condition: KubeBindCondition) -> int:
    if condition.status == "False":
        return {"Error": 0, "Warning": 1, "Info": 2, "": 2}[condition.severity]
    return 3 if condition.status == "True" else 4
