"""A CRD's schema as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead.api.meta import JSON


DEEPEST = 8
"""Largest number of shown levels of a schema."""
MOST = 400
"""Largest number of shown rows of a schema."""
_DESCRIPTION = 400
"""Longest shown description, default or value, in characters."""


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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    told = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return told if len(told) <= _DESCRIPTION else f"{told[:_DESCRIPTION]}…"
