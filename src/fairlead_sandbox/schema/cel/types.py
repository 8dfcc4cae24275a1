"""The types of CEL, their unification, and signatures of functions.

Source: "Types and Conversions" and "Type Checking" of the CEL specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count


@dataclass(frozen=True, slots=True)
class Type:
    """A type: ``int``, ``list(string)``, an object of a schema, a type parameter ``A``.

    ``kind`` is the constructor; ``name`` distinguishes objects, opaque types and parameters;
    ``fields`` are an object's fields by the identifiers that rules use.
    """

    kind: str
    params: tuple[Type, ...] = ()
    name: str = ""
    fields: Mapping[str, Type] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        head = self.name or _SHOWN.get(self.kind, self.kind)
        return f"{head}({', '.join(map(str, self.params))})" if self.params else head


_SHOWN = {"optional": "optional_type", "error": "!error!"}

DYN = Type("dyn")
ERROR = Type("error")
BOOL = Type("bool")
INT = Type("int")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
TIMESTAMP = Type("timestamp")
DURATION = Type("duration")
IP = Type("opaque", name="net.IP")
CIDR = Type("opaque", name="net.CIDR")
QUANTITY = Type("opaque", name="kubernetes.Quantity")
URL = Type("opaque", name="kubernetes.URL")
SEMVER = Type("opaque", name="kubernetes.Semver")
FORMAT = Type("opaque", name="kubernetes.NamedFormat")
SCALARS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
"""Kinds whose values all have size 1."""
_NULLABLE = frozenset({"opaque", "optional", "object", "duration", "timestamp"})
"""Kinds that accept null."""
_WILD = frozenset({"dyn", "error"})
"""Kinds that agree with every type."""
_NAMED = {
    "ip": IP,
    "cidr": CIDR,
    "quantity": QUANTITY,
    "url": URL,
    "semver": SEMVER,
    "format": FORMAT,
}
"""Opaque types by their names in signatures."""


def list_of(items: Type) -> Type:
    """Return the type ``list(items)``."""
    return Type("list", (items,))


def map_of(keys: Type, values: Type) -> Type:
    """Return the type ``map(keys, values)``."""
    return Type("map", (keys, values))


def optional_of(value: Type) -> Type:
    """Return the type ``optional_type(value)``."""
    return Type("optional", (value,))


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's name, the types of its arguments (a receiver first) and of its result."""

    name: str
    takes: tuple[Type, ...]
    gives: Type
    method: bool


def signature(text: str, name: str = "") -> Signature:
    """Return the signature of a text in CEL's notation: ``<list(A)>.indexOf(A) -> int``.

    ``name`` is the name of an operator, whose text has none: ``(int, int) -> int``.
    """
    reader = _Reader(text)
    receiver: tuple[Type, ...] = ()
    method = reader.next_is("<")
    if method:
        receiver = (reader.skip("<").type(),)
        reader.skip(">").skip(".")
    name = name or reader.word()
    takes = reader.types()
    return Signature(name, (*receiver, *takes), reader.skip("->").type(), method)


class _Reader:
    """Parser of the notation of signatures."""

    def __init__(self, text: str) -> None:
        self._words: list[str] = re.findall(r"->|\w+\.\w+|[@\w]+|[(),.<>]", text)

    def next_is(self, word: str) -> bool:
        return self._words[:1] == [word]

    def word(self) -> str:
        return self._words.pop(0)

    def skip(self, word: str) -> _Reader:
        taken = self.word()
        assert taken == word, (taken, word)  # noqa: S101 - one of our own tables is wrong
        return self

    def type(self) -> Type:
        name = self.word()
        if name in _NAMED:
            return _NAMED[name]
        if name[0].isupper():
            return Type("param", name=name)
        return Type(name, self.types() if name in _COMPOUND else ())

    def types(self) -> tuple[Type, ...]:
        self.skip("(")
        types = []
        while not self.next_is(")"):
            types.append(self.type())
            if self.next_is(","):
                self.skip(",")
        self.skip(")")
        return tuple(types)


_COMPOUND = frozenset({"list", "map", "optional", "type"})


class Unifier:
    """Bindings of type parameters, which grow from one call to the next."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._names = count()

    def fresh(self) -> Type:
        """Return a new, unbound type parameter, such as the item type of ``[]``."""
        return Type("param", name=f"_{next(self._names)}")

    def renamed(self, types: Iterable[Type]) -> list[Type]:
        """Return the types with new type parameters."""
        names: dict[str, Type] = {}
        return [self._rename(type_, names) for type_ in types]

    def _rename(self, type_: Type, names: dict[str, Type]) -> Type:
        if type_.kind == "param":
            return names.setdefault(type_.name, self.fresh())
        if not type_.params:
            return type_
        return Type(type_.kind, tuple(self._rename(one, names) for one in type_.params))

    def filled(self, type_: Type, *, free: Type | None = None) -> Type:
        """Return the type with bound parameters filled in, and unbound ones set to ``free``."""
        if type_.kind == "param":
            bound = self._bound.get(type_.name)
            if bound is None:
                return free or type_
            return self.filled(bound, free=free)
        if not type_.params:
            return type_
        return Type(type_.kind, tuple(self.filled(one, free=free) for one in type_.params))

    def accept(self, given: Iterable[Type], expected: Iterable[Type]) -> bool:
        """Whether arguments of the given types fit the wanted types; binds parameters if so."""
        before = dict(self._bound)
        pairs = list(zip(given, expected, strict=True))
        if all(self._agree(one, other) for one, other in pairs):
            return True
        # The failed attempt may have bound some parameters; take that back.
        self._bound = before
        return False

    def _agree(self, given: Type, expected: Type) -> bool:
        if expected.kind == "param":
            stands_for = self._bound.get(expected.name)
            if self._substitute(given, expected):
                return True
            if stands_for is not None:
                return False
        if given.kind == "param":
            return self._substitute(expected, given)
        if given.kind in _WILD or expected.kind in _WILD:
            return True
        if "null" in {given.kind, expected.kind}:
            return {given.kind, expected.kind} <= _NULLABLE | {"null"}
        if given.kind != expected.kind or given.name != expected.name:
            return False
        # All types agree as values: which one it is shows only in the evaluation.
        if given.kind == "type":
            return True
        return len(given.params) == len(expected.params) and all(
            self._agree(param, other)
            for param, other in zip(given.params, expected.params, strict=True)
        )

    def _substitute(self, type_: Type, param: Type) -> bool:
        if type_ == param:
            return True
        bound = self._bound.get(param.name)
        if bound is None:
            # A parameter inside of its own type would make an infinite type.
            if self._mentions(type_, param):
                return False
            self._bound[param.name] = type_
            return True
        if type_ == bound:
            return True
        if not self._agree(type_, bound):
            return False
        # Of two types that agree the more general one stays bound.
        general = type_ if less_specific(type_, bound) else bound
        if not self._mentions(general, param):
            self._bound[param.name] = general
        return True

    def _mentions(self, type_: Type, param: Type) -> bool:
        if type_ == param:
            return True
        if type_.kind == "param":
            bound = self._bound.get(type_.name)
            return bound is not None and self._mentions(bound, param)
        return any(self._mentions(one, param) for one in type_.params)


def less_specific(left: Type, other: Type) -> bool:
    """Whether type ``left`` equals type ``other`` or is more general."""
    if left.kind in {"dyn", "param"}:
        return True
    if other.kind in {"dyn", "param"} or left.kind != other.kind or left.name != other.name:
        return False
    return left.kind == "type" or all(map(less_specific, left.params, other.params))
