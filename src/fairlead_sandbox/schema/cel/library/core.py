"""Operators, conversions and sizes of the CEL standard library.

Source: "List of Standard Definitions" of the CEL specification.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from fairlead_sandbox.schema.cel import costs
from fairlead_sandbox.schema.cel.library.overloads import Overload, function, in_words
from fairlead_sandbox.schema.cel.times import (
    SECOND,
    Duration,
    Timestamp,
    duration,
    parse_duration,
    parse_timestamp,
    timestamp,
)
from fairlead_sandbox.schema.cel.values import (
    KINDS,
    CelError,
    MapList,
    SetList,
    TypeValue,
    Uint,
    equal,
    frozen,
)
from fairlead_sandbox.schema.effort import Effort


_MAX_INT, _MAX_UINT = 2**63 - 1, 2**64 - 1


def to_int(value: int) -> int:
    """Return the value, which must fit into a signed integer of 64 bits.

    Raises:
        CelError: the value does not fit.
    """
    if -_MAX_INT - 1 <= value <= _MAX_INT:
        return value
    raise CelError("integer overflow")


def _to_uint(value: int) -> Uint:
    if 0 <= value <= _MAX_UINT:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    # CEL truncates toward zero; Python's // rounds down.
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _divided(left: float, right: float) -> float:
    # Python raises where IEEE 754 has infinity or NaN.
    if right:
        return left / right
    if math.isnan(left) or left == 0:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _bounded(run: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def compute(left: int, right: int) -> int:
        result = run(left, right)
        if -_MAX_INT - 1 <= result <= _MAX_INT:
            return result
        raise CelError("integer overflow")

    return compute


def _numeric(
    name: str, run: Callable[[Any, Any], Any], doubles: Callable[[Any, Any], Any] | None
) -> Iterator[Overload]:
    yield function("(int, int) -> int", _bounded(run), name=name)
    yield function("(uint, uint) -> uint", lambda a, b: _to_uint(run(int(a), int(b))), name=name)
    if doubles is not None:
        yield function("(double, double) -> double", doubles, name=name)


_KEYED = 10
"""Steps of effort to compute the key of an item."""


def _add_lists(effort: Effort, left: list[Any], right: list[Any]) -> list[Any]:
    """Concatenate two lists; a set takes only new items, a map list replaces equal keys."""
    effort.spend((len(left) + len(right)) * (_KEYED if type(left) is not list else 1))
    if isinstance(left, SetList):
        present = {frozen(item) for item in left}
        fresh = {frozen(item): item for item in right if frozen(item) not in present}
        return SetList([*left, *fresh.values()])
    if isinstance(left, MapList):
        merged = {left.key_of(item): item for item in left}
        merged.update({left.key_of(item): item for item in right})
        return MapList(list(merged.values()), left.keys)
    return [*left, *right]


def _add_times(left: Timestamp, right: Duration) -> Timestamp:
    with in_words("timestamp overflow"):
        return timestamp(0, left.nanoseconds + right.nanoseconds, left.offset)


def _length(nanoseconds: int) -> Duration:
    with in_words("integer overflow"):
        return duration(nanoseconds)


_TIMES = [
    function(
        "(duration, duration) -> duration",
        lambda a, b: _length(a.nanoseconds + b.nanoseconds),
        name="_+_",
    ),
    function("(timestamp, duration) -> timestamp", _add_times, name="_+_"),
    function("(duration, timestamp) -> timestamp", lambda a, b: _add_times(b, a), name="_+_"),
    function(
        "(duration, duration) -> duration",
        lambda a, b: _length(a.nanoseconds - b.nanoseconds),
        name="_-_",
    ),
    function(
        "(timestamp, duration) -> timestamp",
        lambda a, b: _add_times(a, Duration(-b.nanoseconds)),
        name="_-_",
    ),
    function(
        "(timestamp, timestamp) -> duration",
        lambda a, b: _length(a.nanoseconds - b.nanoseconds),
        name="_-_",
    ),
]
_ORDERED = ("bool", "int", "uint", "double", "timestamp", "duration")
_MIXED = (
    "(int, double)",
    "(int, uint)",
    "(uint, double)",
    "(uint, int)",
    "(double, int)",
    "(double, uint)",
)


def _comparisons() -> Iterator[Overload]:
    operators = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
    for name, run in operators.items():
        for kind in _ORDERED:
            yield function(f"({kind}, {kind}) -> bool", run, name=name)
        for kind in ("string", "bytes"):
            yield function(f"({kind}, {kind}) -> bool", run, costs.COMPARISON, name=name)
        for pair in _MIXED:
            yield function(f"{pair} -> bool", run, name=name)


def _equality() -> Iterator[Overload]:
    pair = "(A, A) -> bool"

    def differs(effort: Effort, left: Any, right: Any) -> bool:
        return not equal(left, right, effort)

    yield function(
        pair, lambda effort, a, b: equal(a, b, effort), costs.EQUALITY, name="_==_", counted=True
    )
    yield function(pair, differs, costs.COMPARISON, name="_!=_", counted=True)


def _in_list(effort: Effort, item: Any, items: list[Any]) -> bool:
    # Python's search is exact for texts and null, and fast. Numbers and booleans need CEL's
    # equality.
    if type(item) is str or item is None:
        return item in items
    effort.spend(len(items) * _COMPARED)
    return any(equal(one, item, effort) for one in items)


_COMPARED = 4
"""Steps of effort to compare an item with another value, beyond its cost."""


def _in_map(_: Effort, key: Any, entries: dict[Any, Any]) -> bool:
    return frozen(key) in entries


def go_double(value: float) -> str:
    """Return a double as Go's ``%g`` writes it, with the fewest digits that identify it."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, scale = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(scale, int)  # noqa: S101 - neither NaN nor infinite
    exponent = len(digits) + scale - 1
    # strconv.FormatFloat writes an exponent below 1e-04 and from 1e+06 on.
    if value == 0 or -4 <= exponent < 6:
        return f"{value:.{max(-scale, 0)}f}"
    head, *rest = map(str, digits)
    return f"{'-' * sign}{head}{'.' * bool(rest)}{''.join(rest)}e{exponent:+03d}"


_INT = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan|0x[0-9a-f.]+p[+-]?\d+)",
    re.ASCII | re.IGNORECASE,
)
_LONGEST = 1000
"""Maximum length of a number in a text, in characters."""
# The words of Go's strconv.ParseBool, also for false.
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def _fails(given: str, type_name: str) -> CelError:
    return CelError(f"type conversion error from '{given}' to '{type_name}'")


def _text_to_int(text: str) -> int:
    if _INT.fullmatch(text) is None or not -_MAX_INT - 1 <= int(text) <= _MAX_INT:
        raise _fails("string", "int")
    return int(text)


def _text_to_uint(text: str) -> Uint:
    # Go's ParseUint takes no sign.
    if not text[:1].isdigit() or _INT.fullmatch(text) is None or int(text) > _MAX_UINT:
        raise _fails("string", "uint")
    return Uint(text)


def _text_to_double(text: str) -> float:
    # Python's float() also takes white space and underscores between digits.
    if len(text) > _LONGEST or _DOUBLE.fullmatch(text) is None:
        raise _fails("string", "double")
    return float.fromhex(text) if "x" in text.lower() else float(text)


def _text_to_bool(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _fails("string", "bool")


def _bytes_to_text(value: bytes) -> str:
    with in_words("invalid UTF-8 in bytes, cannot convert to string"):
        return value.decode()


def _double_to_int(value: float) -> int:
    # Not >=, so that NaN is refused too.
    if not abs(value) < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def to_timestamp(text: str) -> Timestamp:
    """Return the timestamp of a text.

    Raises:
        CelError: the text is no timestamp.
    """
    with in_words("type conversion error from 'string' to 'google.protobuf.Timestamp'"):
        return parse_timestamp(text)


def to_duration(text: str) -> Duration:
    """Return the duration of a text.

    Raises:
        CelError: the text is no duration.
    """
    with in_words("type conversion error from 'string' to 'google.protobuf.Duration'"):
        return parse_duration(text)


def _seconds_to_timestamp(seconds: int) -> Timestamp:
    with in_words("timestamp overflow"):
        return timestamp(seconds)


_TYPE_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "optional": "optional_type",
}
TYPES = {
    name: TypeValue(name)
    for name in (
        *("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"),
        *("google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type"),
        *("net.IP", "net.CIDR"),
    )
}
"""Types that rules can name."""


def _type_of(value: Any) -> TypeValue:
    kind = KINDS.get(type(value), "dyn")
    return TypeValue(_TYPE_NAMES.get(kind, kind))


def _conversions() -> Iterator[Overload]:
    for kind in ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"):
        yield function(f"{kind}({kind}) -> {kind}", lambda value: value)
    yield function("bool(string) -> bool", _text_to_bool)
    yield function(
        "bytes(string) -> bytes", lambda text: text.encode("utf-8", "replace"), costs.TO_BYTES
    )
    yield function("double(int) -> double", float)
    yield function("double(uint) -> double", float)
    yield function("double(string) -> double", _text_to_double)
    yield function("duration(int) -> duration", Duration)
    yield function("duration(string) -> duration", to_duration)
    yield function("dyn(A) -> dyn", lambda value: value)
    yield function("int(double) -> int", _double_to_int)
    yield function("int(duration) -> int", lambda value: value.nanoseconds)
    yield function("int(string) -> int", _text_to_int)
    yield function("int(timestamp) -> int", lambda value: value.nanoseconds // SECOND)
    yield function("int(uint) -> int", lambda value: to_int(int(value)))
    yield function("string(bool) -> string", lambda value: "true" if value else "false")
    yield function("string(bytes) -> string", _bytes_to_text, costs.TO_TEXT)
    yield function("string(double) -> string", go_double)
    for kind in ("duration", "int", "timestamp", "uint"):
        yield function(f"string({kind}) -> string", str)
    yield function("timestamp(int) -> timestamp", _seconds_to_timestamp)
    yield function("timestamp(string) -> timestamp", to_timestamp)
    yield function("type(A) -> type(A)", _type_of)
    yield function("uint(double) -> uint", _double_to_uint)
    yield function("uint(int) -> uint", _to_uint)
    yield function("uint(string) -> uint", _text_to_uint)


def _sizes() -> Iterator[Overload]:
    for kind in ("bytes", "list(A)", "map(A, B)", "string"):
        yield function(f"size({kind}) -> int", len)
        yield function(f"<{kind}>.size() -> int", len)


OVERLOADS: list[Overload] = [
    *_numeric("_+_", operator.add, operator.add),
    *_numeric("_-_", operator.sub, operator.sub),
    *_numeric("_*_", operator.mul, operator.mul),
    *_numeric("_/_", _quotient, _divided),
    *_numeric("_%_", _remainder, None),
    function("(string, string) -> string", operator.add, costs.CONCATENATION, name="_+_"),
    function("(bytes, bytes) -> bytes", operator.add, costs.CONCATENATION, name="_+_"),
    function(
        "(list(A), list(A)) -> list(A)",
        _add_lists,
        costs.LIST_CONCATENATION,
        name="_+_",
        counted=True,
    ),
    *_TIMES,
    *_comparisons(),
    *_equality(),
    function("(A, list(A)) -> bool", _in_list, costs.MEMBERSHIP, name="@in", counted=True),
    function("(A, map(A, B)) -> bool", _in_map, name="@in", counted=True),
    function("(bool) -> bool", operator.not_, name="!_"),
    function("(int) -> int", lambda value: to_int(-value), name="-_"),
    function("(double) -> double", operator.neg, name="-_"),
    *_conversions(),
    *_sizes(),
]
