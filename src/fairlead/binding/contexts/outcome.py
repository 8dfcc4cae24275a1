"""The outcome of a pass: its writes, and its conditions merged with those in the status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fairlead.api.conditions import Condition, get_condition, set_condition, stored_conditions
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.servicebinding.common import (
    COLLECTION_READY,
    ERROR,
    ERROR_READING_SERVICES,
    INJECTION_READY,
    LONGEST_MESSAGE,
    PROCESSING_ERROR,
    READY,
    ROLLOUT_FAILING,
)
from fairlead.binding.services.items import encode_data
from fairlead.binding.workloads.operations import Operations
from fairlead.binding.workloads.records import RECORDED_ANNOTATION


class BindingSecret(msgspec.Struct, frozen=True):
    """The wanted intermediate Secret; ``type`` is "" for the default."""

    namespace: str
    name: str
    content: dict[str, bytes]
    owner: OwnerReference
    type: str = ""


class BindingChanges(msgspec.Struct):
    """All writes except the status; empty until the pass persists.

    From ``leftovers`` the projection is removed, ``workloads`` are the selected ones.
    ``annotation`` says that the annotation of the superseded mapping is removed. ``superseded``
    has names and uids of the Secrets to delete after the workloads are written; if all workloads
    are ``withheld``, of those that no workload reads in its present state. Other Secrets of former
    content stay (``keeps_secrets``), since something may read them. ``left`` says what unbinding
    leaves on workloads.
    """

    secret: BindingSecret | None = None
    leftovers: list[Operations] = []
    workloads: list[Operations] = []
    annotation: bool = False
    withheld: bool = False
    superseded: list[tuple[str, str]] = []
    left: list[tuple[Operations, str]] = []
    keeps_secrets: bool = False


def secret_body(write: BindingSecret) -> JSON:
    """Return the body of the intermediate Secret, with values in ``data``, which keeps bytes."""
    owner: dict[str, Any] = msgspec.to_builtins(write.owner)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": write.name,
            "namespace": write.namespace,
            "annotations": {RECORDED_ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        **({"type": write.type} if write.type else {}),
        "data": encode_data(write.content),
    }


def conditions_after(status: JSON, said: Iterable[Condition], now: str) -> list[JSON]:
    """Return a status' conditions after a pass that ``said`` some; it keeps the others."""
    merged = stored_conditions({"status": status})
    for condition in said:
        merged = set_condition(merged, condition, now=now)
    return [_written(condition, now) for condition in merged]


def _written(condition: Condition, now: str) -> JSON:
    """Return a condition with reason, message and time even if empty, cut to the server's limit.

    Servers refuse a status in which another writer's condition lacks them.
    """
    times = {"lastTransitionTime": now}
    body = {"reason": "", "message": "", **times, **msgspec.to_builtins(condition)}
    message = body["message"]
    if len(message) > LONGEST_MESSAGE:
        body["message"] = f"{message[: LONGEST_MESSAGE - 4]} ..."
    return body


def _status(binding: Object) -> JSON:
    status = binding.to_dict().get("status")
    return status if isinstance(status, dict) else {}


def invalid_status(binding: Object, message: str, now: str) -> JSON:
    """Return the status with Ready False, and its other content unchanged."""
    status, generation = _status(binding), binding.meta.generation
    ready = Condition(READY, "False", PROCESSING_ERROR, message, observed_generation=generation)
    result: JSON = {**status, "conditions": conditions_after(status, [ready], now)}
    if binding.api_version.startswith("servicebinding.io/"):
        result["observedGeneration"] = generation
    else:
        result.setdefault("secret", "")
    return result


def is_collected(binding: Object) -> bool:
    """Whether data were last collected of the present spec; True for one that was never seen."""
    condition = _collected(binding)
    return condition is None or condition.observed_generation == binding.meta.generation


def refused_status(binding: Object, message: str, now: str, *, withdrawn: bool) -> JSON:
    """Return the status of a binding with refused services.

    All conditions are False if its projection was ``withdrawn``, else Ready alone.
    """
    status, former = invalid_status(binding, message, now), _collected(binding)
    if not withdrawn:
        said = [former] if former else []
        return {**status, "conditions": conditions_after(status, said, now)}
    reasons = {COLLECTION_READY: ERROR_READING_SERVICES, INJECTION_READY: ERROR}
    generation = binding.meta.generation
    said = [
        Condition(type_, "False", reason, message, observed_generation=generation)
        for type_, reason in reasons.items()
    ]
    after = conditions_after(status, said, now)
    # A rollout of what is withdrawn is not the binding's any more.
    remaining = [condition for condition in after if condition["type"] != ROLLOUT_FAILING]
    return {**status, "conditions": remaining, "secret": ""}


def _collected(binding: Object) -> Condition | None:
    """Return CollectionReady, with the generation of the spec that it is about.

    Service Binding Operator notes no generation; its projections count as of the present spec.
    """
    condition = get_condition(stored_conditions(binding.to_dict()), COLLECTION_READY)
    if condition is None or condition.observed_generation:
        return condition
    return msgspec.structs.replace(condition, observed_generation=binding.meta.generation)
