"""Declarations from a structural schema: types and sizes of values, and conversion from JSON.

Sources in the CRD documentation: "Validation rules" for the types and names of properties,
"Resource use by validation functions" for the largest size of a value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.cel.syntax import RESERVED
from fairlead_sandbox.schema.cel.times import (
    Timestamp,
    parse_date,
    parse_format_duration,
    parse_timestamp,
)
from fairlead_sandbox.schema.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from fairlead_sandbox.schema.cel.values import MapList, SetList


MAX_REQUEST = 3 * 1024 * 1024
"""Size of the largest request, in bytes: Kubernetes' bound for values without a limit."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The type and the size that a schema declares for the values at one path.

    ``most`` is the largest number of elements (characters, items, entries) of a value, ``least``
    the bytes of its shortest JSON text. ``members`` are an object's fields by their names in
    JSON, ``fields`` by the identifiers that rules use.
    """

    type: Type
    schema: JSON
    most: int = 0
    least: int = 2
    items: Declaration | None = None
    members: Mapping[str, Declaration] = field(default_factory=dict)
    fields: Mapping[str, Declaration] = field(default_factory=dict)

    def at(self, path: Iterable[str]) -> Declaration | None:
        """Return the declaration at a path of fields, ``@items``, ``@values`` and ``@keys``."""
        here: Declaration | None = self
        for step in path:
            if here is None:
                return None
            if step == "@keys":
                here = _KEYS if here.type.kind == "map" else None
            elif step in {"@items", "@values"}:
                here = here.items
            else:
                here = None if step in _RESERVED else here.fields.get(step)
        return here


_KEYS = Declaration(STRING, {"type": "string"})
_STRING: JSON = {"type": "string"}
_METADATA: JSON = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
_ENVELOPE: JSON = {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}
_PLAIN = {
    "boolean": (BOOL, 4),
    "number": (DOUBLE, 1),
    "integer": (INT, 1),
}
"""CEL type and shortest JSON text in bytes, by the schema's type."""
# The numbers of k8s.io/apiserver (pkg/cel/limits.go).
_BY_FORMAT = {
    "date-time": (TIMESTAMP, 32, 21),
    "date": (TIMESTAMP, 12, 12),
    "duration": (DURATION, 32, 3),
}
"""CEL type, most characters and shortest JSON text in bytes, by the format of a string."""


def declare(schema: JSON, *, root: bool = False, name: str = "object") -> Declaration | None:
    """Return the declaration of a schema; None for a schema without type, which rules cannot see.

    Args:
        schema: a structural schema.
        root: whether it describes a whole resource, whose apiVersion, kind and metadata rules see.
        name: the name of its type in error messages.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return Declaration(DYN, schema, _longest(schema), 1)
    if root:
        schema = {**schema, "type": "object", "properties": _with_envelope(schema)}
    kind = schema.get("type")
    if kind in _PLAIN:
        type_, least = _PLAIN[kind]
        return Declaration(type_, schema, 0, least)
    if kind == "string":
        return _declare_string(schema)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return _declare_list(schema, name)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return _declare_map(schema, name)
    return _declare_object(schema, name) if kind == "object" else None


def _with_envelope(schema: JSON) -> JSON:
    properties: JSON = schema.get("properties") or {}
    names = (properties.get("metadata") or {}).get("properties") or {}
    # As WithTypeAndObjectMeta of apiextensions-apiserver: unless the schema has all of these
    # fields with a type, Kubernetes' own replace them.
    typed = all(properties.get(name, {}).get("type") for name in _ENVELOPE)
    complete = typed and "name" in names and "generateName" in names
    return properties if complete else {**properties, **_ENVELOPE}


def _declare_string(schema: JSON) -> Declaration:
    format_ = schema.get("format")
    if format_ in _BY_FORMAT:
        type_, most, least = _BY_FORMAT[format_]
        return Declaration(type_, schema, most, least)
    if format_ == "byte":
        most = schema.get("maxLength", MAX_REQUEST - 2)
        return Declaration(BYTES, schema, max(most, 0))
    if "maxLength" not in schema and schema.get("enum"):
        texts = [value.encode() for value in schema["enum"] if isinstance(value, str)]
        return Declaration(STRING, schema, max(map(len, texts), default=0))
    return Declaration(STRING, schema, _longest(schema))


def _longest(schema: JSON) -> int:
    """Return the most bytes of a text; UTF-8 takes up to four for each character."""
    return max(schema["maxLength"], 0) * 4 if "maxLength" in schema else MAX_REQUEST - 2


def _inner(schema: JSON, name: str) -> Declaration | None:
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    return declare(schema, root=embedded, name=name)


def _declare_list(schema: JSON, name: str) -> Declaration | None:
    items = _inner(schema["items"], f"{name}.@idx")
    if items is None:
        return None
    # Without a limit, as many items as fit between two brackets, each with a comma.
    most = schema.get("maxItems", (MAX_REQUEST - 2) // (items.least + 1))
    return Declaration(list_of(items.type), schema, max(most, 0), 2, items)


def _declare_map(schema: JSON, name: str) -> Declaration | None:
    values = _inner(schema["additionalProperties"], f"{name}.@elem")
    if values is None:
        return None
    # An entry takes six bytes besides its value: a key of two characters, quotes, colon and comma.
    most = schema.get("maxProperties", (MAX_REQUEST - 2) // (values.least + 6))
    return Declaration(map_of(STRING, values.type), schema, max(most, 0), 2, values)


def _declare_object(schema: JSON, name: str) -> Declaration:
    required = set(schema.get("required") or ())
    least = 2
    fields: dict[str, Declaration] = {}
    members: dict[str, Declaration] = {}
    for key, member in (schema.get("properties") or {}).items():
        identifier = escape(key)
        declared = _inner(member, f"{name}.{identifier or key}")
        if declared is None:
            continue
        members[key] = declared
        if identifier is not None:
            fields[identifier] = declared
        if key in _RESERVED:
            fields[key] = declared
        if key in required and member.get("default") is None:
            # Four bytes for the quotes, the colon and the comma.
            least += len(key.encode()) + declared.least + 4
    types = {identifier: declared.type for identifier, declared in fields.items()}
    type_ = Type("object", name=name, fields=types)
    return Declaration(type_, schema, 0, least, None, members, fields)


_RESERVED = RESERVED | {"true", "false", "null", "in"}
"""Names that rules must escape."""
_PLAIN_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*", re.ASCII)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[./-]")


@cache
def escape(name: str) -> str | None:
    """Return the identifier of a property (``a.b`` is ``a__dot__b``); None if it can have none.

    Source: "Accessing fields" in the CRD documentation.
    """
    if name in _RESERVED:
        return f"__{name}__"
    if _PLAIN_NAME.fullmatch(name) is None:
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


_ESCAPED_PART = re.compile(r"__(underscores|dot|dash|slash)__|^__([a-z]+)__$")
_MEANING = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


@cache
def unescape(name: str) -> str:
    """Return the property that an identifier names (``a__dot__b`` is ``a.b``)."""
    return _ESCAPED_PART.sub(lambda match: _MEANING.get(match[1], match[2] or ""), name)


Convert = Callable[[Any], Any]
"""Converts JSON to a value of CEL."""


def converter(declared: Declaration) -> Convert | None:
    """Return the function from declared JSON to CEL values; None if JSON needs no change."""
    kind = declared.type.kind
    if kind in _SCALARS:
        return _unless_null(_SCALARS[kind])
    if kind == "timestamp":
        is_date = declared.schema.get("format") == "date"
        return _unless_null(_parser(parse_date if is_date else _date_time))
    inner = converter(declared.items) if declared.items is not None else None
    if kind == "list":
        return _list_converter(declared, inner)
    if kind == "map":
        return _map_converter(inner)
    return _object_converter(declared) if kind == "object" else None


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _parser(parse: Callable[[str], Any]) -> Convert:
    """Return a converter that keeps a text it cannot parse; the schema's format refuses it."""

    def convert(text: Any) -> Any:
        try:
            return parse(text)
        except (ValueError, TypeError, OverflowError):
            return text

    return convert


def _date_time(text: str) -> Timestamp:
    return parse_timestamp(text, strict=False)


_SCALARS: Mapping[str, Convert] = {
    "double": float,
    "bytes": _parser(lambda text: base64.b64decode(text, validate=True)),
    "duration": _parser(parse_format_duration),
}


def _list_converter(declared: Declaration, inner: Convert | None) -> Convert | None:
    kind = declared.schema.get("x-kubernetes-list-type")
    keys = tuple(declared.schema.get("x-kubernetes-list-map-keys") or ())
    if inner is None and kind not in {"set", "map"}:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not list:
            return value
        items = value if inner is None else [inner(item) for item in value]
        if kind == "set":
            return SetList(items)
        return MapList(items, keys) if kind == "map" else items

    return convert


def _map_converter(inner: Convert | None) -> Convert | None:
    if inner is None:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {key: inner(item) for key, item in value.items()}

    return convert


def _object_converter(declared: Declaration) -> Convert | None:
    converters = {
        name: make
        for name, member in declared.members.items()
        if (make := converter(member)) is not None
    }
    if not converters:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        changed = {name: make(value[name]) for name, make in converters.items() if name in value}
        return {**value, **changed}

    return convert
