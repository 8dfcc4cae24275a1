"""Functions of optional values.

Source: the optional types of cel-go. The compiler itself handles ``or``, ``orValue`` and indices,
because their costs have rules of their own; only their types are from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead_sandbox.schema.cel.library.overloads import Overload, function
from fairlead_sandbox.schema.cel.times import Duration, Timestamp
from fairlead_sandbox.schema.cel.values import NONE, CelError, Optional, frozen


_EMPTY: tuple[Any, ...] = (False, 0, "", b"", None, [], {}, Duration(0))


def _of_non_zero(value: Any) -> Optional:
    empty = any(type(value) is type(one) and value == one for one in _EMPTY)
    zero = isinstance(value, int | float | list) and not value
    return NONE if empty or zero or value == _DAWN else Optional(there=True, value=value)


_DAWN = Timestamp(-62_135_596_800 * 10**9)
"""Go's zero time: the first second of the year 1."""


def _value(optional: Optional) -> Any:
    if not optional.there:
        raise CelError("optional.none() dereference")
    return optional.value


def optional_index(container: Any, key: Any) -> Optional:
    """Return the value at a key or an index, or an empty optional."""
    if isinstance(container, Optional):
        return optional_index(container.value, key) if container.there else NONE
    if isinstance(container, list):
        inside = type(key) is not bool and isinstance(key, int) and 0 <= key < len(container)
        return Optional(there=True, value=container[key]) if inside else NONE
    if not isinstance(container, dict):
        raise CelError("no such overload")
    frozen_key = frozen(key)
    return Optional(there=True, value=container[frozen_key]) if frozen_key in container else NONE


def _unwrapped(values: list[Optional]) -> list[Any]:
    return [one.value for one in values if one.there]


def _overloads() -> Iterator[Overload]:
    yield function(
        "optional.of(A) -> optional(A)", lambda value: Optional(there=True, value=value)
    )
    yield function("optional.ofNonZeroValue(A) -> optional(A)", _of_non_zero)
    yield function("optional.none() -> optional(A)", lambda: NONE)
    yield function("optional.unwrap(list(optional(A))) -> list(A)", _unwrapped)
    yield function("<list(optional(A))>.unwrapOpt() -> list(A)", _unwrapped)
    yield function("<optional(A)>.value() -> A", _value)
    yield function("<optional(A)>.hasValue() -> bool", lambda optional: optional.there)
    for container, key in (("list(A)", "int"), ("map(B, A)", "B")):
        for operand in (container, f"optional({container})"):
            yield function(f"({operand}, {key}) -> optional(A)", optional_index, name="_[?_]")
            gives = "A" if operand == container else "optional(A)"
            yield function(f"({operand}, {key}) -> {gives}", optional_index, name="_[_]")


OVERLOADS = list(_overloads())
