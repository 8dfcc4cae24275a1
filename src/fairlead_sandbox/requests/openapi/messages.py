"""The message types of built-in kinds as OpenAPI components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fairlead.api.meta import JSON
from fairlead_sandbox.kinds import Field, FieldType, Message, load
from fairlead_sandbox.requests.openapi.texts import describe


OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GO_META = "ObjectMeta"
_SCHEMAS: Mapping[str, JSON] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "items": {"type": "array", "items": {"type": "string"}},
}
"""Schemas of the scalar types."""


def reference(name: str) -> JSON:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def message_components(messages: Iterable[Message]) -> JSON:
    """Return the schemas of all types that these messages contain, without the messages' own."""
    names = {name: None for message in messages for name in _inner(message)}
    waiting = list(names)
    while waiting:
        inner = [name for name in _inner(load().messages[waiting.pop()]) if name not in names]
        names |= dict.fromkeys(inner)
        waiting += inner
    return {_component(name): message_schema(load().messages[name]) for name in sorted(names)}


def _inner(message: Message) -> Iterator[str]:
    for field in message.fields.values():
        if field.type.name in load().messages and field.type.name != _GO_META:
            yield field.type.name


def message_schema(message: Message) -> JSON:
    """Return the schema of one message type."""
    schema: JSON = {
        "type": "object",
        "properties": {
            name: _property(message, field) for name, field in sorted(message.fields.items())
        },
    }
    required = sorted(name for name, field in message.fields.items() if field.required)
    return schema | {"required": required} if required else schema


def _property(message: Message, field: Field) -> JSON:
    text = describe(message.name, field.name)
    schema = _schema(field.type)
    return {**schema, "description": text} if text else schema


def _schema(type_: FieldType) -> JSON:
    if type_.shape == "list":
        return {"type": "array", "items": _value(type_.name)}
    if type_.shape == "map":
        return {"type": "object", "additionalProperties": _value(type_.name)}
    return _value(type_.name)


def _value(name: str) -> JSON:
    if name not in load().messages:
        return dict(_SCHEMAS.get(name, {}))
    # OpenAPI 3.0 ignores members beside $ref, and there is a default; hence allOf with one
    # reference, as in Kubernetes' documents.
    component = OBJECT_META if name == _GO_META else _component(name)
    return {"allOf": [reference(component)], "default": {}}


def _component(name: str) -> str:
    return f"io.k8s.api.{name}"
