"""The types of CEL values, as a structural schema declares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairlead.api.meta import JSON


class Type(NamedTuple):
    """A CEL type; ``schema`` describes the members of objects, maps and lists."""

    kind: str
    schema: Mapping[str, Any] = {}

    @property
    def items(self) -> Type:
        """The type of a list's items or a map's values."""
        inner = self.schema.get("items" if self.kind == "list" else "additionalProperties")
        return of_schema(inner) if isinstance(inner, dict) else DYN

    def field(self, name: str) -> Type | None:
        """The type of an object's field; None when the schema has none of that name."""
        member = (self.schema.get("properties") or {}).get(name)
        return None if member is None else of_schema(member)


DYN = Type("dyn")
BOOL = Type("bool")
INT = Type("int")
DOUBLE = Type("double")
STRING = Type("string")
NULL = Type("null")

_BY_TYPE = {"integer": INT, "number": DOUBLE, "boolean": BOOL}
_BY_FORMAT = {
    "date-time": "timestamp",
    "date": "timestamp",
    "duration": "duration",
    "byte": "bytes",
}
_STRING: JSON = {"type": "string"}
_METADATA: JSON = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
_ENVELOPE: JSON = {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}


def of_schema(schema: JSON) -> Type:
    """The type that a schema declares; ``dyn`` for what may be anything."""
    if schema.get("x-kubernetes-int-or-string") or not schema.get("type"):
        return DYN
    name = schema["type"]
    if name == "string":
        return Type(_BY_FORMAT.get(schema.get("format", ""), "string"))
    if name == "array":
        return Type("list", schema)
    if name == "object":
        if schema.get("x-kubernetes-embedded-resource"):
            return root_type(schema)
        is_map = schema.get("additionalProperties") and not schema.get("properties")
        return Type("map" if is_map else "object", schema)
    return _BY_TYPE.get(name, DYN)


def root_type(schema: JSON) -> Type:
    """The type of a whole resource: its envelope, and no more metadata than its names."""
    properties = {**(schema.get("properties") or {}), **_ENVELOPE}
    return Type("object", {**schema, "properties": properties})


_ESCAPED = re.compile(r"__(underscores|dot|dash|slash|[a-z]+)__")
_MEANING = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def unescape(name: str) -> str:
    """The property that an identifier means (``a__dot__b`` is ``a.b``)."""
    return _ESCAPED.sub(lambda match: _MEANING.get(match[1], match[1]), name)
