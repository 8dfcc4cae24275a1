"""Costs of calls: counted when a rule runs, estimated for the worst case when it is written.

A cost unit is Kubernetes': an identifier, a selection, a comparison of two numbers, or ten
characters of a string that is read once. Source: "Resource use by validation functions" in the
CRD documentation; the numbers are those of kube-apiserver 1.34, recorded in
``tests/golden/cel.jsonl``.

Of the guards against heavy input the counted budgets stop ``priced_rules`` of
``tests/support/bombs.py``: each of these rules passes the estimate, and ``effort`` counts only
steps without a price. The estimate (``crds/rules``) stops no bomb by itself; it is Kubernetes'
answer to a CRD.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fairlead_sandbox.schema.cel.syntax import Node
from fairlead_sandbox.schema.cel.types import SCALARS, Type
from fairlead_sandbox.schema.cel.values import KINDS, Format, size_of


# PerCallLimit in k8s.io/apiserver.
PER_EXPRESSION = 1_000_000
"""Maximum cost of one evaluation of an expression, in cost units."""
# RuntimeCELCostBudget in k8s.io/apiserver.
PER_OBJECT = 10_000_000
"""Maximum cost of all evaluations for one object, in cost units."""
# ListCreateBaseCost and MapCreateBaseCost of cel-go.
NEW_LIST, NEW_MAP = 10, 30
# StringTraversalCostFactor of cel-go.
TRAVERSAL = 0.1
"""Cost units for each character that is read once."""
# RegexStringLengthCostFactor of cel-go.
_REGEX = 0.25
"""Cost units for each character of a pattern, multiplied by the cost of reading the text."""
MOST = 2**64 - 1
"""Largest cost or size; larger numbers become this one."""


def capped(number: int) -> int:
    """Return the number, at most :data:`MOST`."""
    return min(number, MOST)


def scaled(number: int, factor: float) -> int:
    """Return the product, rounded up, and :data:`MOST` at most."""
    return capped(math.ceil(number * factor))


class Size(NamedTuple):
    """The least and the most characters, items or entries of a value."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        """Return the size of the concatenation of two values."""
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        """Return the product of two sizes: the size of a list times the size of each item."""
        return Size(capped(self.least * other.least), capped(self.most * other.most))

    def union(self, other: Size) -> Size:
        """Return the range of sizes that includes both."""
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN = Size(0, MOST)
"""The size of a value without a limit."""


class Entry(NamedTuple):
    """The sizes of keys and values in a list or map."""

    kind: str
    key: Size
    value: Size

    def union(self, other: Entry) -> Entry:
        """Return the ranges of sizes, of keys and of values, that include both."""
        return Entry(self.kind, self.key.union(other.key), self.value.union(other.value))


class Estimate(NamedTuple):
    """The worst cost of a call, and the size of its result if it is known."""

    cost: int
    size: Size | None = None


class Operand(Protocol):
    """A compiled argument of a call, with the facts from which the call's cost is estimated."""

    @property
    def node(self) -> Node:
        """The argument's syntax tree."""
        ...

    @property
    def type(self) -> Type:
        """The type of the argument."""
        ...

    @property
    def path(self) -> tuple[str, ...] | None:
        """Path to the argument's declaration in the schema, None if there is none."""
        ...

    @property
    def sized(self) -> Size:
        """The size of the argument, or :data:`UNKNOWN`."""
        ...


class EstimatedCall(NamedTuple):
    """A call to be estimated: its arguments, receiver first, and a function for inner sizes."""

    parts: Sequence[Operand]
    size_at: Callable[[Type, tuple[str, ...] | None], Size | None]

    def size(self, index: int) -> Size:
        """Return the size of an argument."""
        return self.parts[index].sized

    def items(self, index: int) -> tuple[Type, Size] | None:
        """Return the type and the size of a list's items; None for other types."""
        part = self.parts[index]
        if not part.type.params:
            return None
        path = (*part.path, "@items") if part.path is not None else None
        inner = part.type.params[0]
        return inner, self.size_at(inner, path) or UNKNOWN


class Price(NamedTuple):
    """The cost of a call as two functions: from its actual arguments, and as an estimate."""

    actual: Callable[[Sequence[Any]], int]
    estimate: Callable[[EstimatedCall], Estimate]


def reading(size: float, times: int = 1) -> int:
    """Return the cost units of reading a text of this size."""
    return math.ceil(size * times * TRAVERSAL)


ONE = Price(lambda _: 1, lambda _: Estimate(1))
"""The price of calls that cost 1 whatever their arguments."""


PREFIX = Price(
    lambda args: reading(size_of(args[0])),
    lambda call: Estimate(scaled(call.size(1).most, TRAVERSAL)),
)
"""Price of startsWith() and endsWith(); Kubernetes counts the text but estimates the prefix."""


def read(index: int, times: int = 1, *, keeps_size: bool = False) -> Price:
    """Return the price of reading one argument; the result may be as large as the argument."""
    factor = TRAVERSAL * times

    def estimate(call: EstimatedCall) -> Estimate:
        size = call.size(index)
        return Estimate(scaled(size.most, factor), size if keeps_size else None)

    return Price(lambda args: reading(size_of(args[index]), times), estimate)


def _smaller(call: EstimatedCall) -> Estimate:
    return Estimate(scaled(min(call.size(0).most, call.size(1).most), TRAVERSAL))


COMPARISON = Price(lambda args: reading(min(size_of(args[0]), size_of(args[1]))), _smaller)
"""Price of comparing two values up to the end of the shorter one."""
_WHOLE = {
    "net.IP": 1,
    "net.CIDR": 1,
    "kubernetes.Quantity": 1,
    "kubernetes.Semver": 1,
    "kubernetes.NamedFormat": 7,
}
"""Cost units of ``==`` on types that are compared as a whole, by type name."""


def _equality(call: EstimatedCall) -> Estimate:
    left, right = (part.type for part in call.parts)
    whole = _WHOLE.get(left.name) if left == right else None
    return _smaller(call) if whole is None else Estimate(whole)


def _equality_cost(args: Sequence[Any]) -> int:
    whole = KINDS.get(type(args[0]), "") in _WHOLE
    return 1 if whole else reading(min(size_of(args[0]), size_of(args[1])))


EQUALITY = Price(_equality_cost, _equality)
"""Price of ``==``."""


def _concatenation(call: EstimatedCall) -> Estimate:
    size = call.size(0).plus(call.size(1))
    return Estimate(scaled(size.most, TRAVERSAL), size)


CONCATENATION = Price(lambda args: reading(size_of(args[0]) + size_of(args[1])), _concatenation)
LIST_CONCATENATION = Price(lambda _: 1, lambda call: Estimate(1, call.size(0).plus(call.size(1))))
MEMBERSHIP = Price(
    lambda args: size_of(args[1]), lambda call: Estimate(scaled(call.size(1).most, 1))
)
CONTAINS = Price(
    lambda args: reading(size_of(args[0])) * reading(size_of(args[1])),
    lambda call: Estimate(
        capped(scaled(call.size(0).most, TRAVERSAL) * scaled(call.size(1).most, TRAVERSAL))
    ),
)


def _regex_cost(args: Sequence[Any]) -> int:
    # One more than the text has, so that an expensive pattern is not free on an empty text.
    return reading(1 + size_of(args[0])) * math.ceil(size_of(args[1]) * _REGEX)


def _regex(call: EstimatedCall) -> int:
    text = scaled(capped(call.size(0).most + 1), TRAVERSAL)
    return capped(text * scaled(call.size(1).most, _REGEX))


MATCH = Price(_regex_cost, lambda call: Estimate(_regex(call)))
FIND = Price(_regex_cost, lambda call: Estimate(_regex(call), Size(0, call.size(0).most)))


def traversal(value: Any) -> int:
    """Return the cost units of reading all parts of a value."""
    if isinstance(value, str | bytes):
        return int(len(value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(traversal, value))
    if isinstance(value, dict):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def _each_item(call: EstimatedCall) -> Estimate:
    size, items = call.size(0), call.items(0)
    if items is None:
        return Estimate(scaled(size.most, TRAVERSAL))
    type_, inner = items
    each = 1 + (scaled(inner.most, TRAVERSAL) if type_.kind in {"string", "bytes"} else 0)
    return Estimate(capped(size.most * capped(each)))


TRAVERSE = Price(lambda args: traversal(args[0]), _each_item)
"""Price of reading all items of a list, or all characters of a text."""


def _replaced(call: EstimatedCall) -> Estimate:
    text, old, new = (call.size(index) for index in range(3))
    # Least and most. For the largest result an empty old text is replaced at every place, a
    # shorter one as often as it fits, and one that is longer than the new text not at all.
    count = [0, 0]
    limits = [0, 0]
    if old.least == 0:
        count[1], limits[1] = capped(text.most + 1), text.most
    elif new.most <= old.least:
        limits[1] = text.most
    else:
        count[1] = math.ceil(text.most / old.least)
    if old.most == 0:
        count[0], limits[0] = capped(text.least + 1), text.least
    elif old.most <= new.least:
        limits[0] = text.least
    else:
        count[0] = math.ceil(text.least / old.most)
    size = Size(*count).times(new).plus(Size(*limits))
    return Estimate(scaled(text.most, 2 * TRAVERSAL), size)


REPLACE = Price(lambda args: reading(size_of(args[0]), 2), _replaced)


def _split(call: EstimatedCall) -> Estimate:
    text = call.size(0)
    limit = call.parts[2].node.value if len(call.parts) > 2 else None
    # Kubernetes' estimate takes the limit as unsigned, so a negative one is huge.
    most = limit % (MOST + 1) if type(limit) is int else text.most
    return Estimate(scaled(text.most, 2 * TRAVERSAL), Size(0, most))


SPLIT = Price(lambda args: reading(size_of(args[0]), 2), _split)


def _join_cost(args: Sequence[Any]) -> int:
    texts = [text for text in args[0] if isinstance(text, str)]
    between = len(args[1]) * max(len(texts) - 1, 0) if len(args) > 1 else 0
    return reading(sum(map(len, texts)) + between, 2)


def _joined(call: EstimatedCall) -> Estimate:
    length, items = call.size(0), call.items(0)
    size = length.times(items[1]) if items else Size(0, 0)
    if len(call.parts) > 1:
        gaps = Size(max(length.least - 1, 0), max(length.most - 1, 0))
        size = size.plus(call.size(1).times(gaps))
    return Estimate(scaled(size.most, TRAVERSAL), size)


JOIN = Price(_join_cost, _joined)


def sets(factor: int) -> Price:
    """Return the price of looking up each item of a list in another, ``factor`` times."""
    return Price(
        lambda args: 1 + size_of(args[0]) * size_of(args[1]) * factor,
        lambda call: Estimate(capped(1 + scaled(call.size(0).times(call.size(1)).most, factor))),
    )


# Bytes of an address, IPv4 or IPv6.
_PREFIX = Size(4, 16)
_ADDRESS = scaled(_PREFIX.most * 2, TRAVERSAL)


def _parsing(args: Sequence[Any], *, parses: bool) -> int:
    return reading(size_of(args[1])) if parses else 0


def contains_address(*, parses: bool) -> Price:
    """Return the price of containsIP(); with ``parses`` the address is a text."""

    def estimate(call: EstimatedCall) -> Estimate:
        return Estimate(_ADDRESS + (scaled(call.size(1).most, TRAVERSAL) if parses else 0))

    return Price(
        lambda args: reading(size_of(args[0]) * 2) + _parsing(args, parses=parses), estimate
    )


def contains_network(*, parses: bool) -> Price:
    """Return the price of containsCIDR(); with ``parses`` the inner network is a text."""
    more = scaled(_PREFIX.most, TRAVERSAL) + 1

    def estimate(call: EstimatedCall) -> Estimate:
        text = scaled(call.size(1).most, TRAVERSAL) if parses else 0
        return Estimate(capped(_ADDRESS + more + text))

    def actual(args: Sequence[Any]) -> int:
        size = size_of(args[0])
        return reading(size * 2) + reading(size) + 1 + _parsing(args, parses=parses)

    return Price(actual, estimate)


# MaxNameFormatRegexSize in k8s.io/apiserver (pkg/cel/limits.go).
_LONGEST_FORMAT = 128
"""Length of the longest pattern among the named formats, in characters."""


def _validation(args: Sequence[Any]) -> int:
    format_ = args[0]
    size = format_.regex_size if isinstance(format_, Format) else _LONGEST_FORMAT
    return reading(1 + size_of(args[1])) * math.ceil(size * _REGEX)


VALIDATE = Price(
    _validation,
    lambda call: Estimate(scaled(scaled(call.size(1).most, TRAVERSAL), _LONGEST_FORMAT * _REGEX)),
)


def widened(size: Size) -> Size:
    """Return the size in bytes of a text whose size is in characters."""
    return Size(size.least, capped(size.most * 4))


TO_BYTES = Price(
    lambda args: reading(size_of(args[0])),
    lambda call: Estimate(scaled(call.size(0).most, TRAVERSAL), widened(call.size(0))),
)
TO_TEXT = Price(
    lambda args: reading(size_of(args[0])),
    lambda call: Estimate(
        scaled(call.size(0).most, TRAVERSAL), Size(call.size(0).least // 4, call.size(0).most)
    ),
)


QUOTE = Price(
    lambda args: reading(size_of(args[0])),
    lambda call: Estimate(
        scaled(call.size(0).most, TRAVERSAL), call.size(0).times(Size(1, 2)).plus(Size(2, 2))
    ),
)


def scalar_size(type_: Type) -> Size | None:
    """Return the size of a value of a scalar type; None for types of variable size."""
    if type_.kind == "optional":
        return scalar_size(type_.params[0])
    return Size(1, 1) if type_.kind in SCALARS else None
