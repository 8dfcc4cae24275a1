"""Collecting: the entries of the binding from its services.

The stages in order: read the services; add the Secrets of Provisioned Services, services that are
Secrets themselves, the results of binding definitions, and objects that services own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.golang.text import brief, go_type
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import (
    COLLECTION_READY,
    DEFINITION_ANNOTATION,
    ERROR_READING_BINDING,
    ERROR_READING_CRD,
    ERROR_READING_SECRET,
    ERROR_READING_SERVICES,
    INVALID_ANNOTATION,
    PROVISIONED_SERVICE,
    VALUE_NOT_FOUND,
)
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.reads import ReadError
from fairlead.binding.services.definitions import (
    BeyondBounds,
    CollectError,
    Definition,
    InvalidDefinition,
    ValueMissing,
    parse_definition,
    registered,
)
from fairlead.binding.services.items import Item, TooManyEntries, decode_data, secret_source
from fairlead.binding.services.service import Service


async def collect_preflight(context: Context) -> None:
    """Stop and wait if a service cannot be read."""
    try:
        await context.services()
    except ReadError as error:
        collection_failed(context, ERROR_READING_SERVICES, error)


def collection_failed(
    context: Context, reason: str, error: Exception, *, message: str = "", missing: bool = False
) -> None:
    """Stop with CollectionReady False, and request another pass.

    Args:
        context: the pass's context.
        reason: the condition's reason.
        error: the error.
        message: the condition's message; by default the error's.
        missing: whether an object does not exist yet; a ReadError says so itself.
    """
    text = message or str(error)
    read = error if isinstance(error, ReadError) else None
    if missing or (read and read.missing):
        context.flow.wait_for_change(text)
    else:
        context.flow.retry_processing(text, transient=bool(read and read.transient))
    context.set_condition(COLLECTION_READY, "False", reason, text)


class BindingFieldError(ValueError):
    """``.status.binding.name`` is not a string."""


async def provisioned_service(context: Context) -> None:
    """Add the Secret of each service that names one; stop at the first error."""
    for service in await context.services():
        if context.flow.stop:
            return
        try:
            name = _secret_name(service.body)
        except BindingFieldError as error:
            collection_failed(context, ERROR_READING_BINDING, error)
            return
        if name is None:
            await _check_promise(context, service)
        # An empty name is no error: Service Binding Operator passes over it, too.
        elif name:
            await _add_secret(context, service, name)


async def _add_secret(context: Context, service: Service, name: str) -> None:
    try:
        secret = await context.read_secret(service.namespace, name)
        source = secret_source(secret, service.source)
        if source:
            context.add_source(source)
    except ReadError as error:
        text = str(error)
        if error.failure.code == "NotFound":
            text += (
                f": Secret {service.namespace}/{name}, which {service} names in "
                ".status.binding.name, has not arrived yet"
            )
        collection_failed(context, ERROR_READING_SECRET, error, message=text)
    except ValueError as error:
        collection_failed(context, ERROR_READING_SECRET, error)


async def _check_promise(context: Context, service: Service) -> None:
    """Wait if the service's CRD promises a binding by an annotation or label."""
    try:
        crd = await context.crd(service)
    except ReadError as error:
        collection_failed(context, ERROR_READING_CRD, error)
        return
    metadata = (crd or {}).get("metadata") or {}
    marks = [metadata.get(place) or {} for place in ("annotations", "labels")]
    # Service Binding Operator uses an annotation, the specification a label.
    if any(mark.get(PROVISIONED_SERVICE) == "true" for mark in marks):
        promise = BindingFieldError(
            f"CRD of service {service.meta.key} indicates provisioned service, but no secret "
            "name provided under .status.binding.name"
        )
        collection_failed(context, ERROR_READING_BINDING, promise, missing=True)


def _secret_name(body: JSON) -> str | None:
    """Return ``.status.binding.name``, None without it.

    Raises:
        BindingFieldError: a parent is not an object, or the name is not a string.
    """
    value: Any = body
    for field in ("status", "binding", "name"):
        if not isinstance(value, dict):
            raise BindingFieldError(_accessor_error(value, "map[string]interface{}"))
        if field not in value:
            return None
        value = value[field]
    if not isinstance(value, str):
        raise BindingFieldError(_accessor_error(value, "string"))
    return value


def _accessor_error(value: Any, type_name: str) -> str:
    # The message of Service Binding Operator, with its Go types: people search for it.
    return (
        f".status.binding.name accessor error: {brief(value)} is of the type {go_type(value)}, "
        f"expected {type_name}"
    )


async def direct_secret(context: Context) -> None:
    """Add each service that is a Secret, unless annotations define its entries."""
    for service in await context.services():
        annotations = service.meta.annotations
        annotated = any(key.startswith(DEFINITION_ANNOTATION) for key in annotations)
        if not service.is_secret or annotated:
            # Service Binding Operator ends the stage here, and loses the Secrets of later
            # services.
            continue
        try:
            secret = await context.read_secret(service.namespace, service.name)
            source = secret_source(secret, service.source)
            if source:
                context.add_source(source)
        except (ReadError, ValueError) as error:
            collection_failed(context, ERROR_READING_SECRET, error)
            return


async def binding_definitions(context: Context) -> None:
    """Parse each service's definitions; its annotations override its CRD's, key by key."""
    for service in await context.services():
        try:
            crd = await context.crd(service)
        except ReadError as error:
            collection_failed(context, ERROR_READING_CRD, error)
            return
        annotations = {**_defaults(service, crd), **service.meta.annotations}
        # Sorted, so that of two entries with one name always the same wins.
        for key in sorted(annotations):
            _add_definition(context, service, key, annotations[key])


def _add_definition(context: Context, service: Service, key: str, value: str) -> None:
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
    """Return the CRD's annotations, with the registry's if it defines no bindings itself."""
    if crd is None:
        return {}
    own: dict[str, str] = (crd.get("metadata") or {}).get("annotations") or {}
    if is_bindable(crd):
        return own
    # A CRD that is not bindable has no definitions, so that nothing is overridden.
    return {**own, **registered(service.resource.api_version, service.kind)}


def is_bindable(crd: JSON) -> bool:
    """Whether the CRD has definitions, the specification's label, or ``status.binding.name``.

    The field counts in the schema of any version.
    """
    metadata: JSON = crd.get("metadata") or {}
    annotations: dict[str, str] = metadata.get("annotations") or {}
    if (metadata.get("labels") or {}).get(PROVISIONED_SERVICE) == "true" or any(
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
    # As Service Binding Operator tests it, for its BindableKinds, too.
    return bool(schema.get("type") == "string")


class MissingValue(ValueError):  # noqa: N818 (named after the reason)
    """A collected value is null."""


async def binding_items(context: Context) -> None:
    """Evaluate each service's definitions, generic ones first, then by name."""
    for service in await context.services():
        for definition in service.definitions:
            await _collect(context, service, definition)
            if context.flow.stop:
                return


async def _collect(context: Context, service: Service, definition: Definition) -> None:
    try:
        for name, value in (await context.evaluate(definition, service) or {}).items():
            _add_items(context, service, "", name, value)
    except MissingValue as error:
        # This text and that of MissingValue are Service Binding Operator's.
        context.flow.fail("Value not found in map")
        context.flow.stop_processing()
        context.set_condition(COLLECTION_READY, "False", VALUE_NOT_FOUND, str(error))
    except (BeyondBounds, TooManyEntries) as error:
        collection_failed(context, ERROR_READING_BINDING, error)
    except RecursionError:
        deep = ValueError(f"the value that a definition selects in {service} is nested too deeply")
        collection_failed(context, ERROR_READING_BINDING, deep)
    except (CollectError, ReadError, ValueError) as error:
        # The error quotes the value, which must not happen with one from a Secret.
        hidden = f"a definition in the annotations of {service} cannot be applied to it"
        collection_failed(
            context,
            ERROR_READING_BINDING,
            error,
            message=hidden if service.is_secret else "",
            missing=isinstance(error, ValueMissing),
        )


def _add_items(context: Context, service: Service, prefix: str, name: str, value: Any) -> None:
    """Add an item per member of maps and lists, with the names of the path joined by ``_``."""
    path = f"{prefix}{name}"
    if value is None:
        raise MissingValue(f"Value for key {path} not found")
    if isinstance(value, dict):
        below = f"{path}_" if path else ""
        for key in sorted(value):
            _add_items(context, service, below, key, value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            # Objects and lists in a list are printed as Go's %v does, not flattened any further.
            context.add_item(Item(f"{path}_{index}", item, service.source))
    else:
        context.add_item(Item(path, value, service.source))


async def owned_resources(context: Context) -> None:
    """Add an item per entry of objects that each service owns, if the binding requests it."""
    for service in await context.services():
        try:
            for resource in await context.owned_resources(service):
                for name, value in _entries(resource):
                    context.add_item(Item(name, value, service.source))
        except (ReadError, ValueError) as error:
            collection_failed(context, ERROR_READING_SERVICES, error)
            return


def _entries(resource: JSON) -> Iterator[tuple[str, Any]]:
    """Yield the items of an owned object; raises ValueError if its field is missing."""
    kind = resource["kind"]
    if kind == "Secret":
        _require(resource, "data")
        yield from decode_data(resource).items()
    elif kind == "ConfigMap":
        yield from sorted(_require(resource, "data").items())
    elif kind == "Service":
        # A headless Service has the text None here.
        yield "clusterIP", _require(resource, "spec", "clusterIP")
    else:
        yield "host", _require(resource, "spec", "host")


def _require(resource: JSON, *path: str) -> Any:
    value: Any = resource
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        meta = resource["metadata"]
        place = f"{resource['kind']} {meta.get('namespace', '')}/{meta['name']}"
        raise ValueError(f"Not found: {place} has no .{'.'.join(path)}")
    return value
