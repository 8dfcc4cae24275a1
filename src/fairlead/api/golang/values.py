r"""The values of a template: JSON values, and what Go's types add to them.

Templates tell an ``int`` of their own from the ``int64`` of the data, and what an interface holds
from the value itself: both show in errors and in ``%T``. Strings are Go's, of bytes: a byte that
is no UTF-8 (of ``slice``, or written as ``\xff``) is a surrogate from U+DC80 to U+DCFF here.
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
    """A member of a list or an object, whose members are of type ``interface {}``."""

    value: Any


class Absent(enum.Enum):
    """Values that are none."""

    NO_VALUE = 1
    """A key that is missing, or null after a pipeline."""
    NO_ARGUMENT = 2
    """Nothing was piped into a command."""


NO_VALUE = Absent.NO_VALUE
NO_ARGUMENT = Absent.NO_ARGUMENT


def box(value: Any) -> Boxed:
    """A member of a list or object; integers that no ``int64`` holds are ``float64``."""
    if type(value) is int and not -_INT64 <= value < _INT64:
        return Boxed(float(value))
    return Boxed(value)


def unbox(value: Any) -> Any:
    """Return the value that an interface holds, NO_VALUE if it holds none."""
    if isinstance(value, Boxed):
        return NO_VALUE if value.value is None else value.value
    return value


def held(value: Any) -> Any:
    """A value as it is printed: None when there is none."""
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
    """The name of a value's Go type."""
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
    """Return the basic kind of a value, "" for lists, objects and none."""
    return _KINDS.get(type(value), "")


def truth(value: Any) -> bool:
    """Whether ``if`` takes a value for true: neither none nor empty nor zero."""
    plain = unbox(value)
    return plain is not NO_VALUE and bool(plain)


def to_bytes(text: str) -> bytes:
    """The bytes of a string; surrogates that stand for no byte are U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def from_bytes(content: bytes) -> str:
    """The string of bytes."""
    return content.decode("utf-8", "surrogateescape")


def joined(parts: list[str]) -> str:
    """Strings one after the other: halves of a character become one again."""
    text = "".join(parts)
    return text if text.isascii() else from_bytes(to_bytes(text))


def well_formed(text: str) -> str:
    """The string with U+FFFD for each byte that is no UTF-8."""
    return text if text.isascii() else to_bytes(text).decode("utf-8", "replace")


def size(text: str) -> int:
    """How many bytes a string has."""
    return len(text) if text.isascii() else len(to_bytes(text))
