"""Accessors of a schema that tolerate any content of a CRD.

A keyword of a wrong type counts as missing, and so does a default or an enumeration that is too
deep or too large to show.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from fairlead.api.meta import JSON


_DEEPEST = 40
"""Deepest nesting of a default, an enumeration or a YAML value."""
_LARGEST = 20_000
"""Largest number of values in such a default, enumeration or YAML value."""
_LONGEST = 64 * 1024
"""Largest size of all texts in one, in characters."""
UNSET = msgspec.UNSET
"""Value of an input or a schema's default that does not exist; None is a value of JSON."""


def is_plain(value: Any) -> bool:
    """Whether ``value`` is JSON, and small enough to copy, compare and print."""
    left, letters = _LARGEST, _LONGEST
    level = [value]
    # Level by level and not by recursion, which deep nesting of a CRD would exhaust.
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
                # Larger ones are slow to print, and Python refuses more than 4300 digits.
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
    """Whether ``value`` can be encoded as UTF-8, which lone surrogates cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON; Python alone would equate true and 1."""
    return one == other and encode(one) == encode(other)


def encode(value: Any) -> str:
    """Encode a value as JSON, with the same result for equal values."""
    return msgspec.json.encode(value, order="sorted").decode()


def text(schema: JSON, name: str) -> str:
    """Return the text of the keyword ``name``, "" if it has none."""
    value = schema.get(name)
    return value if isinstance(value, str) else ""


def flag(schema: JSON, name: str) -> bool:
    """Whether the keyword ``name`` is true."""
    return schema.get(name) is True


def number(schema: JSON, name: str) -> float | None:
    """Return the number of the keyword ``name``, None if it has none."""
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def count(schema: JSON, name: str) -> int | None:
    """Return a keyword's whole number of 0 or more, None without one."""
    value = schema.get(name)
    return value if isinstance(value, int) and type(value) is not bool and value >= 0 else None


def properties(schema: JSON) -> dict[str, JSON]:
    """Return the fields of an object with their schemas."""
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: one for name, one in found.items() if isinstance(one, dict)}


def required(schema: JSON) -> frozenset[str]:
    """Return the required fields of an object."""
    found = schema.get("required")
    if not isinstance(found, list):
        return frozenset()
    return frozenset(name for name in found if isinstance(name, str))


def inner(schema: JSON, name: str) -> JSON | None:
    """Return the schema of a list's items or of a map's values."""
    found = schema.get(name)
    return found if isinstance(found, dict) else None


def default(schema: JSON) -> Any:
    """Return the default of the schema's value, UNSET without one."""
    if "default" not in schema or not is_plain(schema["default"]):
        return UNSET
    return schema["default"]


def choices(schema: JSON) -> list[Any]:
    """Return the distinct values of an enumeration; [] without one."""
    found = schema.get("enum")
    if not isinstance(found, list) or not is_plain(found):
        return []
    return list({encode(one): one for one in found}.values())


def is_free(schema: JSON) -> bool:
    """Whether the schema's objects keep fields that it does not name."""
    return (
        flag(schema, "x-kubernetes-preserve-unknown-fields")
        or flag(schema, "additionalProperties")
        or inner(schema, "additionalProperties") is not None
        or flag(schema, "x-kubernetes-embedded-resource")
    )
