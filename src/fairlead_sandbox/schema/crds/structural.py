"""Validation that an ``openAPIV3Schema`` is structural, as apiextensions.k8s.io/v1 requires.

Source: "Specifying a structural schema" in the CRD documentation; messages of kube-apiserver
1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.crds.lists import check_list_keywords
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import forbidden, invalid, not_supported, required
from fairlead_sandbox.schema.patterns import compile_pattern


TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = (
    "$ref",
    "$schema",
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
)
"""Keywords of JSON Schema that CRDs may not use."""
_EMPTY_TYPE = {
    "root": "at the root",
    "field": "for specified object fields",
    "items": "for specified array items",
}

_Part = Callable[[JSON, str, Report], None]


def check_structural(schema: JSON, path: str, errors: Report) -> bool:
    """Append errors to the report; return True if the schema is structural."""
    before = len(errors)
    _check(schema, path, "root", errors)
    _check_root(schema, path, errors)
    return len(errors) == before


def _check(schema: Any, path: str, where: str, errors: Report) -> None:
    if not isinstance(schema, dict):
        errors.append(invalid(path, schema, "must be a schema object"))
        return
    for part in _PARTS:
        part(schema, path, errors)
    _check_type(schema, path, where, errors)
    _check_junctors(schema, path, errors)
    for name, member in (schema.get("properties") or {}).items():
        _check(member, f"{path}.properties[{name}]", "field", errors)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        _check(additional, f"{path}.additionalProperties", "field", errors)
    if isinstance(schema.get("items"), dict):
        _check(schema["items"], f"{path}.items", "items", errors)


def _check_type(schema: JSON, path: str, where: str, errors: Report) -> None:
    type_ = schema.get("type")
    free = schema.get("x-kubernetes-int-or-string") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if not type_:
        # int-or-string and preserve-unknown-fields may omit the type, except at the root.
        if where == "root" or not free:
            detail = f"must not be empty {_EMPTY_TYPE[where]}"
            errors.append(required(f"{path}.type", detail))
    elif type_ not in TYPES:
        errors.append(not_supported(f"{path}.type", type_, TYPES))
        if type_ == "null":
            detail = "type cannot be set to null, use nullable as an alternative"
            errors.append(forbidden(f"{path}.type", detail))
    elif where == "root" and type_ != "object":
        errors.append(invalid(f"{path}.type", type_, "must be object at the root"))


def _check_keywords(schema: JSON, path: str, errors: Report) -> None:
    unsupported = [name for name in _UNSUPPORTED if schema.get(name)]
    errors.extend(forbidden(f"{path}.{name}", f"{name} is not supported") for name in unsupported)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", detail))
    _check_pattern(schema, path, errors)


def _check_pattern(schema: JSON, path: str, errors: Report) -> None:
    pattern = schema.get("pattern")
    if not pattern:
        return
    if not isinstance(pattern, str):
        errors.append(invalid(f"{path}.pattern", pattern, "must be a string"))
        return
    try:
        compile_pattern(pattern, errors.effort)
    except ValueError as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        errors.append(invalid(f"{path}.pattern", pattern, detail))


def _check_object(schema: JSON, path: str, errors: Report) -> None:
    additional = schema.get("additionalProperties")
    # In JSON Schema true is the default, so beside properties it says nothing.
    if additional is not None and additional is not True and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    items = schema.get("items")
    if isinstance(items, list):
        detail = "items must be a schema object and not an array"
        errors.append(forbidden(f"{path}.items", detail))
    elif schema.get("type") == "array" and items is None:
        errors.append(required(f"{path}.items", "must be specified"))


def _check_extensions(schema: JSON, path: str, errors: Report) -> None:
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        name = f"{path}.x-kubernetes-preserve-unknown-fields"
        errors.append(invalid(name, False, "must be true or undefined"))
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                detail = "must be false if x-kubernetes-int-or-string is true"
                errors.append(invalid(f"{path}.{name}", True, detail))
    if schema.get("x-kubernetes-embedded-resource"):
        _check_embedded(schema, path, errors)


def _check_embedded(schema: JSON, path: str, errors: Report) -> None:
    if schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    described = schema.get("properties") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not described:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{path}.properties", detail))
    if schema.get("type") != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(invalid(f"{path}.type", schema.get("type", ""), detail))


def _check_root(schema: JSON, path: str, errors: Report) -> None:
    properties = schema.get("properties") or {}
    for name in ("apiVersion", "kind"):
        if name in properties and properties[name].get("type") not in {"string", None}:
            field = f"{path}.properties[{name}].type"
            errors.append(invalid(field, properties[name]["type"], "must be string"))
    metadata = properties.get("metadata")
    if not isinstance(metadata, dict):
        return
    field = f"{path}.properties[metadata]"
    if metadata.get("type") not in {"object", None}:
        errors.append(invalid(f"{field}.type", metadata["type"], "must be object"))
        return
    named = set(metadata.get("properties") or ()) <= {"name", "generateName"}
    if not named or metadata.keys() - {"type", "properties", "description"}:
        detail = (
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified"
        )
        errors.append(forbidden(field, detail))


_EMPTY_IN_JUNCTORS = {
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
"""Keywords that allOf, anyOf, oneOf and not may not contain, with the word in the message."""
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def _check_junctors(schema: JSON, path: str, errors: Report) -> None:
    """Report structure inside allOf, anyOf, oneOf and not, which may only restrict values."""
    for inner, at in _nested(schema, path):
        if schema.get("x-kubernetes-int-or-string") and _is_idiom(schema, inner, at):
            continue
        _check_value_schema(inner, at, errors)


def _is_idiom(schema: JSON, inner: JSON, at: str) -> bool:
    """Whether ``inner`` belongs to the usual anyOf of integer and string for int-or-string."""
    if schema.get("anyOf") == _INT_OR_STRING and ".anyOf[" in at:
        return True
    return at.endswith(".allOf[0]") and inner.get("anyOf") == _INT_OR_STRING and len(inner) == 1


def _nested(schema: JSON, path: str) -> Iterator[tuple[JSON, str]]:
    for name in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(name) or ()):
            yield inner, f"{path}.{name}[{index}]"
    if isinstance(schema.get("not"), dict):
        yield schema["not"], f"{path}.not"


def _check_value_schema(schema: JSON, path: str, errors: Report) -> None:
    if schema.get("additionalProperties") is not None:
        detail = "must be undefined to be structural"
        errors.append(forbidden(f"{path}.additionalProperties", detail))
    _check_pattern(schema, path, errors)
    for inner, at in _nested(schema, path):
        _check_value_schema(inner, at, errors)
    if isinstance(schema.get("items"), dict):
        _check_value_schema(schema["items"], f"{path}.items", errors)
    for name, member in (schema.get("properties") or {}).items():
        _check_value_schema(member, f"{path}.properties[{name}]", errors)
    for name, expected in _EMPTY_IN_JUNCTORS.items():
        # A default of null is a default too.
        given = name in schema if name == "default" else schema.get(name)
        if given:
            errors.append(forbidden(f"{path}.{name}", f"must be {expected} to be structural"))


_PARTS: tuple[_Part, ...] = (
    _check_keywords,
    _check_object,
    _check_extensions,
    check_list_keywords,
)
