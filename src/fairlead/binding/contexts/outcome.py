"""Conditions: what a pass says of itself, and how that joins what was said before."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.conditions import Condition, set_condition
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import LONGEST_MESSAGE, PROCESSING_ERROR, READY


class Outcome:
    """The conditions of one pass over a binding with this status."""

    def __init__(self, status: JSON) -> None:
        self._before = status
        self._said: dict[str, Condition] = {}

    def set(self, condition: Condition) -> None:
        """Set a condition; those not set in a pass keep what they said before."""
        self._said[condition.type] = condition

    def get(self, type_: str) -> Condition | None:
        """What this pass said under a type."""
        return self._said.get(type_)

    def before(self) -> list[Condition]:
        """The conditions in the binding's status; none where others wrote something else."""
        try:
            return msgspec.convert(self._before.get("conditions") or [], list[Condition])
        except msgspec.ValidationError:
            return []

    def after(self, now: str) -> list[JSON]:
        """The conditions after this pass."""
        merged = self.before()
        for condition in self._said.values():
            merged = set_condition(merged, condition, now=now)
        return [_written(condition) for condition in merged]


def _written(condition: Condition) -> JSON:
    """With reason and message even where they are empty, and no longer than a server takes."""
    body = {"reason": "", "message": "", **msgspec.to_builtins(condition)}
    message = body["message"]
    if len(message) > LONGEST_MESSAGE:
        body["message"] = f"{message[: LONGEST_MESSAGE - 4]} ..."
    return body


def invalid_status(binding: Object, message: str, now: str) -> JSON:
    """The status with Ready False; what else it says stays."""
    found = binding.to_dict().get("status")
    status: JSON = found if isinstance(found, dict) else {}
    before = Outcome(status).before()
    generation = binding.meta.generation
    ready = Condition(READY, "False", PROCESSING_ERROR, message, observed_generation=generation)
    merged = set_condition(before, ready, now=now)
    conditions: list[Any] = [_written(condition) for condition in merged]
    result = {**status, "conditions": conditions}
    if binding.api_version.startswith("servicebinding.io/"):
        result["observedGeneration"] = generation
    else:
        result.setdefault("secret", "")
    return result
