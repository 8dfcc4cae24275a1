"""x-kubernetes-validations, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox.schema.errors import FieldError


Rules = Callable[[Any, Any, str, list[FieldError]], None]


def compile_rules(schema: JSON) -> Rules | None:
    """The rules of a schema; None when it has none."""
    return None
