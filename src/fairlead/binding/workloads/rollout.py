"""The rollout of a workload's spec, by the status that its own controller writes.

A server accepts a pod template whose Pods a policy or a quota then refuses. Nothing of that is in
the answer to the write: the workload's controller tries to create the Pods, and says in conditions
of the workload that it cannot.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.conditions import Condition, get_condition, stored_conditions
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import PODS_REFUSED, ROLLOUT_STUCK
from fairlead.binding import bounds


_FAILING = {
    "ReplicaFailure": "True",
    "Progressing": "False",
    "Stalled": "True",
    "Degraded": "True",
}
"""Bad status of each type of condition that tells of a failed rollout, the clearest first.

The first two are of apps/v1 (``DeploymentConditionType``, ``ReplicaSetConditionType``) and of
kinds made after them, the others are habits of custom kinds. StatefulSets, DaemonSets and CronJobs
tell of such failures in Events alone.
"""

_STOPPED = {"ProgressDeadlineExceeded", "ReplicaSetCreateError"}
"""Reasons with which Progressing False is a failure.

Controllers of other kinds say Progressing False of a rollout that is complete.
"""

_COMPLETE = "NewReplicaSetAvailable"
"""Reason of a Deployment's condition Progressing after a complete rollout."""

_COUNTING = {"Deployment", "ReplicaSet", "ReplicationController"}
"""Kinds whose controller writes ``status.observedGeneration``, and ReplicaFailure if Pods lack."""


class RolloutFailure(msgspec.Struct, frozen=True):
    """A rollout that fails: the reason of a binding's condition, and a quotation of the cause.

    ``since`` is the time of the workload's condition in RFC 3339.
    """

    reason: str
    text: str
    since: str = ""


def rollout_failure(body: JSON) -> RolloutFailure | None:
    """Return why the rollout of a workload's present spec fails; None if nothing says so."""
    if is_unobserved(body):
        return None
    conditions = stored_conditions(body)
    for type_, bad in _FAILING.items():
        condition = get_condition(conditions, type_)
        if condition is None or condition.status != bad:
            continue
        if type_ == "Progressing" and condition.reason not in _STOPPED:
            continue
        reason = PODS_REFUSED if type_ == "ReplicaFailure" else ROLLOUT_STUCK
        return RolloutFailure(reason, _quotation(condition), condition.last_transition_time)
    return None


def is_unobserved(body: JSON) -> bool:
    """Whether the status is about an older spec, or not written yet."""
    status = _status(body)
    observed = status.get("observedGeneration")
    if not isinstance(observed, int):
        return not status or body.get("kind") in _COUNTING
    generation = body["metadata"].get("generation")
    return isinstance(generation, int) and observed < generation


def is_rolling(body: JSON) -> bool:
    """Whether a change of the status may still tell how the rollout of the present spec ends."""
    if is_unobserved(body) or rollout_failure(body):
        return True
    conditions, status = stored_conditions(body), _status(body)
    progressing = get_condition(conditions, "Progressing")
    if progressing is not None:
        return progressing.status != "False" and progressing.reason != _COMPLETE
    if body.get("kind") in _COUNTING:
        spec = body.get("spec")
        replicas = spec.get("replicas") if isinstance(spec, dict) else 0
        there = status.get("updatedReplicas" if body["kind"] == "Deployment" else "replicas") or 0
        return isinstance(replicas, int) and isinstance(there, int) and there < replicas
    ready = get_condition(conditions, "Ready")
    return ready is not None and ready.status != "True"


def missing_pods(body: JSON) -> str:
    """Return how many Pods have the present template while some have not; else "".

    StatefulSets and DaemonSets tell in no other way that a server refuses their Pods.
    """
    status, spec = _status(body), body.get("spec")
    scheduled = status.get("desiredNumberScheduled")
    there = status.get("updatedNumberScheduled")
    if scheduled is None and isinstance(spec, dict):
        scheduled, there = spec.get("replicas"), status.get("updatedReplicas")
    there = there or 0
    if is_unobserved(body) or not isinstance(scheduled, int) or not isinstance(there, int):
        return ""
    return f"so far {there} of {scheduled} Pods have it" if there < scheduled else ""


def _status(body: JSON) -> dict[str, Any]:
    status = body.get("status")
    return status if isinstance(status, dict) else {}


def _quotation(condition: Condition) -> str:
    """Return a condition in one line, without the values that servers quote in refusals.

    Who may read a binding may have no right to read its workloads.
    """
    line = condition.message.partition("\n")[0]
    ends = [line.find(start) for start in ("{", "value: ", "error found in #")]
    end = min((end for end in ends if end >= 0), default=len(line))
    text = line if end == len(line) else f"{line[:end].rstrip()} ..."
    said = f"{condition.type} is {condition.status}"
    if condition.reason:
        said += f", {condition.reason}"
    whole = f"{said}: {text}" if text else said
    return (
        whole
        if len(whole) <= bounds.TEXT_CHARACTERS
        else f"{whole[: bounds.TEXT_CHARACTERS - 4]} ..."
    )
