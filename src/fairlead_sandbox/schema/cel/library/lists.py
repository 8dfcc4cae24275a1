"""Functions of lists: order, sums, indices, and lists as sets.

Source: Kubernetes' list library and the sets extension of cel-go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import pairwise
from typing import Any

from fairlead_sandbox.schema.cel import costs
from fairlead_sandbox.schema.cel.library.core import OVERLOADS as CORE
from fairlead_sandbox.schema.cel.library.overloads import Overload, function
from fairlead_sandbox.schema.cel.times import Duration
from fairlead_sandbox.schema.cel.values import CelError, Uint, equal
from fairlead_sandbox.schema.effort import Effort


_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMED = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}


def _is_sorted(effort: Effort, items: list[Any]) -> bool:
    effort.spend(len(items) * _STEPS)
    return all(not later < earlier for earlier, later in pairwise(items))


_STEPS = 2
"""Steps of effort to read an item; short strings have no cost."""


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def find(effort: Effort, items: list[Any]) -> Any:
        effort.spend(len(items) * _STEPS)
        if not items:
            raise CelError(f"{name} called on empty list")
        return choose(items)

    return find


def _sum(kind: str) -> Callable[[list[Any]], Any]:
    add, nothing = _ADD[kind], _SUMMED[kind]
    return lambda items: reduce(add, items, nothing)


# The functions of the operator +, so that a sum overflows as it does.
_ADD = {
    overload.signature.takes[0].kind: overload.run
    for overload in CORE
    if overload.signature.name == "_+_"
    and overload.signature.takes[0].kind in _SUMMED
    and overload.signature.takes[0] == overload.signature.takes[1]
}


def _index_of(effort: Effort, items: list[Any], sought: Any) -> int:
    if type(sought) is str:
        effort.spend(len(items) * _STEPS)
        return items.index(sought) if sought in items else -1
    effort.spend(len(items) * _COMPARED)
    places = (at for at, item in enumerate(items) if equal(item, sought, effort))
    return next(places, -1)


_COMPARED = 5
"""Steps of effort to compare an item with another value."""


def _last_index_of(effort: Effort, items: list[Any], item: Any) -> int:
    index = _index_of(effort, items[::-1], item)
    return index if index < 0 else len(items) - 1 - index


def _covers(effort: Effort, items: list[Any], others: list[Any]) -> bool:
    effort.spend(len(items) * len(others) * _COMPARED)
    return all(any(equal(item, one, effort) for item in items) for one in others)


def _intersects(effort: Effort, items: list[Any], others: list[Any]) -> bool:
    effort.spend(len(items) * len(others) * _COMPARED)
    return any(any(equal(item, one, effort) for item in items) for one in others)


def _equivalent(effort: Effort, items: list[Any], others: list[Any]) -> bool:
    return _covers(effort, items, others) and _covers(effort, others, items)


def _overloads() -> Iterator[Overload]:
    for kind in _ORDERED:
        receiver = f"<list({kind})>"
        yield function(f"{receiver}.isSorted() -> bool", _is_sorted, costs.TRAVERSE, counted=True)
        for name, choose in (("min", min), ("max", max)):
            run = _extreme(name, choose)
            yield function(f"{receiver}.{name}() -> {kind}", run, costs.TRAVERSE, counted=True)
        if kind in _SUMMED:
            yield function(f"{receiver}.sum() -> {kind}", _sum(kind), costs.TRAVERSE)
    for name, find in (("indexOf", _index_of), ("lastIndexOf", _last_index_of)):
        yield function(f"<list(A)>.{name}(A) -> int", find, costs.TRAVERSE, counted=True)
    pair = "(list(A), list(A)) -> bool"
    yield function(f"sets.contains{pair}", _covers, costs.sets(1), counted=True)
    yield function(f"sets.intersects{pair}", _intersects, costs.sets(1), counted=True)
    yield function(f"sets.equivalent{pair}", _equivalent, costs.sets(2), counted=True)


OVERLOADS = list(_overloads())
