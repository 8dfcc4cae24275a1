"""Bodies of objects with changed status fields and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.api.kubebind.conditions import KubeBindCondition, set_conditions, stored_conditions
from fairlead.api.meta import JSON, Object


def with_status(
    obj: Object,
    conditions: Sequence[KubeBindCondition],
    *,
    now: str,
    summary: bool = True,
    **fields: Any,
) -> JSON:
    """Return the object's body with conditions and other fields of its status set.

    A field that is None is removed. Other fields of the status, and conditions of other writers,
    stay as they are.
    """
    body = obj.to_dict()
    merged = set_conditions(stored_conditions(obj), *conditions, now=now, summary=summary)
    status: JSON = {**(body.get("status") or {}), **fields}
    status["conditions"] = msgspec.to_builtins(merged)
    body["status"] = {name: value for name, value in status.items() if value is not None}
    return body
