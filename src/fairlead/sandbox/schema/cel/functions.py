"""The functions and operators of the subset, by the types that they take."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fairlead.sandbox.schema.cel.errors import CelError
from fairlead.sandbox.schema.cel.types import BOOL, DOUBLE, DYN, INT, STRING, Type
from fairlead.sandbox.schema.effort import Effort
from fairlead.sandbox.schema.patterns import compile_pattern


class Function(NamedTuple):
    """One overload: the kinds that it takes, the type that it gives, and what it does."""

    takes: tuple[str, ...]
    gives: Type
    run: Callable[..., Any]


_MAX = 2**63 - 1
_LIST_OF_STRINGS = Type("list", {"items": {"type": "string"}})


def _int(value: int) -> int:
    if not -_MAX - 1 <= value <= _MAX:
        raise CelError("integer overflow")
    return value


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _modulo(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _matches(text: str, pattern: str) -> bool:
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        raise CelError(str(error)) from None
    return compiled.search(text, Effort())


def _to_int(text: str) -> int:
    try:
        return _int(int(text))
    except ValueError:
        raise CelError(f"type conversion error from {text!r} to 'int'") from None


def _compare(run: Callable[[Any, Any], bool]) -> list[Function]:
    kinds = ("int", "double", "string", "bool")
    return [Function((kind, kind), BOOL, run) for kind in kinds]


def _numeric(on_int: Callable[[int, int], int], on_double: Any) -> list[Function]:
    functions = [Function(("int", "int"), INT, on_int)]
    if on_double is not None:
        functions.append(Function(("double", "double"), DOUBLE, on_double))
    return functions


def _text(run: Callable[..., Any], gives: Type, *more: str) -> list[Function]:
    return [Function(("string", *more), gives, run)]


OPERATORS: Mapping[str, list[Function]] = {
    "<": _compare(operator.lt),
    "<=": _compare(operator.le),
    ">": _compare(operator.gt),
    ">=": _compare(operator.ge),
    "+": [
        *_numeric(lambda a, b: _int(a + b), operator.add),
        Function(("string", "string"), STRING, operator.add),
    ],
    "-": _numeric(lambda a, b: _int(a - b), operator.sub),
    "*": _numeric(lambda a, b: _int(a * b), operator.mul),
    "/": _numeric(_divide, None),
    "%": _numeric(_modulo, None),
    "!": [Function(("bool",), BOOL, operator.not_)],
    "neg": [
        Function(("int",), INT, lambda a: _int(-a)),
        Function(("double",), DOUBLE, operator.neg),
    ],
}
"""Operators; ``==``, ``!=``, ``in``, ``&&``, ``||`` and ``?:`` have their own rules."""

_SIZES = [Function((kind,), INT, len) for kind in ("string", "list", "map", "bytes")]

GLOBALS: Mapping[str, list[Function]] = {
    "size": _SIZES,
    "string": [
        Function(("string",), STRING, str),
        Function(("int",), STRING, str),
        Function(("bool",), STRING, lambda value: "true" if value else "false"),
    ],
    "int": [Function(("int",), INT, int), Function(("string",), INT, _to_int)],
    "double": [Function(("int",), DOUBLE, float), Function(("double",), DOUBLE, float)],
    "dyn": [Function(("dyn",), DYN, lambda value: value)],
}

METHODS: Mapping[str, list[Function]] = {
    "size": _SIZES,
    "startsWith": _text(str.startswith, BOOL, "string"),
    "endsWith": _text(str.endswith, BOOL, "string"),
    "contains": _text(str.__contains__, BOOL, "string"),
    "matches": _text(_matches, BOOL, "string"),
    "lowerAscii": _text(str.lower, STRING),
    "upperAscii": _text(str.upper, STRING),
    "trim": _text(str.strip, STRING),
    "indexOf": _text(str.find, INT, "string"),
    "replace": _text(str.replace, STRING, "string", "string"),
    "split": _text(str.split, _LIST_OF_STRINGS, "string"),
    "join": [Function(("list", "string"), STRING, lambda items, by: by.join(items))],
}

_KINDS = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "double",
    list: "list",
    dict: "map",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """The kind of a value at run time."""
    return _KINDS.get(type(value), "dyn")
