"""A CRD's schema as rows that people read, and an example object to copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead.api.meta import JSON


DEEPEST = 8
"""Levels of a schema that are shown."""
MOST = 400
"""Rows of a schema that are shown."""
_DESCRIPTION = 400
_EXAMPLES: JSON = {"string": "", "integer": 0, "number": 0, "boolean": False}


class Field(msgspec.Struct, frozen=True):
    """One field of a schema; ``more`` says that its own fields are not shown."""

    name: str
    depth: int
    type: str
    required: bool = False
    description: str = ""
    default: str = ""
    values: tuple[str, ...] = ()
    more: bool = False


def fields(schema: Any) -> list[Field]:
    """The fields of a schema in the order in which they stand, at most :data:`MOST`."""
    found: list[Field] = []
    for one in _walk(schema, 0):
        if len(found) == MOST:
            break
        found.append(one)
    return found


def _walk(schema: Any, depth: int) -> Iterator[Field]:
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
        yield Field(
            name=str(name),
            depth=depth,
            type=_type(inner),
            required=name in needed,
            description=_text(inner.get("description"))[:_DESCRIPTION],
            default="" if "default" not in inner else _json(inner["default"]),
            values=tuple(map(_json, inner["enum"]))[:20]
            if isinstance(inner.get("enum"), list)
            else (),
            more=deep and isinstance(below, dict) and bool(below.get("properties")),
        )
        if not deep:
            yield from _walk(below, depth + 1)


def _below(schema: JSON) -> Any:
    """The schema whose fields stand below one: of an item, of a map's value, or its own."""
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            return _below(schema[name])
    return schema


def _type(schema: JSON) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = _text(schema.get("type")) or "any"
    if kind == "array" and isinstance(schema.get("items"), dict):
        return f"list of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    form = _text(schema.get("format"))
    return f"{kind} ({form})" if form else kind


def example(schema: Any, *, api_version: str, kind: str, namespaced: bool) -> JSON:
    """An object with the fields that are required, and those that have defaults."""
    metadata: JSON = {"name": "example"}
    if namespaced:
        metadata["namespace"] = "default"
    body: JSON = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    properties = schema.get("properties") if isinstance(schema, dict) else None
    spec = properties.get("spec") if isinstance(properties, dict) else None
    if isinstance(spec, dict):
        body["spec"] = _example(spec, 0)
    return body


def _example(schema: JSON, depth: int) -> Any:
    if "default" in schema:
        return schema["default"]
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    kind = _text(schema.get("type"))
    if kind == "array":
        items = schema.get("items")
        if depth < DEEPEST and isinstance(items, dict) and schema.get("minItems"):
            return [_example(items, depth + 1)]
        return []
    if kind != "object":
        return _EXAMPLES.get(kind, "")
    properties, required = schema.get("properties"), schema.get("required")
    if depth >= DEEPEST or not isinstance(properties, dict):
        return {}
    needed = set(map(str, required)) if isinstance(required, list) else set()
    return {
        str(name): _example(inner, depth + 1)
        for name, inner in properties.items()
        if isinstance(inner, dict) and (name in needed or "default" in inner)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
