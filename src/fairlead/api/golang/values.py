r"""The values of a template: JSON values with the distinctions of Go's types.

Templates distinguish their own ``int`` from the ``int64`` of the data, and a value in an interface
from a plain one: both show in errors and in ``%T``. Strings are Go's, of bytes: a byte that is not
UTF-8 (from ``slice``, or written as ``\xff``) is a surrogate from U+DC80 to U+DCFF here.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec


_INT64 = 2**63


class Int(int):
    """Go's ``int``: literals, lengths and positions. A plain int is an ``int64`` of the data."""


class Byte(int):
    """Go's ``uint8``: one byte of a string."""


class Boxed(msgspec.Struct, frozen=True):
    """A member of a list or an object, whose Go type is ``interface {}``."""

    value: Any


class Absent(enum.Enum):
    """Markers of missing values."""

    NO_VALUE = 1
    """A key that is missing, or null after a pipeline."""
    NO_ARGUMENT = 2
    """No value was piped into a command."""


NO_VALUE = Absent.NO_VALUE
NO_ARGUMENT = Absent.NO_ARGUMENT


def box(value: Any) -> Boxed:
    """Box a member of a list or object; an integer beyond ``int64`` becomes a ``float64``."""
    # By its exact type: Int and bool are ints of Python too, and stay as they are.
    if type(value) is int and not -_INT64 <= value < _INT64:
        return Boxed(float(value))
    return Boxed(value)


def unbox(value: Any) -> Any:
    """Return the value in an interface, NO_VALUE for null."""
    if isinstance(value, Boxed):
        return NO_VALUE if value.value is None else value.value
    return value


def printable(value: Any) -> Any:
    """Return a value for printing: None for no value."""
    plain = unbox(value)
    return None if plain is NO_VALUE else plain


_TYPES: dict[type, str] = {
    bool: "bool",
    Int: "int",
    Byte: "uint8",
    int: "int64",
    float: "float64",
    complex: "complex128",
    str: "string",
    dict: "map[string]interface {}",
    list: "[]interface {}",
}


def type_name(value: Any) -> str:
    """Return the name of a value's Go type."""
    if value is None:
        return "<nil>"
    return "interface {}" if isinstance(value, Boxed) else _TYPES[type(value)]


_KINDS: dict[type, str] = {
    bool: "bool",
    Int: "int",
    Byte: "uint",
    int: "int",
    float: "float",
    complex: "complex",
    str: "string",
}


def kind(value: Any) -> str:
    """Return the basic kind of a value, "" for lists, objects and no value."""
    return _KINDS.get(type(value), "")


def truth(value: Any) -> bool:
    """Whether ``value`` is true for ``if``: not missing, empty or zero."""
    plain = unbox(value)
    return plain is not NO_VALUE and bool(plain)


def to_bytes(text: str) -> bytes:
    """Encode a string; surrogates that stand for no byte become U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # UTF-16 joins two halves to their character, and its decoder replaces a half that stands
        # alone.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def from_bytes(content: bytes) -> str:
    """Decode bytes to a string."""
    return content.decode("utf-8", "surrogateescape")


def joined(parts: list[str]) -> str:
    """Join strings; bytes of one character in different parts are combined again."""
    text = "".join(parts)
    return text if text.isascii() else from_bytes(to_bytes(text))


def well_formed(text: str) -> str:
    """Replace each byte that is not UTF-8 by U+FFFD."""
    return text if text.isascii() else to_bytes(text).decode("utf-8", "replace")


def size(text: str) -> int:
    """Return the length of a string in bytes."""
    return len(text) if text.isascii() else len(to_bytes(text))
