"""Decisions about a BindableResourcesRequest, and its status.

Its conditions are ``metav1.Condition``. Phase Succeeded is final until the spec changes; a request
in phase Failed is tried again after a change of its template, and periodically.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from fairlead.api.conditions import Condition, Event, set_condition, turned
from fairlead.api.durations import parse_duration
from fairlead.api.kubebind import (
    BindableResourcesRequest,
    BindableResourcesRequestSpec,
    LocalSecretKeyRef,
    Phase,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.timestamps import format_time, parse_time


READY = "Ready"
TEMPLATE_NOT_FOUND = "TemplateNotFound"
HANDLE_RESOURCES_FAILED = "HandleResourcesFailed"
IDENTITY_TAKEN = "IdentityTaken"
TOO_MANY_CONSUMERS = "TooManyConsumers"
SECRET_CREATION_FAILED = "SecretCreationFailed"  # noqa: S105  # a reason
SECRET_READY = "SecretReady"  # noqa: S105  # a reason

RESPONSE_KEY = "binding-response"
ANNOTATION_MOST_CONSUMERS = "fairlead.dev/most-consumers"
"""Annotation of a request that limits the number of its author's consumers."""


class InvitationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Whether to invite the consumer or to delete the request, and seconds until the next look."""

    invite: bool = False
    delete: bool = False
    requeue_after: float | None = None


class InvitationOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an invitation; ``namespace`` and ``ref`` are set only if it has succeeded."""

    phase: Phase
    reason: str
    message: str
    namespace: str = ""
    ref: LocalSecretKeyRef | None = None


def reconcile(request: Object, *, now: datetime) -> InvitationPlan:
    """Decide whether a request is answered, deleted or left alone."""
    if request.meta.deleting:
        return InvitationPlan()
    body = request.decode(BindableResourcesRequest)
    done = _up_to_date(request, body) and body.status.phase != "Pending"
    if not done:
        return InvitationPlan(invite=True)
    left = _seconds_left(body, now)
    if left is not None and left <= 0:
        return InvitationPlan(delete=True)
    return InvitationPlan(invite=body.status.phase == "Failed", requeue_after=left)


def fault(spec: BindableResourcesRequestSpec) -> str:
    """Return the fault in a spec that makes an invitation impossible, "" if there is none."""
    if not spec.cluster_identity.identity:
        return "spec.clusterIdentity.identity is empty: give the identity of the cluster that asks"
    if not spec.author:
        return (
            "spec.author is empty: give the person or group that asks, since an identity stays "
            "with its author"
        )
    if spec.ttl_after_finished and parse_duration(spec.ttl_after_finished) is None:
        return (
            f"spec.ttlAfterFinished {spec.ttl_after_finished!r} is not a duration: "
            "use for example 1h or 10m"
        )
    return ""


def secret_ref(request: Object, spec: BindableResourcesRequestSpec) -> LocalSecretKeyRef:
    """Return the Secret for the answer, in the request's namespace."""
    if spec.kubeconfig_secret_ref is not None:
        return spec.kubeconfig_secret_ref
    return LocalSecretKeyRef(name=f"{request.meta.name}-{RESPONSE_KEY}", key=RESPONSE_KEY)


def most_consumers(request: Object) -> int | None:
    """Return the limit of consumers for the request's author; None without a limit.

    Raises:
        ValueError: the annotation is no number; the text says so.
    """
    text = request.meta.annotations.get(ANNOTATION_MOST_CONSUMERS)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise ValueError(
            f"annotation {ANNOTATION_MOST_CONSUMERS} has to be a whole number, 0 or more"
        )
    return int(text)


def with_outcome(request: Object, outcome: InvitationOutcome, *, now: datetime) -> JSON:
    """Return the request's body with the outcome as its status.

    A repeated phase keeps the time at which it was first completed.
    """
    body = request.to_dict()
    old = request.decode(BindableResourcesRequest).status
    moment = format_time(now)
    status: JSON = {**(body.get("status") or {}), "phase": outcome.phase}
    again = outcome.phase == old.phase and _up_to_date(
        request, request.decode(BindableResourcesRequest)
    )
    finished = (old.completion_time if again else "") or moment
    values = {
        "namespace": outcome.namespace,
        "kubeconfigSecretRef": msgspec.to_builtins(outcome.ref),
        "completionTime": "" if outcome.phase == "Pending" else finished,
    }
    status |= values
    condition = Condition(
        READY,
        "True" if outcome.phase == "Succeeded" else "False",
        outcome.reason,
        outcome.message,
        observed_generation=request.meta.generation,
    )
    conditions = msgspec.convert(old.conditions, list[Condition])
    status["conditions"] = msgspec.to_builtins(set_condition(conditions, condition, now=moment))
    body["status"] = {name: value for name, value in status.items() if value}
    return body


def ready_events(old: Object, new: Object) -> list[Event]:
    """Return the Events for a change of a request's condition Ready."""
    before, after = (
        msgspec.convert(status.decode(BindableResourcesRequest).status.conditions, list[Condition])
        for status in (old, new)
    )
    return turned(before, after, READY)


def _up_to_date(request: Object, body: BindableResourcesRequest) -> bool:
    """Whether the condition Ready is about the current generation of the spec."""
    for condition in body.status.conditions:
        if condition.get("type") == READY:
            return bool(condition.get("observedGeneration", 0) == request.meta.generation)
    return False


def _seconds_left(body: BindableResourcesRequest, now: datetime) -> float | None:
    """Return the seconds until a finished request expires; None without an end or a valid ttl."""
    ttl = parse_duration(body.spec.ttl_after_finished)
    if ttl is None or not body.status.completion_time:
        return None
    try:
        return (parse_time(body.status.completion_time) + ttl - now).total_seconds()
    except (ValueError, OverflowError):
        return None
