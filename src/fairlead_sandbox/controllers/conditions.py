"""Conditions in the status of objects that the control plane itself reconciles."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.timestamps import now


def get_condition(status: JSON, type_: str) -> JSON:
    """Return the condition of this type, {} if there is none."""
    matching = (one for one in status.get("conditions") or [] if one["type"] == type_)
    return next(matching, {})


def set_condition(status: JSON, type_: str, value: str, reason: str, message: str) -> None:
    """Set a condition; lastTransitionTime changes only together with its status."""
    conditions = status["conditions"] = list(status.get("conditions") or [])
    old = get_condition(status, type_)
    moment = old.get("lastTransitionTime", "") if old.get("status") == value else now()
    new = {
        "type": type_,
        "status": value,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
    if old:
        conditions[conditions.index(old)] = new
    else:
        conditions.append(new)
