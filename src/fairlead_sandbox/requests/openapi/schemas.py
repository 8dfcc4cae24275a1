"""The schemas of served kinds as OpenAPI components."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.requests.openapi.messages import (
    OBJECT_META,
    message_components,
    message_schema,
    reference,
)
from fairlead_sandbox.resources.types import ResourceType


_OWNER = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"
_VERSION_TEXT = "The API group and version that the object is written in."
_KIND_TEXT = "The kind of the object."


def component_name(type_: ResourceType) -> str:
    """Return the name of a kind's schema: its group reversed, version and kind."""
    resource = type_.resource
    group = resource.group or "core.api.k8s.io"
    return ".".join([*reversed(group.split(".")), resource.version, resource.kind])


def components(types: list[ResourceType]) -> JSON:
    """Return the schemas of these kinds and of the types that they refer to."""
    result: JSON = {OBJECT_META: _object_meta(), _OWNER: _owner_reference()}
    for type_ in types:
        result[component_name(type_)] = _kind_schema(type_)
    messages = [type_.message for type_ in types if type_.message is not None]
    return result | message_components(messages)


def _kind_schema(type_: ResourceType) -> JSON:
    resource = type_.resource
    schema = dict(type_.strategy.openapi or _builtin(type_))
    properties: JSON = dict(schema.get("properties") or {})
    described = _envelope()
    # Of the metadata in a CRD's schema only the description is kept: its fields are those of
    # ObjectMeta, whatever the schema says.
    metadata = properties.pop("metadata", None)
    schema["properties"] = described | properties
    if isinstance(metadata, dict) and metadata.get("description"):
        schema["properties"]["metadata"]["description"] = metadata["description"]
    schema["x-kubernetes-group-version-kind"] = [
        {"group": resource.group, "version": resource.version, "kind": resource.kind}
    ]
    if type_.custom and type_.strategy.selectable_fields:
        schema["x-kubernetes-selectable-fields"] = [
            {"fieldPath": path} for path in type_.strategy.selectable_fields
        ]
    return schema


def _envelope() -> JSON:
    return {
        "apiVersion": {"type": "string", "description": _VERSION_TEXT},
        "kind": {"type": "string", "description": _KIND_TEXT},
        "metadata": {
            "description": "Name, namespace, labels and the rest of an object's metadata.",
            "allOf": [reference(OBJECT_META)],
            "default": {},
        },
    }


def _builtin(type_: ResourceType) -> JSON:
    schema = message_schema(type_.message) if type_.message else {"type": "object"}
    text = f"{type_.resource.kind} is a built-in kind of this server."
    return {**schema, "description": text}


def _text(description: str, **more: Any) -> JSON:
    return {"type": "string", "description": description, **more}


def _texts(description: str) -> JSON:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": {"type": "string", "default": ""},
    }


def _object_meta() -> JSON:
    return {
        "type": "object",
        "description": "ObjectMeta is the metadata of an object.",
        "properties": {
            "annotations": _texts("Notes for tools; not used to select objects."),
            "creationTimestamp": _text(
                "Time at which the server created the object.", format="date-time"
            ),
            "deletionGracePeriodSeconds": {
                "type": "integer",
                "format": "int64",
                "description": "Seconds that a deleted object has to terminate.",
            },
            "deletionTimestamp": _text(
                "Time of the request to delete the object.", format="date-time"
            ),
            "finalizers": {
                "type": "array",
                "description": "Names of controllers that must act before a deletion is complete.",
                "items": {"type": "string", "default": ""},
                "x-kubernetes-list-type": "set",
            },
            "generateName": _text("Prefix of a name that the server generates."),
            "generation": {
                "type": "integer",
                "format": "int64",
                "description": "Number of changes of the desired state.",
            },
            "labels": _texts("Keys and values to select objects by."),
            "managedFields": {
                "type": "array",
                "description": "Owners of the fields.",
                "items": {"type": "object"},
            },
            "name": _text("The object's name, unique in its namespace."),
            "namespace": _text("The namespace that the object lives in."),
            "ownerReferences": {
                "type": "array",
                "description": "Owners; the object is deleted once none of them exists.",
                "items": {"allOf": [reference(_OWNER)], "default": {}},
            },
            "resourceVersion": _text("The version of the object; changes with every write."),
            "selfLink": _text("No longer used."),
            "uid": _text("Identifier that no other object ever has."),
        },
    }


def _owner_reference() -> JSON:
    return {
        "type": "object",
        "description": "OwnerReference names an owner of an object.",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": _text("API version of the owner."),
            "blockOwnerDeletion": {
                "type": "boolean",
                "description": "Whether a foreground deletion of the owner waits for this object.",
            },
            "controller": {
                "type": "boolean",
                "description": "Whether the owner is the controller of this object.",
            },
            "kind": _text("Kind of the owner."),
            "name": _text("Name of the owner."),
            "uid": _text("UID of the owner."),
        },
    }
