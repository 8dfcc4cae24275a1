"""The functions of every template (https://pkg.go.dev/text/template#hdr-Functions).

``and`` and ``or`` run elsewhere, since they evaluate their arguments lazily.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from fairlead.api.golang.text import go_text
from fairlead.api.golang.values import (
    NO_VALUE,
    Boxed,
    Byte,
    Int,
    box,
    from_bytes,
    joined,
    kind,
    size,
    to_bytes,
    truth,
    type_name,
    unbox,
)
from fairlead.binding.expressions.gotemplate.bounds import ESCAPING, RenderingBudget
from fairlead.binding.expressions.gotemplate.calling.calls import Callee, CallError
from fairlead.binding.expressions.gotemplate.calling.verbs import formatted


def printed(budget: RenderingBudget, *values: Any) -> str:
    """Print values, with a space between two if neither is a string."""
    parts: list[str] = []
    for place, value in enumerate(values):
        if place and not isinstance(value, str) and not isinstance(values[place - 1], str):
            parts.append(" ")
        parts.append(_shown(budget, value))
    return joined(parts)


def printed_line(budget: RenderingBudget, *values: Any) -> str:
    """Print values with spaces between them, and a newline."""
    return joined([" ".join(_shown(budget, value) for value in values), "\n"])


def _shown(budget: RenderingBudget, value: Any) -> str:
    text = go_text(value)
    budget.spend(len(text) + 1)
    return text


def _index(budget: RenderingBudget, item: Any, *keys: Any) -> Any:
    value = unbox(item)
    if value is NO_VALUE:
        raise CallError("index of untyped nil")
    for key in map(unbox, keys):
        inner = unbox(value)
        if inner is NO_VALUE:
            raise CallError("index of nil pointer")
        match inner:
            case dict():
                value = _member(inner, key)
            case list():
                value = box(inner[_place(key, len(inner), "slice")])
            case str():
                value = _byte(budget, inner, key)
            case _:
                raise CallError(f"can't index item of type {type_name(inner)}")
    return value


def _member(value: dict[str, Any], key: Any) -> Boxed:
    if key is NO_VALUE:
        raise CallError("value is nil; should be of type string")
    if not isinstance(key, str):
        raise CallError(f"value has type {type_name(key)}; should be string")
    return box(value.get(key))


def _byte(budget: RenderingBudget, text: str, key: Any) -> Byte:
    budget.spend(0 if text.isascii() else len(text))
    # Go's strings are bytes: an index counts these, and may point into a character.
    content = to_bytes(text)
    return Byte(content[_place(key, len(content), "string")])


def _place(key: Any, length: int, word: str) -> int:
    # Go's own check lets the length itself pass, and then reflect panics, with another text.
    place = _position(key, length)
    if place == length:
        raise CallError(f"reflect: {word} index out of range")
    return place


def _position(key: Any, most: int) -> int:
    if key is NO_VALUE:
        raise CallError("cannot index slice/array with nil")
    if isinstance(key, bool) or not isinstance(key, int):
        raise CallError(f"cannot index slice/array with type {type_name(key)}")
    if not 0 <= key <= most:
        raise CallError(f"index out of range: {int(key)}")
    return int(key)


def _slice(budget: RenderingBudget, item: Any, *keys: Any) -> Any:
    value = unbox(item)
    if value is NO_VALUE:
        raise CallError("slice of untyped nil")
    if len(keys) > 3:
        raise CallError(f"too many slice indexes: {len(keys)}")
    if isinstance(value, str):
        if len(keys) == 3:
            raise CallError("cannot 3-index slice a string")
        budget.spend(size(value))
        content = to_bytes(value)
        # May cut a character in two: from_bytes keeps the loose bytes as surrogates.
        start, end = _limits(keys, len(content))
        return from_bytes(content[start:end])
    if not isinstance(value, list):
        raise CallError(f"can't slice item of type {type_name(value)}")
    start, end = _limits(keys, len(value))
    budget.spend(end - start)
    return value[start:end]


def _limits(keys: tuple[Any, ...], length: int) -> tuple[int, int]:
    """Return start and end; a third key only limits the capacity, which is not visible."""
    # Go accepts literals and variables here, but no values directly from the data.
    given = [_position(key, length) for key in keys]
    places = [*given, *(0, length, length)[len(given) :]]
    for low, high in ((0, 1), (1, 2)):
        if places[low] > places[high]:
            raise CallError(f"invalid slice index: {places[low]} > {places[high]}")
    return places[0], places[1]


def _length(budget: RenderingBudget, item: Any) -> Int:
    # Go's len hands the missing value to reflect, whose panic has this text.
    if item is NO_VALUE:
        raise CallError("reflect: call of reflect.Value.Type on zero Value")
    value = unbox(item)
    if value is NO_VALUE:
        raise CallError("len of nil pointer")
    if isinstance(value, str):
        budget.spend(0 if value.isascii() else len(value))
        return Int(size(value))
    if not isinstance(value, dict | list):
        raise CallError(f"len of type {type_name(value)}")
    return Int(len(value))


def _call(function: Any, *_: Any) -> Any:
    value = unbox(function)
    if value is NO_VALUE:
        raise CallError("call of nil")
    # JSON has no functions, so that every call fails.
    raise CallError(f"non-function of type {type_name(value)}")


def _html(budget: RenderingBudget, *values: Any) -> str:
    return _text(budget, values).translate(_HTML)


_HTML = str.maketrans(
    {'"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;", "\0": "\ufffd"}
)


def _js(budget: RenderingBudget, *values: Any) -> str:
    text = _text(budget, values)
    # _text has spent one for each character.
    budget.spend((ESCAPING - 1) * len(text))
    return "".join(map(_script, text))


def _script(char: str) -> str:
    if char in "\\'\"":
        return f"\\{char}"
    code = ord(char)
    # A byte that is no UTF-8, which Go decodes as U+FFFD.
    if 0xDC80 <= code < 0xDD00:
        return "\ufffd"
    if char in "<>&=" or code < 0x20 or (code > 0x7F and not char.isprintable()):
        return f"\\u{code:04X}"
    return char


def _query(budget: RenderingBudget, *values: Any) -> str:
    return quote_plus(to_bytes(_text(budget, values)))


def _text(budget: RenderingBudget, values: tuple[Any, ...]) -> str:
    # Go takes a lone string as it is, and prints all else as print does.
    if len(values) == 1 and isinstance(values[0], str):
        budget.spend(len(values[0]))
        return values[0]
    return printed(budget, *("<no value>" if value is None else value for value in values))


def _not(value: Any) -> bool:
    return not truth(value)


# Go only compares values of one basic kind.
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


BUILTINS: Mapping[str, Callee] = {
    # These two are never run: they are here for their names and numbers of arguments.
    "and": Callee(truth, ("value",), "value"),
    "or": Callee(truth, ("value",), "value"),
    "not": Callee(_not, ("value",)),
    "call": Callee(_call, ("value",), "value"),
    "html": Callee(_html, (), "any", counts=True),
    "js": Callee(_js, (), "any", counts=True),
    "urlquery": Callee(_query, (), "any", counts=True),
    "index": Callee(_index, ("value",), "value", counts=True),
    "slice": Callee(_slice, ("value",), "value", counts=True),
    "len": Callee(_length, ("value",), counts=True),
    "print": Callee(printed, (), "any", counts=True),
    "printf": Callee(formatted, ("string",), "any", counts=True),
    "println": Callee(printed_line, (), "any", counts=True),
    "eq": Callee(equal, ("value",), "value", counts=True),
    "ne": Callee(unequal, ("value", "value"), counts=True),
    "lt": Callee(less, ("value", "value"), counts=True),
    "le": Callee(less_or_equal, ("value", "value"), counts=True),
    "gt": Callee(greater, ("value", "value"), counts=True),
    "ge": Callee(greater_or_equal, ("value", "value"), counts=True),
}
