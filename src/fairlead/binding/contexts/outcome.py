"""Conditions that a pass sets, merged with those in the status."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.conditions import Condition, set_condition
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import LONGEST_MESSAGE, PROCESSING_ERROR, READY


class BindingOutcome:
    """The conditions of one pass over a binding with this status."""

    def __init__(self, status: JSON) -> None:
        self._before = status
        self._said: dict[str, Condition] = {}

    def set(self, condition: Condition) -> None:
        """Set a condition; conditions that a pass does not set keep their state."""
        self._said[condition.type] = condition

    def get(self, type_: str) -> Condition | None:
        """Return the condition of a type that this pass set."""
        return self._said.get(type_)

    def before(self) -> list[Condition]:
        """Return the conditions in the binding's status; none if they are malformed."""
        try:
            return msgspec.convert(self._before.get("conditions") or [], list[Condition])
        except msgspec.ValidationError:
            return []

    def after(self, now: str) -> list[JSON]:
        """Return the conditions after this pass."""
        merged = self.before()
        for condition in self._said.values():
            merged = set_condition(merged, condition, now=now)
        return [_written(condition) for condition in merged]


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
    before = BindingOutcome(status).before()
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
