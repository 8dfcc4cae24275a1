"""What a schema says about a value, whatever a CRD may hold in place of it.

Nothing here trusts a schema: a word of a wrong type counts as none, and a default or a choice that
is too deep or too large to be shown counts as none as well.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from fairlead.api.meta import JSON


_DEEPEST = 40
"""Levels of a default, a choice or a value in YAML."""
_LARGEST = 20_000
"""Values in one of these."""
_LONGEST = 64 * 1024
"""Characters of all their texts."""
UNSET = msgspec.UNSET


def is_plain(value: Any) -> bool:
    """Whether a value is JSON, and small enough to be copied, compared and printed."""
    left, letters = _LARGEST, _LONGEST
    level = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for one in level:
            left -= 1
            if isinstance(one, str):
                letters -= len(one)
            elif isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                below += [*one, *one.values()]
                if not all(isinstance(key, str) for key in one):
                    return False
            elif isinstance(one, float):
                if not math.isfinite(one):
                    return False
            elif isinstance(one, int):
                if one.bit_length() > 1024:
                    return False
            elif one is not None:
                return False
            if min(left, letters) < 0 or len(below) > left:
                return False
        if not below:
            return True
        level = below
    return False


def is_text(value: str) -> bool:
    """Whether a text can be written: one with halves of characters has no UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; for Python true equals 1."""
    return one == other and encode(one) == encode(other)


def encode(value: Any) -> str:
    """A value as JSON, the same for values that are the same."""
    return msgspec.json.encode(value, order="sorted").decode()


def text(schema: JSON, name: str) -> str:
    """A text of a schema, "" for none."""
    value = schema.get(name)
    return value if isinstance(value, str) else ""


def flag(schema: JSON, name: str) -> bool:
    """Whether a schema says so."""
    return schema.get(name) is True


def number(schema: JSON, name: str) -> float | None:
    """A number of a schema."""
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def count(schema: JSON, name: str) -> int | None:
    """A whole number of a schema, of 0 or more."""
    value = schema.get(name)
    return value if isinstance(value, int) and type(value) is not bool and value >= 0 else None


def properties(schema: JSON) -> dict[str, JSON]:
    """The fields of an object that have a schema."""
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: one for name, one in found.items() if isinstance(one, dict)}


def required(schema: JSON) -> frozenset[str]:
    """The fields that an object has to have."""
    found = schema.get("required")
    if not isinstance(found, list):
        return frozenset()
    return frozenset(name for name in found if isinstance(name, str))


def inner(schema: JSON, name: str) -> JSON | None:
    """The schema of a list's items or of a map's values."""
    found = schema.get(name)
    return found if isinstance(found, dict) else None


def default(schema: JSON) -> Any:
    """The default, or UNSET."""
    if "default" not in schema or not is_plain(schema["default"]):
        return UNSET
    return schema["default"]


def choices(schema: JSON) -> list[Any]:
    """The values of an enumeration, each once; [] for none."""
    found = schema.get("enum")
    if not isinstance(found, list) or not is_plain(found):
        return []
    return list({encode(one): one for one in found}.values())


def is_free(schema: JSON) -> bool:
    """Whether an object keeps fields that its schema does not name."""
    return (
        flag(schema, "x-kubernetes-preserve-unknown-fields")
        or flag(schema, "additionalProperties")
        or inner(schema, "additionalProperties") is not None
        or flag(schema, "x-kubernetes-embedded-resource")
    )
