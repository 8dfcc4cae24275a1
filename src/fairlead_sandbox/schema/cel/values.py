"""The values of rules: their kinds, which are equal, and which size they have.

Strings, booleans, integers, doubles, bytes, lists and maps are Python's. Kubernetes' lists that
are sets or maps of their items know it; times, addresses and quantities have types of their own.
Source: "Values" of the CEL specification, and "Validation rules" in the CRD documentation for
what sets and maps mean in ``==`` and ``+``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, NamedTuple

import msgspec

from fairlead_sandbox.schema.cel.times import Duration, Timestamp
from fairlead_sandbox.schema.effort import Effort


class CelError(Exception):
    """A rule failed while it ran, in CEL's words (``no such key: x``)."""


class CostError(Exception):
    """A rule has cost more than one evaluation may."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class SetList(list[Any]):
    """A list of ``x-kubernetes-list-type: set``."""

    __slots__ = ()


class MapList(list[Any]):
    """A list of ``x-kubernetes-list-type: map``; ``keys`` tell its items apart."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> Any:
        """Return the values of the item's keys."""
        found = item if isinstance(item, dict) else {}
        return tuple(frozen(found.get(key)) for key in self.keys)


class Optional(NamedTuple):
    """A value that may not be there."""

    there: bool
    value: Any = None


NONE = Optional(there=False)


class TypeValue(NamedTuple):
    """A type as a value, as ``type(1)`` gives it."""

    name: str


class Url(NamedTuple):
    """A URL in its parts, ``path`` escaped, ``query`` as it is."""

    scheme: str
    host: str
    path: str
    query: str
    text: str


class Semver(NamedTuple):
    """A version of semver.org: three numbers, and what comes before a release."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...]


class Format(NamedTuple):
    """A named format, with what it finds wrong with a text."""

    name: str
    complaints: Callable[[str], list[str]]
    regex_size: int


Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface


class Quantity(msgspec.Struct, frozen=True):
    """An amount of a resource, in billionths."""

    billionths: int


class BoolKey(msgspec.Struct, frozen=True):
    """A boolean as the key of a map: for Python ``True`` would be 1."""

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
"""The kind of a type, or its name if it is opaque, by the class of its values."""


_SIZED = (str, bytes, list, dict)


def size_of(value: Any) -> int:
    """Return the size that costs go by: characters, items or entries; 1 for other values."""
    if isinstance(value, _SIZED):
        return len(value)
    if isinstance(value, Network):
        return -(-value.network.prefixlen // 8)
    if isinstance(value, Address):
        return value.max_prefixlen // 8
    if isinstance(value, Optional) and value.there:
        return size_of(value.value)
    return 1


_encode = msgspec.json.Encoder(order="deterministic").encode


def frozen(value: Any) -> Any:
    """The value as the key of a Python dictionary, where equal values are one key."""
    if value is True or value is False:
        return BoolKey(value)
    return _encode(value) if isinstance(value, list | dict) else value


def thawed(key: Any) -> Any:
    """The value of a key of a map."""
    return key.value if type(key) is BoolKey else key


_NUMBERS = (int, float)
_STEPS = 4
"""Steps that the comparison of two items takes."""
_KEYED = 24
"""Steps that it takes where the item has to be looked up: in sets, and in lists with keys."""


def equal(left: Any, right: Any, effort: Effort) -> bool:
    """Whether two values are equal: numbers by value, lists in order unless they have none.

    Raises:
        ExhaustedError: the comparison takes too long.
    """
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                break
            effort.spend(len(one) * (_STEPS if type(one) is list else _KEYED))
            matched = _items(one, other)
            if matched is None:
                break
            pairs += matched
        elif isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                break
            effort.spend(len(one) * _STEPS)
            pairs += [(value, other[key]) for key, value in one.items()]
        elif isinstance(one, Optional) and isinstance(other, Optional):
            if one.there is not other.there:
                break
            pairs.append((one.value, other.value))
        elif not _same(one, other):
            break
    else:
        return True
    return False


def _items(one: list[Any], other: list[Any]) -> list[tuple[Any, Any]] | None:
    """Pair the items that must be equal for two lists of one length to be; None if they differ."""
    if isinstance(one, SetList):
        known = {frozen(item) for item in one}
        return [] if all(frozen(item) in known for item in other) else None
    if isinstance(one, MapList):
        by_key = {one.key_of(item): item for item in one}
        keys = [one.key_of(item) for item in other]
        if not all(key in by_key for key in keys):
            return None
        return [(by_key[key], item) for key, item in zip(keys, other, strict=True)]
    return list(zip(one, other, strict=True))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS):
        return one == other
    return KINDS.get(type(one)) == KINDS.get(type(other)) and bool(one == other)
