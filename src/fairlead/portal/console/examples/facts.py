"""Accessors of a schema that tolerate any content of a CRD: what is of a wrong type is missing."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON


_LONGEST, _COLLECTIONS = 2_000, 50
"""Largest value that is copied from a schema: bytes of JSON, and lists and objects in it."""


def size(value: Any) -> int:
    """Return the size of a value as JSON, in bytes; 0 if it is too large or too deep to copy."""
    try:
        text = msgspec.json.encode(value)
    except (RecursionError, OverflowError, ValueError):
        return 0
    collections = text.count(b"[") + text.count(b"{")
    return len(text) if len(text) <= _LONGEST and collections <= _COLLECTIONS else 0


def text(schema: JSON, name: str) -> str:
    """Return the text of the keyword ``name``, "" if it has none."""
    value = schema.get(name)
    return value if isinstance(value, str) else ""


def flag(schema: JSON, name: str) -> bool:
    """Whether the keyword ``name`` is true."""
    return schema.get(name) is True


def number(schema: JSON, name: str, missing: float) -> float:
    """Return the number of the keyword ``name``, ``missing`` if it has none of 64 bits."""
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**64:
        return missing
    return value


def items(schema: JSON, name: str) -> list[Any]:
    """Return the items of the list ``name``, [] without one."""
    value = schema.get(name)
    return value if isinstance(value, list) else []


def inner(schema: JSON, name: str) -> JSON:
    """Return what the keyword ``name`` has, such as ``properties``; {} without an object."""
    value = schema.get(name)
    return value if isinstance(value, dict) else {}
