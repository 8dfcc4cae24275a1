"""CustomResourceDefinitions made from msgspec types, the one source of their schemas.

A type is a Struct with ``spec`` and ``status`` fields (either may be missing). Each field's
description, pattern and bounds come from ``msgspec.Meta``. Keys beyond JSON Schema stand in
``Meta(extra_json_schema=...)``: every ``x-kubernetes-*`` key, and ``x-default`` for a default that
the API server writes into stored objects. Defaults of the Python types do not reach the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource


# A structural schema has no titles and no references. A Python default must not become a default
# of the API server: it would be written into every stored object.
_DROPPED = {"title", "default", "$defs"}


class PrinterColumn(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A column of ``kubectl get``; columns with a priority above 0 show with ``-o wide``."""

    name: str
    json_path: str = msgspec.field(name="jsonPath")
    type: str = "string"
    description: str = ""
    priority: int = 0
    format: str = ""


AGE = PrinterColumn("Age", ".metadata.creationTimestamp", type="date")


class Version(msgspec.Struct, frozen=True):
    """One version of a CRD: its name, its Python type, and whether it is served and stored."""

    name: str
    type: type
    storage: bool = True
    served: bool = True
    columns: Sequence[PrinterColumn] = (AGE,)
    status: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    schema_extra: Mapping[str, Any] = {}
    """Keys for the root of the schema, such as x-kubernetes-validations."""


def build_crd(
    resource: Resource,
    versions: Sequence[Version],
    *,
    singular: str = "",
    list_kind: str = "",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> JSON:
    """Return the CustomResourceDefinition of a resource, ready to be created."""
    metadata: JSON = {"name": f"{resource.plural}.{resource.group}"}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    names: JSON = {
        "plural": resource.plural,
        "singular": singular or resource.kind.lower(),
        "kind": resource.kind,
        "listKind": list_kind or f"{resource.kind}List",
    }
    if short_names:
        names["shortNames"] = list(short_names)
    if categories:
        names["categories"] = list(categories)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(version) for version in versions],
        },
    }


def _version(version: Version) -> JSON:
    result: JSON = {
        "name": version.name,
        "served": version.served,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": object_schema(version.type) | dict(version.schema_extra)},
    }
    if version.status:
        result["subresources"] = {"status": {}}
    if version.columns:
        # Servers require a column's type, and omit_defaults leaves it out where it is "string".
        result["additionalPrinterColumns"] = [
            {"type": column.type} | msgspec.to_builtins(column) for column in version.columns
        ]
    if version.deprecated:
        result["deprecated"] = True
        if version.deprecation_warning:
            result["deprecationWarning"] = version.deprecation_warning
    return result


def object_schema(type_: type) -> JSON:
    """Return the structural schema of a custom resource's type, with the common root fields."""
    schema = structural_schema(type_)
    described = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        # Nothing more: servers fill the schema of metadata in themselves, and refuse most of it.
        "metadata": {"type": "object"},
    }
    properties = described | {
        name: value
        for name, value in schema.get("properties", {}).items()
        if name not in described
    }
    required = [name for name in schema.get("required", []) if name not in described]
    result: JSON = {"type": "object"}
    if schema.get("description"):
        result["description"] = schema["description"]
    result["properties"] = properties
    if required:
        result["required"] = required
    return result


def structural_schema(type_: Any) -> JSON:
    """Return the structural schema of a type: references inlined, defaults and titles left out.

    Raises:
        TypeError: the type refers to itself, or is one that no structural schema can describe.
    """
    # Decoded anew at each call, since callers change the schema that they get.
    schema: JSON = msgspec.json.decode(_encoded_schema(type_))
    return schema


@cache
def _encoded_schema(type_: Any) -> bytes:
    """Encode the schema of a type, once per type: the translation takes milliseconds."""
    (schema,), components = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    return msgspec.json.encode(_transform(schema, components, ()))


def _transform(schema: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> JSON:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in path:
            raise TypeError(f"{name} contains itself: structural schemas cannot")
        target = _transform(defs[name], defs, (*path, name))
        # The field's own description and keys win over those of its type.
        return target | _annotations(schema)
    if "anyOf" in schema:
        return _any_of(schema, defs, path)
    result = _annotations(schema)
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _transform(item, defs, path) for name, item in value.items()}
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            if value:
                result[key] = _transform(value, defs, path)
            else:
                # {} is any value, and a structural schema would prune all fields of one.
                result[key] = {"x-kubernetes-preserve-unknown-fields": True}
        # Servers drop an empty list, so that the CRD would differ from its stored self.
        elif key == "required" and not value:
            continue
        elif key not in _DROPPED and key not in {"x-default", "description"}:
            result[key] = value
    # msgspec gives a Literal no type, and every node of a structural schema has one.
    if "type" not in result and result.get("enum"):
        result["type"] = "string"
    if result.get("type") == "array" and "items" not in result:
        result["items"] = {"x-kubernetes-preserve-unknown-fields": True}
    _open_objects(result)
    if result.get("properties") == {}:
        # Servers store none, so that a CRD that has it would differ from its stored self for ever.
        del result["properties"]
    return result


def _open_objects(schema: JSON) -> None:
    """Let objects without properties, and values of any type, keep all their fields.

    API servers prune fields that a structural schema does not describe.
    """
    described = {"properties", "additionalProperties", "x-kubernetes-int-or-string"}
    if schema.get("type") in {"object", None} and not described & schema.keys():
        if "type" not in schema and "enum" in schema:
            return
        schema["x-kubernetes-preserve-unknown-fields"] = True
    # A structural schema cannot forbid other fields: servers prune them instead.
    schema.pop("additionalProperties", None) if schema.get(
        "additionalProperties"
    ) is False else None


def _any_of(schema: Mapping[str, Any], defs: Mapping[str, Any], path: tuple[str, ...]) -> JSON:
    """Translate a union: ``T | None`` is an optional T; ``int | str`` is an int-or-string."""
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    if len(options) == 1:
        return _transform(options[0], defs, path) | _annotations(schema)
    # Structural schemas have a key of their own for this union, and for no other.
    kinds = {option.get("type") for option in options}
    if kinds == {"integer", "string"}:
        return {"x-kubernetes-int-or-string": True} | _annotations(schema)
    raise TypeError(f"no structural schema for a choice of {sorted(map(str, kinds))}")


def _annotations(schema: Mapping[str, Any]) -> JSON:
    result: JSON = {}
    if "description" in schema:
        # Docstrings are wrapped for Python, and kubectl explain wraps by itself.
        result["description"] = " ".join(schema["description"].split())
    if "x-default" in schema:
        result["default"] = schema["x-default"]
    # In all other nodes _transform copies these keys itself.
    if "anyOf" in schema or "$ref" in schema:
        result |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    return result
