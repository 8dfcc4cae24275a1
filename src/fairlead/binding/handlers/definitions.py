"""Gathers the binding definitions of services: annotations of their CRDs and of themselves."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import (
    COLLECTION_READY,
    DEFINITION_ANNOTATION,
    ERROR_READING_CRD,
    INVALID_ANNOTATION,
)
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.definitions import InvalidDefinition, parse_definition
from fairlead.binding.handlers.preflight import collection_failed
from fairlead.binding.reads import ReadError
from fairlead.binding.registry import registered
from fairlead.binding.service import Service


def binding_definitions(context: Context) -> None:
    """Add each service's definitions; its own annotations override its CRD's, key by key."""
    for service in context.services():
        try:
            crd = context.crd(service)
        except ReadError as error:
            collection_failed(context, ERROR_READING_CRD, error)
            return
        annotations = {**_defaults(service, crd), **service.meta.annotations}
        for key in sorted(annotations):
            _add(context, service, key, annotations[key])


def _add(context: Context, service: Service, key: str, value: str) -> None:
    try:
        definition = parse_definition(key, value)
    except InvalidDefinition as error:
        context.flow.fail(str(error))
        context.flow.stop_processing()
        text = f'Failed to create binding definition from "{key}: {value}": {error}'
        context.set_condition(COLLECTION_READY, "False", INVALID_ANNOTATION, text)
        return
    if definition:
        service.definitions.append(definition)


def _defaults(service: Service, crd: JSON | None) -> dict[str, str]:
    """The CRD's annotations; the registry's for a CRD that says nothing of bindings itself."""
    if crd is None:
        return {}
    own: dict[str, str] = (crd.get("metadata") or {}).get("annotations") or {}
    if is_bindable(crd):
        return own
    return {**own, **registered(service.resource.api_version, service.kind)}


def is_bindable(crd: JSON) -> bool:
    """Whether a CRD has definitions, or ``status.binding.name`` in the schema of any version."""
    annotations: dict[str, str] = (crd.get("metadata") or {}).get("annotations") or {}
    if any(
        key == DEFINITION_ANNOTATION or key.startswith(f"{DEFINITION_ANNOTATION}/")
        for key in annotations
    ):
        return True
    return any(
        _has_binding_name(version) for version in (crd.get("spec") or {}).get("versions") or []
    )


def _has_binding_name(version: JSON) -> bool:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for name in ("status", "binding", "name"):
        schema = (schema.get("properties") or {}).get(name) or {}
    return bool(schema.get("type") == "string")
