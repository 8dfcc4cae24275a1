"""The example of a kind: YAML with the fields that its schema requires, each with a placeholder.

Patterns and CEL rules become comments, for the API server alone evaluates them: a CRD's pattern
could hang Python's regular expressions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.portal import bounds


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
_VALUE, _COLLECTIONS = 2_000, 50
"""Largest value that is copied from a schema: bytes of JSON, and lists and objects in it."""
Place = tuple[str | int, ...]
"""Path to a value: names of fields and indexes of lists."""
_UNSURE = re.compile(
    r"[-+]?\.?[0-9][0-9a-fA-FxXoObBeE_.:+-]*|~|(?i:y|n|yes|no|on|off|true|false|null)"
)
"""Unquoted texts that YAML 1.1, YAML 1.2 or Go's readers parse as a number, boolean or null."""
_FIXED: Final = {
    (POSTGRESACCESSES.group, POSTGRESACCESSES.kind): """\
spec:
  connection:
    serverRef:
      # A server that the provider offers.
      name: main
  username: example
  # The Secret that will have the login.
  generatedSecret: example-login
  grants:
  # A database of this server.
  - database: example
    privileges:
    - CONNECT
""",
    (SERVICEBINDINGS.group, SERVICEBINDINGS.kind): """\
spec:
  # The Secret with the login, or an object that names one in its status.
  service:
    apiVersion: v1
    kind: Secret
    name: example-login
  # The app that gets it as files.
  workload:
    apiVersion: apps/v1
    kind: Deployment
    name: example
""",
}
"""Specs of Fairlead's own kinds, whose schemas require less than a login or a binding needs."""


def example(schema: Any, *, api_version: str, kind: str, namespaced: bool) -> str:
    """Return an object as YAML, to change and apply.

    ``schema`` is the ``openAPIV3Schema`` of its version, whatever a CRD may hold.
    """
    metadata = {"name": _WORD} | ({"namespace": "default"} if namespaced else {})
    body: JSON = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    fixed = _FIXED.get((api_version.rpartition("/")[0], kind))
    if fixed is not None:
        return _as_yaml(body) + fixed
    draft = _Draft()
    root = _joined(schema if isinstance(schema, dict) else {})
    fields = draft.object(root, (), {"spec"} & _inner(root, "properties").keys())
    if fields.get("spec") == {}:
        names = list(_inner(_inner(_inner(root, "properties"), "spec"), "properties"))
        listed = ", ".join(name[:_COST] for name in names[:_BRANCHES])
        more = ", …" if len(names) > _BRANCHES else ""
        draft.note(
            ("spec",), "No field is required." + (f" There are {listed}{more}" if names else "")
        )
    return _as_yaml({**body, **fields}, draft.comments)


class _Draft:
    """An example in the making, with limited room."""

    def __init__(self) -> None:
        self.comments: dict[Place, list[str]] = {}
        self._room = bounds.EXAMPLE_CHARACTERS

    def note(self, place: Place, comment: str) -> None:
        """Add a comment to a field."""
        notes = self.comments.setdefault(place, [])
        if comment not in notes:
            notes.append(comment)

    def object(self, schema: JSON, place: Place, extra: Collection[str] = ()) -> JSON:
        """Return an object with its required fields and those of ``extra``."""
        properties = _inner(schema, "properties")
        required = {name for name in _items(schema, "required") if isinstance(name, str)}
        required |= set(extra)
        if not place:
            required -= {"apiVersion", "kind", "metadata", "status"}
        body: JSON = {}
        # In the order of the schema; names that it does not explain come last.
        for name in dict.fromkeys([*filter(required.__contains__, properties), *sorted(required)]):
            self._room -= len(name)
            if self._room <= 0 or len(place) >= bounds.EXAMPLE_LEVELS:
                self.note(place, "More fields are required here.")
                break
            body[name] = self._value(_inner(properties, name), (*place, name))
        if schema.get("x-kubernetes-embedded-resource") is True:
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _WORD}}
            return {**head, **body}
        self._explain(schema, place)
        return body

    def _value(self, schema: JSON, place: Place, extra: Collection[str] = ()) -> Any:
        self._room -= _COST
        schema = _joined(schema)
        choices = _items(schema, "enum")
        if len(choices) > 1:
            shown = [str(choice) for choice in choices[:_BRANCHES] if 0 < _size(choice) < 40]
            self.note(place, f"One of {', '.join(shown)}{', …' * (len(shown) < len(choices))}")
        for value in (schema.get("default"), schema.get("example"), *choices[:1]):
            if _suits(schema, value) and _size(value) <= self._room:
                self._room -= _size(value)
                return value
        kind = _text(schema, "type")
        if schema.get("x-kubernetes-int-or-string") is True or kind in {"integer", "number"}:
            value = _near_one(schema)
        elif kind == "boolean":
            value = False
        elif kind == "array":
            value = self._list(schema, place)
        elif kind == "object" or _inner(schema, "properties"):
            others = _inner(schema, "additionalProperties")
            if not others or _inner(schema, "properties") or len(place) >= bounds.EXAMPLE_LEVELS:
                return self.object(schema, place, extra)
            value = {_WORD: self._value(others, (*place, _WORD))}
        elif schema.get("x-kubernetes-preserve-unknown-fields") is True:
            value = {}
        else:
            value = self._text(schema, place)
        self._explain(schema, place)
        return value

    def _list(self, schema: JSON, place: Place) -> list[Any]:
        least = _number(schema, "minItems", 0)
        if least > 1:
            self.note(place, f"At least {least} items.")
        most = min(max(least, 1), _number(schema, "maxItems", _ITEMS), _ITEMS)
        keys = {key for key in _items(schema, "x-kubernetes-list-map-keys") if key == str(key)}
        body: list[Any] = []
        while len(body) < most and self._room > 0 and len(place) < bounds.EXAMPLE_LEVELS:
            body.append(self._value(_inner(schema, "items"), (*place, len(body)), keys))
        return body

    def _text(self, schema: JSON, place: Place) -> str:
        pattern = _text(schema, "pattern")
        if pattern:
            self.note(place, f"It has to match {pattern}")
        least = min(max(int(_number(schema, "minLength", 0)), 0), _LONGEST)
        most = max(least, min(int(_number(schema, "maxLength", _LONGEST)), len(_WORD)))
        self._room -= most
        word = _WORD * (most // len(_WORD) + 1)
        return _FORMATS.get(_text(schema, "format")) or word[:most]

    def _explain(self, schema: JSON, place: Place) -> None:
        """Say what else the API server checks: alternatives, and rules for new objects."""
        for word, lead in (("oneOf", "Exactly one of: "), ("anyOf", "At least one of: ")):
            branches = [_names(branch) for branch in _items(schema, word)[:_BRANCHES]]
            if len(list(filter(None, branches))) > 1:
                self.note(place, lead + "; ".join(filter(None, branches)))
        for rule in _items(schema, "x-kubernetes-validations")[:_BRANCHES]:
            message = _text(rule, "message") if isinstance(rule, dict) else ""
            # A rule with oldSelf is on updates.
            if message and "oldSelf" not in _text(rule, "rule"):
                self.note(place, message)


def _joined(schema: JSON, depth: int = 4) -> JSON:
    """Return a schema with what allOf and the first branches of oneOf and anyOf add to it."""
    for word, most in (("allOf", _BRANCHES), ("oneOf", 1), ("anyOf", 1)):
        for branch in _items(schema, word)[:most] if depth else ():
            if not isinstance(branch, dict):
                continue
            more = _joined(branch, depth - 1)
            properties = dict(_inner(schema, "properties"))
            for name, other in _inner(more, "properties").items():
                own = _inner(properties, name)
                # Joined when the field is reached, for it may be deep.
                properties[name] = {**own, "allOf": [*_items(own, "allOf"), other]}
            required = [*_items(schema, "required"), *_items(more, "required")]
            schema = {**more, **schema, "properties": properties, "required": required}
    return schema


def _suits(schema: JSON, value: Any) -> bool:
    """Whether a value of the schema says more than a placeholder, and is of its type."""
    if value is None or value in ({}, []) or not _size(value):
        return False
    kind, choices = _text(schema, "type"), _items(schema, "enum")
    # In Python True is an int, in JSON it is not.
    fits = isinstance(value, _TYPES.get(kind, object)) and (
        kind in {"boolean", ""} or not isinstance(value, bool)
    )
    return fits and (not choices or value in choices)


def _near_one(schema: JSON) -> float:
    """Return a number near 1 within the schema's limits; 1 if none is."""
    low, high = (_number(schema, word, math.nan) for word in ("minimum", "maximum"))
    whole, step = _text(schema, "type") != "number", _number(schema, "multipleOf", 0)
    step = step if step > 1e-9 else 1 if whole else 0
    for near in (1, 0, low, low + (step or 1), high, high - (step or 1), (low + high) / 2):
        if math.isnan(near):
            continue
        value = math.ceil(near / step) * step if step else near
        under = value <= low if schema.get("exclusiveMinimum") is True else value < low
        over = value >= high if schema.get("exclusiveMaximum") is True else value > high
        # A comparison with NaN, the limit that is not there, is false.
        if not (under or over):
            return int(value) if whole else value
    return 1


def _names(branch: Any) -> str:
    """Return the fields that a branch requires, separated by commas."""
    names = _items(branch, "required") if isinstance(branch, dict) else []
    return ", ".join(name for name in names[:_BRANCHES] if isinstance(name, str))


# What a CRD holds may be of any type: a keyword of a wrong type is missing.


def _text(schema: JSON, name: str) -> str:
    return value if isinstance(value := schema.get(name), str) else ""


def _items(schema: JSON, name: str) -> list[Any]:
    return value if isinstance(value := schema.get(name), list) else []


def _inner(schema: JSON, name: str) -> JSON:
    return value if isinstance(value := schema.get(name), dict) else {}


def _number(schema: JSON, name: str, missing: float) -> float:
    """Return the number of the keyword ``name``, ``missing`` if it has none of 64 bits."""
    value = schema.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**64:
        return missing
    return value


def _size(value: Any) -> int:
    """Return the size of a value as JSON, in bytes; 0 if it is too large or too deep to copy."""
    try:
        text = msgspec.json.encode(value)
    except (RecursionError, OverflowError, ValueError):
        return 0
    collections = text.count(b"[") + text.count(b"{")
    return len(text) if len(text) <= _VALUE and collections <= _COLLECTIONS else 0


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes no aliases, quotes ambiguous texts, and writes multi-line texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _scalar(dumper: Any, value: str) -> Any:
    style = "'" if _UNSURE.fullmatch(value) else "|" if "\n" in value.strip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _scalar)


def _as_yaml(value: Any, comments: Mapping[Place, Sequence[str]] | None = None) -> str:
    """Return a value as a YAML document, with comments above the fields that they are on."""
    # A width without limit: folded text is hard to edit.
    written: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    written = written.removesuffix("...\n")
    if not comments:
        return written
    above: dict[int, list[str]] = {}
    root = yaml.compose(written, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for place, number in _places(root, (), 0):
        above.setdefault(number, []).extend(comments.get(place, ()))
    lines = written.split("\n")
    for number in sorted(above, reverse=True):
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip(" "))]
        lines[number:number] = [f"{indent}# {_line(comment)}" for comment in above[number]]
    return "\n".join(lines)


def _places(node: Any, place: Place, number: int) -> Iterator[tuple[Place, int]]:
    """Yield the path of each value with the number of the line on which it begins."""
    yield place, number
    if isinstance(node, yaml.MappingNode):
        for key, below in node.value:
            yield from _places(below, (*place, key.value), key.start_mark.line)
    elif isinstance(node, yaml.SequenceNode):
        for index, below in enumerate(node.value):
            yield from _places(below, (*place, index), below.start_mark.line)


def _line(comment: str) -> str:
    """Return a comment as one line: a break in a CRD's text would make a field of the rest."""
    words = " ".join(comment[: 4 * bounds.COMMENT_CHARACTERS].split())
    plain = "".join(letter for letter in words if letter.isprintable())
    return (
        plain
        if len(plain) <= bounds.COMMENT_CHARACTERS
        else f"{plain[: bounds.COMMENT_CHARACTERS - 1]}…"
    )
