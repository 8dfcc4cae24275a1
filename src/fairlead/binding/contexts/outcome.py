"""Conditions that a pass sets, merged with those in the status."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.conditions import Condition, set_condition
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import LONGEST_MESSAGE, PROCESSING_ERROR, READY


def conditions_after(status: JSON, said: Iterable[Condition], now: str) -> list[JSON]:
    """Return a status' conditions after a pass that ``said`` some; it keeps the others."""
    merged = _conditions(status)
    for condition in said:
        merged = set_condition(merged, condition, now=now)
    return [_written(condition) for condition in merged]


def _conditions(status: JSON) -> list[Condition]:
    """Return the conditions of a status; none if they are malformed."""
    try:
        return msgspec.convert(status.get("conditions") or [], list[Condition])
    except msgspec.ValidationError:
        return []


def _written(condition: Condition) -> JSON:
    """Return a condition with reason and message even if empty, cut to the server's limit."""
    body = {"reason": "", "message": "", **msgspec.to_builtins(condition)}
    message = body["message"]
    if len(message) > LONGEST_MESSAGE:
        body["message"] = f"{message[: LONGEST_MESSAGE - 4]} ..."
    return body


def invalid_status(binding: Object, message: str, now: str) -> JSON:
    """Return the status with Ready False, and its other content unchanged."""
    found = binding.to_dict().get("status")
    status: JSON = found if isinstance(found, dict) else {}
    generation = binding.meta.generation
    ready = Condition(READY, "False", PROCESSING_ERROR, message, observed_generation=generation)
    result: JSON = {**status, "conditions": conditions_after(status, [ready], now)}
    if binding.api_version.startswith("servicebinding.io/"):
        result["observedGeneration"] = generation
    else:
        result.setdefault("secret", "")
    return result
