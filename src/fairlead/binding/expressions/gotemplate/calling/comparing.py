"""``eq`` and other comparisons: Go only compares values of one basic kind."""

from __future__ import annotations

from typing import Any

from fairlead.api.golang.values import (
    NO_VALUE,
    kind,
    to_bytes,
    type_name,
    unbox,
)
from fairlead.binding.expressions.gotemplate.bounds import RenderingBudget
from fairlead.binding.expressions.gotemplate.calling.calls import CallError


_INTEGERS = {"int", "uint"}
_INCOMPATIBLE = "incompatible types for comparison"
_INVALID = "invalid type for comparison"


def equal(budget: RenderingBudget, first: Any, *others: Any) -> bool:
    """Whether ``first`` is equal to any of ``others``."""
    if not others:
        raise CallError("missing argument for comparison")
    left = unbox(first)
    return any(_equal(budget, left, unbox(other)) for other in others)


def unequal(budget: RenderingBudget, first: Any, second: Any) -> bool:
    """Whether two values differ."""
    return not equal(budget, first, second)


def _equal(budget: RenderingBudget, left: Any, right: Any) -> bool:
    kinds = {kind(left), kind(right)}
    if len(kinds) > 1 and kinds != _INTEGERS:
        # No value differs from every value; two values of different kinds are an error.
        if left is NO_VALUE or right is NO_VALUE:
            return False
        raise CallError(_INCOMPATIBLE)
    if "" not in kinds:
        budget.spend(len(left) if isinstance(left, str) else 1)
        return bool(left == right)
    if left is NO_VALUE or right is NO_VALUE:
        return left is right
    # Go's message shows the values, which may contain passwords.
    if type(left) is type(right):
        raise CallError(f"non-comparable type {type_name(left)}")
    raise CallError(f"non-comparable types {type_name(left)}, {type_name(right)}")


def less(budget: RenderingBudget, first: Any, second: Any) -> bool:
    """Whether ``first`` is less than ``second``."""
    left, right = unbox(first), unbox(second)
    kinds = {kind(left), kind(right)}
    if "" in kinds:
        raise CallError(_INVALID)
    if len(kinds) > 1 and kinds != _INTEGERS:
        raise CallError(_INCOMPATIBLE)
    if kinds & {"bool", "complex"}:
        raise CallError(_INVALID)
    if isinstance(left, str):
        budget.spend(len(left) + len(right))
        # Go orders strings by bytes; surrogates, which stand for loose bytes, would sort
        # otherwise.
        return left < right if _plain(left, right) else to_bytes(left) < to_bytes(right)
    return bool(left < right)


def _plain(left: str, right: str) -> bool:
    """Whether both strings are ASCII, so that characters sort like bytes."""
    return left.isascii() and right.isascii()


def less_or_equal(budget: RenderingBudget, first: Any, second: Any) -> bool:
    """Whether ``first`` is at most ``second``."""
    return less(budget, first, second) or equal(budget, first, second)


def greater(budget: RenderingBudget, first: Any, second: Any) -> bool:
    """Whether ``first`` is greater than ``second``."""
    return not less_or_equal(budget, first, second)


def greater_or_equal(budget: RenderingBudget, first: Any, second: Any) -> bool:
    """Whether ``first`` is at least ``second``."""
    return not less(budget, first, second)
