"""The example of a kind: the fields that its schema requires, each with a placeholder.

Patterns and CEL rules become comments, for the API server alone evaluates them: a CRD's pattern
could hang Python's regular expressions.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final

from fairlead.api.meta import JSON
from fairlead.portal.console.examples import facts
from fairlead.portal.console.examples.fixed import FIXED
from fairlead.portal.console.examples.printing import Place, as_yaml


DEEPEST: Final = 10
"""Deepest nesting of an example."""
ROOM: Final = 10_000
"""Largest size of an example without its comments, in characters; it may end with one more."""
_COST, _ITEMS, _LONGEST, _BRANCHES = 25, 5, 500, 8
_WORD: Final = "example"
_FORMATS: Final = {
    "date-time": "2030-01-01T00:00:00Z",
    "date": "2030-01-01",
    "duration": "1h",
    "uri": "https://example.org",
    "email": "team@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "cidr": "192.0.2.0/24",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "byte": "ZXhhbXBsZQ==",
}
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def example(schema: Any, *, api_version: str, kind: str, namespaced: bool) -> str:
    """Return an object as YAML, to change and apply.

    ``schema`` is the ``openAPIV3Schema`` of its version, whatever a CRD may hold.
    """
    metadata = {"name": _WORD} | ({"namespace": "default"} if namespaced else {})
    body: JSON = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    fixed = FIXED.get((api_version.rpartition("/")[0], kind))
    if fixed is not None:
        return as_yaml(body) + fixed
    draft = _Draft()
    root = _joined(schema if isinstance(schema, dict) else {})
    fields = draft.object(root, (), {"spec"} & facts.inner(root, "properties").keys())
    if fields.get("spec") == {}:
        names = list(
            facts.inner(facts.inner(facts.inner(root, "properties"), "spec"), "properties")
        )
        listed = ", ".join(name[:_COST] for name in names[:_BRANCHES])
        more = ", …" if len(names) > _BRANCHES else ""
        draft.note(
            ("spec",), "No field is required." + (f" There are {listed}{more}" if names else "")
        )
    return as_yaml({**body, **fields}, draft.comments)


class _Draft:
    """An example in the making, with limited room."""

    def __init__(self) -> None:
        self.comments: dict[Place, list[str]] = {}
        self._room = ROOM

    def note(self, place: Place, comment: str) -> None:
        """Add a comment to a field."""
        notes = self.comments.setdefault(place, [])
        if comment not in notes:
            notes.append(comment)

    def object(self, schema: JSON, place: Place, extra: Collection[str] = ()) -> JSON:
        """Return an object with its required fields and those of ``extra``."""
        properties = facts.inner(schema, "properties")
        required = {name for name in facts.items(schema, "required") if isinstance(name, str)}
        required |= set(extra)
        if not place:
            required -= {"apiVersion", "kind", "metadata", "status"}
        body: JSON = {}
        # In the order of the schema; names that it does not explain come last.
        for name in dict.fromkeys([*filter(required.__contains__, properties), *sorted(required)]):
            self._room -= len(name)
            if self._room <= 0 or len(place) >= DEEPEST:
                self.note(place, "More fields are required here.")
                break
            body[name] = self._value(facts.inner(properties, name), (*place, name))
        if facts.flag(schema, "x-kubernetes-embedded-resource"):
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _WORD}}
            return {**head, **body}
        self._explain(schema, place)
        return body

    def _value(self, schema: JSON, place: Place, extra: Collection[str] = ()) -> Any:
        self._room -= _COST
        schema = _joined(schema)
        choices = facts.items(schema, "enum")
        if len(choices) > 1:
            shown = [str(choice) for choice in choices[:_BRANCHES] if 0 < facts.size(choice) < 40]
            self.note(place, f"One of {', '.join(shown)}{', …' * (len(shown) < len(choices))}")
        for value in (schema.get("default"), schema.get("example"), *choices[:1]):
            if _suits(schema, value) and facts.size(value) <= self._room:
                self._room -= facts.size(value)
                return value
        kind = facts.text(schema, "type")
        if facts.flag(schema, "x-kubernetes-int-or-string") or kind in {"integer", "number"}:
            value = _number(schema)
        elif kind == "boolean":
            value = False
        elif kind == "array":
            value = self._list(schema, place)
        elif kind == "object" or facts.inner(schema, "properties"):
            others = facts.inner(schema, "additionalProperties")
            if not others or facts.inner(schema, "properties") or len(place) >= DEEPEST:
                return self.object(schema, place, extra)
            value = {_WORD: self._value(others, (*place, _WORD))}
        elif facts.flag(schema, "x-kubernetes-preserve-unknown-fields"):
            value = {}
        else:
            value = self._text(schema, place)
        self._explain(schema, place)
        return value

    def _list(self, schema: JSON, place: Place) -> list[Any]:
        least = facts.number(schema, "minItems", 0)
        if least > 1:
            self.note(place, f"At least {least} items.")
        most = min(max(least, 1), facts.number(schema, "maxItems", _ITEMS), _ITEMS)
        keys = {
            key for key in facts.items(schema, "x-kubernetes-list-map-keys") if key == str(key)
        }
        body: list[Any] = []
        while len(body) < most and self._room > 0 and len(place) < DEEPEST:
            body.append(self._value(facts.inner(schema, "items"), (*place, len(body)), keys))
        return body

    def _text(self, schema: JSON, place: Place) -> str:
        pattern = facts.text(schema, "pattern")
        if pattern:
            self.note(place, f"It has to match {pattern}")
        least = min(max(int(facts.number(schema, "minLength", 0)), 0), _LONGEST)
        most = max(least, min(int(facts.number(schema, "maxLength", _LONGEST)), len(_WORD)))
        self._room -= most
        word = _WORD * (most // len(_WORD) + 1)
        return _FORMATS.get(facts.text(schema, "format")) or word[:most]

    def _explain(self, schema: JSON, place: Place) -> None:
        """Say what else the API server checks: alternatives, and rules for new objects."""
        for word, lead in (("oneOf", "Exactly one of: "), ("anyOf", "At least one of: ")):
            branches = [_names(branch) for branch in facts.items(schema, word)[:_BRANCHES]]
            if len(list(filter(None, branches))) > 1:
                self.note(place, lead + "; ".join(filter(None, branches)))
        for rule in facts.items(schema, "x-kubernetes-validations")[:_BRANCHES]:
            message = facts.text(rule, "message") if isinstance(rule, dict) else ""
            # A rule with oldSelf is on updates.
            if message and "oldSelf" not in facts.text(rule, "rule"):
                self.note(place, message)


def _joined(schema: JSON, depth: int = 4) -> JSON:
    """Return a schema with what allOf and the first branches of oneOf and anyOf add to it."""
    for word, most in (("allOf", _BRANCHES), ("oneOf", 1), ("anyOf", 1)):
        for branch in facts.items(schema, word)[:most] if depth else ():
            if not isinstance(branch, dict):
                continue
            more = _joined(branch, depth - 1)
            properties = dict(facts.inner(schema, "properties"))
            for name, other in facts.inner(more, "properties").items():
                own = facts.inner(properties, name)
                # Joined when the field is reached, for it may be deep.
                properties[name] = {**own, "allOf": [*facts.items(own, "allOf"), other]}
            required = [*facts.items(schema, "required"), *facts.items(more, "required")]
            schema = {**more, **schema, "properties": properties, "required": required}
    return schema


def _suits(schema: JSON, value: Any) -> bool:
    """Whether a value of the schema says more than a placeholder, and is of its type."""
    if value is None or value in ({}, []) or not facts.size(value):
        return False
    kind, choices = facts.text(schema, "type"), facts.items(schema, "enum")
    # In Python True is an int, in JSON it is not.
    fits = isinstance(value, _TYPES.get(kind, object)) and (
        kind in {"boolean", ""} or not isinstance(value, bool)
    )
    return fits and (not choices or value in choices)


def _number(schema: JSON) -> float:
    """Return a number near 1 within the schema's limits; 1 if none is."""
    low, high = (facts.number(schema, word, math.nan) for word in ("minimum", "maximum"))
    whole, step = facts.text(schema, "type") != "number", facts.number(schema, "multipleOf", 0)
    step = step if step > 1e-9 else 1 if whole else 0
    for near in (1, 0, low, low + (step or 1), high, high - (step or 1), (low + high) / 2):
        if math.isnan(near):
            continue
        value = math.ceil(near / step) * step if step else near
        under = value <= low if facts.flag(schema, "exclusiveMinimum") else value < low
        over = value >= high if facts.flag(schema, "exclusiveMaximum") else value > high
        # A comparison with NaN, the limit that is not there, is false.
        if not (under or over):
            return int(value) if whole else value
    return 1


def _names(branch: Any) -> str:
    """Return the fields that a branch requires, separated by commas."""
    names = facts.items(branch, "required") if isinstance(branch, dict) else []
    return ", ".join(name for name in names[:_BRANCHES] if isinstance(name, str))
