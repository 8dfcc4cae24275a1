"""A CRD's schema as rows of a table, and an example object to copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.portal.console.authoring.facts import is_plain


DEEPEST = 8
"""Largest number of shown levels of a schema."""
MOST = 400
"""Largest number of shown rows of a schema."""
VALUES = 1000
"""Largest number of an example's values, defaults included."""
_DESCRIPTION = 400
"""Longest shown description, default or value, in characters."""
_EXAMPLES: JSON = {"string": "", "integer": 0, "number": 0, "boolean": False}


class SchemaField(msgspec.Struct, frozen=True):
    """A field of a schema; ``more`` says that its own fields are not shown."""

    name: str
    depth: int
    type: str
    required: bool = False
    description: str = ""
    default: str = ""
    values: tuple[str, ...] = ()
    more: bool = False


def fields(schema: Any) -> list[SchemaField]:
    """Return the fields of a schema in their order, at most :data:`MOST`."""
    found: list[SchemaField] = []
    for one in _walk(schema, 0):
        if len(found) == MOST:
            break
        found.append(one)
    return found


def _walk(schema: Any, depth: int) -> Iterator[SchemaField]:
    if not isinstance(schema, dict):
        return
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    properties = schema.get("properties")
    for name, inner in (properties if isinstance(properties, dict) else {}).items():
        if not isinstance(inner, dict):
            continue
        below = _below(inner)
        deep = depth + 1 >= DEEPEST
        yield SchemaField(
            name=str(name),
            depth=depth,
            type=_type(inner),
            required=name in needed,
            description=_text(inner.get("description"))[:_DESCRIPTION],
            default="" if "default" not in inner else _json(inner["default"]),
            values=tuple(map(_json, inner["enum"][:20]))
            if isinstance(inner.get("enum"), list)
            else (),
            more=deep and bool(below.get("properties")),
        )
        if not deep:
            yield from _walk(below, depth + 1)


def _below(schema: JSON) -> JSON:
    """Return the schema with the fields of a list's item, of a map's value, or its own."""
    while True:
        inner = next(
            (one for name in _REPEATED if isinstance(one := schema.get(name), dict)), None
        )
        if inner is None:
            return schema
        schema = inner


_REPEATED = ("items", "additionalProperties")


def _type(schema: JSON) -> str:
    told = ""
    for _ in range(DEEPEST):
        kind = _text(schema.get("type")) or "any"
        if schema.get("x-kubernetes-int-or-string"):
            return f"{told}integer or string"
        if kind == "array" and isinstance(schema.get("items"), dict):
            told, schema = f"{told}list of ", schema["items"]
        elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            told, schema = f"{told}map of ", schema["additionalProperties"]
        else:
            form = _text(schema.get("format"))
            return f"{told}{kind} ({form})" if form else told + kind
    return f"{told}…"


def example(schema: Any, *, api_version: str, kind: str, namespaced: bool) -> JSON:
    """Return an example object with the required fields and those with defaults."""
    metadata: JSON = {"name": "example"}
    if namespaced:
        metadata["namespace"] = "default"
    body: JSON = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    spec = properties.get("spec") if isinstance(properties, dict) else None
    if isinstance(spec, dict):
        body["spec"] = _Example().of(spec, 0)
    return body


class _Example:
    """Builds an example with a limited number of values."""

    def __init__(self) -> None:
        self._left = VALUES

    def of(self, schema: JSON, depth: int) -> Any:
        """Return an example value of a schema, an empty one if the limit is reached."""
        self._left -= 1
        if "default" in schema and self._takes(schema["default"]):
            return schema["default"]
        values = schema.get("enum")
        if isinstance(values, list) and values and self._takes(values[0]):
            return values[0]
        kind = _text(schema.get("type"))
        if kind == "array":
            items = schema.get("items")
            if depth < DEEPEST and isinstance(items, dict) and schema.get("minItems"):
                return [self.of(items, depth + 1)]
            return []
        if kind != "object":
            return _EXAMPLES.get(kind, "")
        return self._object(schema, depth)

    def _object(self, schema: JSON, depth: int) -> JSON:
        properties, required = schema.get("properties"), schema.get("required")
        if depth >= DEEPEST or not isinstance(properties, dict):
            return {}
        needed = set(map(str, required)) if isinstance(required, list) else set()
        found: JSON = {}
        for name, inner in properties.items():
            if self._left <= 0:
                break
            if isinstance(inner, dict) and (name in needed or "default" in inner):
                found[str(name)] = self.of(inner, depth + 1)
        return found

    def _takes(self, value: Any) -> bool:
        """Count the parts of a schema's value; return False if it is too large."""
        if not is_plain(value):
            return False
        number, waiting = 0, [value]
        while waiting and number <= self._left:
            one = waiting.pop()
            number += 1
            waiting += (
                one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
            )
        if waiting:
            return False
        self._left -= number
        return True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    told = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return told if len(told) <= _DESCRIPTION else f"{told[:_DESCRIPTION]}…"
