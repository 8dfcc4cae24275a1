"""Schemas inside allOf, anyOf, oneOf and not: they restrict values, never describe structure."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead.api.meta import JSON
from fairlead.sandbox.schema.errors import FieldError, forbidden


_EMPTY = {
    "default": "undefined",
    "description": "empty",
    "nullable": "false",
    "title": "empty",
    "type": "empty",
    "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-preserve-unknown-fields": "false",
    "x-kubernetes-validations": "empty",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def check_junctors(schema: JSON, path: str, errors: list[FieldError]) -> None:
    """Report structure inside the junctors of a schema, but for the int-or-string idiom."""
    for inner, at in _nested(schema, path):
        if schema.get("x-kubernetes-int-or-string") and _is_idiom(schema, inner, at):
            continue
        _check_value_schema(inner, at, errors)


def _is_idiom(schema: JSON, inner: JSON, at: str) -> bool:
    """``anyOf: [integer, string]`` beside int-or-string, or as the first of its allOf."""
    if schema.get("anyOf") == _INT_OR_STRING and ".anyOf[" in at:
        return True
    return at.endswith(".allOf[0]") and inner.get("anyOf") == _INT_OR_STRING and len(inner) == 1


def _nested(schema: JSON, path: str) -> Iterator[tuple[JSON, str]]:
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield inner, f"{path}.{name}[{index}]"
    if isinstance(schema.get("not"), dict):
        yield schema["not"], f"{path}.not"


def _check_value_schema(schema: JSON, path: str, errors: list[FieldError]) -> None:
    if schema.get("additionalProperties") is not None:
        detail = "must be undefined to be structural"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    for inner, at in _nested(schema, path):
        _check_value_schema(inner, at, errors)
    if isinstance(schema.get("items"), dict):
        _check_value_schema(schema["items"], f"{path}.items", errors)
    for name, member in (schema.get("properties") or {}).items():
        _check_value_schema(member, f"{path}.properties[{name}]", errors)
    for name, wanted in _EMPTY.items():
        given = name in schema if name == "default" else schema.get(name)
        if given:
            errors.append(forbidden(f"{path}.{name}", f"must be {wanted} to be structural"))
