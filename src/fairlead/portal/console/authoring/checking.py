"""Validation of an object: types, required fields, ranges, lengths and enumerations.

Patterns, formats and CEL rules are left to the API server: a CRD's pattern could hang Python's
regular expressions, and CEL needs an interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import facts


Place = tuple[str | int, ...]
"""Path to a value: names of fields and indexes of lists."""
MOST = 100
"""Largest number of reported problems."""
INVALID = object()
"""Placeholder for text that is not a value; its problem is already reported."""
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object with fields",
}
_BITS = {"int32": 31, "int64": 63}
_LISTED = 12
"""Largest number of an enumeration's values that a message names."""


class Problem(msgspec.Struct, frozen=True):
    """A problem of a value; the message follows the name of its field."""

    place: Place
    message: str


def problems(schema: JSON, value: Any) -> list[Problem]:
    """Return the problems of a value, at most :data:`MOST`."""
    found: list[Problem] = []
    for one in _Check().walk(schema, value, ()):
        found.append(one)
        if len(found) == MOST:
            break
    return found


class _Check:
    """One validation; it encodes each enumeration once and not for each item of a list."""

    def __init__(self) -> None:
        self._choices: dict[int, tuple[JSON, frozenset[str]]] = {}

    def walk(self, schema: JSON, value: Any, place: Place) -> Iterator[Problem]:
        """Yield the problems of a value and of the values inside it."""
        if value is INVALID:
            return
        if value is None and facts.flag(schema, "nullable"):
            return
        wrong = _type(schema, value)
        if wrong:
            yield Problem(place, wrong)
            return
        allowed = self._allowed(schema)
        if allowed and (_has_invalid(value) or facts.encode(value) not in allowed):
            told = ", ".join(sorted(allowed)[:_LISTED])
            more = ", …" if len(allowed) > _LISTED else ""
            yield Problem(place, f"has to be one of {told}{more}")
            return
        if isinstance(value, str):
            yield from _length(schema, len(value), "Length", "characters", place)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from _limits(schema, value, place)
        elif isinstance(value, list):
            yield from self._list(schema, value, place)
        elif isinstance(value, dict):
            yield from self._object(schema, value, place)

    def _allowed(self, schema: JSON) -> frozenset[str]:
        if "enum" not in schema:
            return frozenset()
        known = self._choices.get(id(schema))
        if known is None:
            # Keeps the schema alive, since a freed object's id could be reused.
            known = schema, frozenset(map(facts.encode, facts.choices(schema)))
            self._choices[id(schema)] = known
        return known[1]

    def _list(self, schema: JSON, value: list[Any], place: Place) -> Iterator[Problem]:
        yield from _length(schema, len(value), "Items", "items", place)
        keys = _keys(schema)
        seen: set[str] = set()
        for index, one in enumerate(value):
            key = keys(one)
            if key and key in seen:
                yield Problem((*place, index), "is in the list twice")
            seen.add(key)
        items = facts.inner(schema, "items")
        if items is not None:
            for index, one in enumerate(value):
                yield from self.walk(items, one, (*place, index))

    def _object(self, schema: JSON, value: JSON, place: Place) -> Iterator[Problem]:
        yield from _length(schema, len(value), "Properties", "fields", place)
        fields, others = facts.properties(schema), facts.inner(schema, "additionalProperties")
        for name in sorted(facts.required(schema)):
            if name not in value and "default" not in fields.get(name, {}):
                yield Problem((*place, name), "is required")
        known = not fields or facts.is_free(schema)
        for name, one in value.items():
            inner = fields.get(name, others)
            if inner is not None:
                yield from self.walk(inner, one, (*place, name))
            elif not known:
                yield Problem((*place, name), "is not a known field")


def _type(schema: JSON, value: Any) -> str:
    if facts.flag(schema, "x-kubernetes-int-or-string"):
        plain = isinstance(value, int | str) and not isinstance(value, bool)
        return "" if plain else "has to be a whole number or text"
    kind = facts.text(schema, "type")
    wanted = _TYPES.get(kind)
    if wanted is None:
        return ""
    # In Python True is an int, in JSON it is not.
    fits = isinstance(value, wanted) and (isinstance(value, bool) == (kind == "boolean"))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        fits = True
    return "" if fits else f"has to be {_WORDS[kind]}"


def _limits(schema: JSON, value: float, place: Place) -> Iterator[Problem]:
    least, most = facts.number(schema, "minimum"), facts.number(schema, "maximum")
    form = "int64" if isinstance(value, int) else ""
    bits = _BITS.get(facts.text(schema, "format") or form) or _BITS.get(form)
    step = facts.number(schema, "multipleOf")
    if least is not None and value < least:
        yield Problem(place, f"has to be at least {least}")
    elif least is not None and value == least and facts.flag(schema, "exclusiveMinimum"):
        yield Problem(place, f"has to be more than {least}")
    elif most is not None and value > most:
        yield Problem(place, f"has to be at most {most}")
    elif most is not None and value == most and facts.flag(schema, "exclusiveMaximum"):
        yield Problem(place, f"has to be less than {most}")
    elif bits and not -(2**bits) <= value < 2**bits:
        yield Problem(place, f"has to fit into {bits + 1} bits")
    elif isinstance(step, int) and step > 0 and isinstance(value, int) and value % step:
        yield Problem(place, f"has to be a multiple of {step}")


def _length(schema: JSON, size: int, what: str, unit: str, place: Place) -> Iterator[Problem]:
    least, most = facts.count(schema, f"min{what}"), facts.count(schema, f"max{what}")
    if least is not None and size < least:
        one = unit.removesuffix("s") if least == 1 else unit
        yield Problem(place, f"has to have at least {least} {one}")
    elif most is not None and size > most:
        one = unit.removesuffix("s") if most == 1 else unit
        yield Problem(place, f"has {size} {unit}, and may have at most {most} {one}")


def _keys(schema: JSON) -> Any:
    """Return a function for the key of a list's item; its result is "" if items may repeat."""
    kind = schema.get("x-kubernetes-list-type")
    names = schema.get("x-kubernetes-list-map-keys")
    fields = facts.properties(facts.inner(schema, "items") or {})

    def key(value: Any) -> str:
        if kind == "set" and not _has_invalid(value):
            return facts.encode(value)
        if kind == "map" and isinstance(names, list) and isinstance(value, dict):
            told = [value.get(one, facts.default(fields.get(one, {}))) for one in map(str, names)]
            if not any(map(_has_invalid, told)) and facts.UNSET not in told:
                return facts.encode(told)
        return ""

    return key


def _has_invalid(value: Any) -> bool:
    """Whether ``value`` contains :data:`INVALID`."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one is INVALID:
            return True
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
    return False
