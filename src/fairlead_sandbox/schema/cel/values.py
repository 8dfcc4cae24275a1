"""The values of CEL: their kinds, equality and size.

Strings, booleans, integers, doubles, bytes, lists and maps are Python's. Lists that Kubernetes
takes for sets or maps have classes of their own, as do times, addresses and quantities. Source:
"Values" of the CEL specification, and "Validation rules" in the CRD documentation for ``==`` and
``+`` of sets and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, NamedTuple

import msgspec

from fairlead_sandbox.schema.cel.times import Duration, Timestamp
from fairlead_sandbox.schema.effort import Effort


class CelError(Exception):
    """The evaluation of a rule failed; the text is CEL's (``no such key: x``)."""


class CostError(Exception):
    """An evaluation has exceeded its cost limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class SetList(list[Any]):
    """A list of ``x-kubernetes-list-type: set``."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of ``x-kubernetes-list-type: map``; ``keys`` identify its items."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> Any:
        """Return the values of the item's keys."""
        entry = item if isinstance(item, dict) else {}
        return tuple(frozen(entry.get(key)) for key in self.keys)


class Optional(NamedTuple):
    """An optional value; ``there`` is whether it is present."""

    there: bool
    value: Any = None


NONE = Optional(there=False)


class TypeValue(NamedTuple):
    """A type as a value, such as the result of ``type(1)``."""

    name: str


class Url(NamedTuple):
    """A parsed URL; ``path`` is escaped, ``query`` is as written."""

    scheme: str
    host: str
    path: str
    query: str
    text: str


class Semver(NamedTuple):
    """A semantic version: three numbers, and the parts of its prerelease."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...]


class Format(NamedTuple):
    """A named format; ``complaints`` returns the errors of a text."""

    name: str
    complaints: Callable[[str], list[str]]
    regex_size: int


Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface


class Quantity(msgspec.Struct, frozen=True):
    """An amount of a resource, in billionths."""

    billionths: int


class BoolKey(msgspec.Struct, frozen=True):
    """A boolean as the key of a map; in Python ``True`` would equal the key 1."""

    value: bool


KINDS: Mapping[type, str] = {
    str: "string",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    bytes: "bytes",
    list: "list",
    SetList: "list",
    MapList: "list",
    dict: "map",
    type(None): "null",
    Timestamp: "timestamp",
    Duration: "duration",
    Optional: "optional",
    TypeValue: "type",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
    Quantity: "kubernetes.Quantity",
    Url: "kubernetes.URL",
    Semver: "kubernetes.Semver",
    Format: "kubernetes.NamedFormat",
}
"""Kind of a value, or its name for opaque types, by Python class."""


_SIZED = (str, bytes, list, dict)


def size_of(value: Any) -> int:
    """Return the size that costs are computed from: characters, items or entries; else 1."""
    if isinstance(value, _SIZED):
        return len(value)
    if isinstance(value, Network):
        # Bytes of the prefix, rounded up.
        return -(-value.network.prefixlen // 8)
    if isinstance(value, Address):
        return value.max_prefixlen // 8
    if isinstance(value, Optional) and value.there:
        return size_of(value.value)
    return 1


_encode = msgspec.json.Encoder(order="deterministic").encode


def frozen(value: Any) -> Any:
    """Return the value as a key of a Python dictionary, where equal values are one key."""
    if value is True or value is False:
        return BoolKey(value)
    # Numbers of equal value are one key in Python, as they are equal in CEL: 1, 1.0 and 1u.
    return _encode(value) if isinstance(value, list | dict) else value


def thawed(key: Any) -> Any:
    """Return the CEL value of a key that :func:`frozen` made."""
    return key.value if type(key) is BoolKey else key


_NUMBERS = (int, float)
_STEPS = 4
"""Steps of effort to compare two items."""
_KEYED = 24
"""Steps of effort to look up and compare an item of a set or of a list with keys."""


def equal(left: Any, right: Any, effort: Effort) -> bool:
    """Whether two values are equal: numbers by value, lists by order, sets and map lists by key.

    Raises:
        ExhaustedError: the comparison takes too long.
    """
    # A loop and no recursion, because values may be nested deeply.
    pairs = [(left, right)]
    while pairs:
        first, other = pairs.pop()
        if isinstance(first, list) and isinstance(other, list):
            if len(first) != len(other):
                break
            effort.spend(len(first) * (_STEPS if type(first) is list else _KEYED))
            matched = _items(first, other)
            if matched is None:
                break
            pairs += matched
        elif isinstance(first, dict) and isinstance(other, dict):
            if first.keys() != other.keys():
                break
            effort.spend(len(first) * _STEPS)
            pairs += [(value, other[key]) for key, value in first.items()]
        elif isinstance(first, Optional) and isinstance(other, Optional):
            if first.there is not other.there:
                break
            pairs.append((first.value, other.value))
        elif not _same(first, other):
            break
    else:
        return True
    return False


def _items(left: list[Any], other: list[Any]) -> list[tuple[Any, Any]] | None:
    """Return the pairs of items that must be equal in two lists of one length; None if unequal."""
    if isinstance(left, SetList):
        present = {frozen(item) for item in left}
        return [] if all(frozen(item) in present for item in other) else None
    if isinstance(left, MapList):
        by_key = {left.key_of(item): item for item in left}
        keys = [left.key_of(item) for item in other]
        if not all(key in by_key for key in keys):
            return None
        return [(by_key[key], item) for key, item in zip(keys, other, strict=True)]
    return list(zip(left, other, strict=True))


def _same(left: Any, other: Any) -> bool:
    # In Python True equals 1; in CEL a boolean equals no number.
    if isinstance(left, bool) or isinstance(other, bool):
        return left is other
    if isinstance(left, _NUMBERS) and isinstance(other, _NUMBERS):
        return left == other
    return KINDS.get(type(left)) == KINDS.get(type(other)) and bool(left == other)
