"""The status of a binding that cannot even be read."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.conditions import Condition, set_condition
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import PROCESSING_ERROR, READY


def invalid_status(binding: Object, message: str, now: str) -> JSON:
    """The status with Ready False; what else it says stays."""
    status: JSON = binding.to_dict().get("status") or {}
    try:
        before = msgspec.convert(status.get("conditions") or [], list[Condition])
    except msgspec.ValidationError:
        before = []
    merged = set_condition(before, Condition(READY, "False", PROCESSING_ERROR, message), now=now)
    conditions: list[Any] = [
        {"reason": "", "message": "", **msgspec.to_builtins(condition)} for condition in merged
    ]
    result = {**status, "conditions": conditions}
    if binding.api_version.startswith("servicebinding.io/"):
        result["observedGeneration"] = binding.meta.generation
    else:
        result.setdefault("secret", "")
    return result
