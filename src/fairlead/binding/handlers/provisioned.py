"""Gathers the Secrets of Provisioned Services: those that ``.status.binding.name`` names."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import (
    ERROR_READING_BINDING,
    ERROR_READING_CRD,
    ERROR_READING_SECRET,
    PROVISIONED_SERVICE,
)
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.handlers.preflight import collection_failed
from fairlead.binding.items import secret_source
from fairlead.binding.reads import ReadError
from fairlead.binding.service import Service


class BindingFieldError(ValueError):
    """``.status.binding.name`` is something else than a name."""


def provisioned_service(context: Context) -> None:
    """Add the Secret of each service that names one; stop at the first that cannot be read."""
    for service in context.services():
        if context.flow.stop:
            return
        try:
            name = _secret_name(service.body)
        except BindingFieldError as error:
            collection_failed(context, ERROR_READING_BINDING, error)
            return
        if name is None:
            _check_promise(context, service)
        elif name:
            _add(context, service, name)


def _add(context: Context, service: Service, name: str) -> None:
    try:
        source = secret_source(context.read_secret(service.namespace, name), service.source)
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
    else:
        if source:
            context.add_source(source)


def _check_promise(context: Context, service: Service) -> None:
    """A CRD whose annotation promises a binding makes the pass wait for it."""
    try:
        crd = context.crd(service)
    except ReadError as error:
        collection_failed(context, ERROR_READING_CRD, error)
        return
    annotations = ((crd or {}).get("metadata") or {}).get("annotations") or {}
    if annotations.get(PROVISIONED_SERVICE) == "true":
        promise = BindingFieldError(
            f"CRD of service {service.meta.key} indicates provisioned service, but no secret "
            "name provided under .status.binding.name"
        )
        collection_failed(context, ERROR_READING_BINDING, promise, missing=True)


def _secret_name(body: JSON) -> str | None:
    """The name, None when there is none.

    Raises:
        BindingFieldError: something on the way is not an object, or the name is no string.
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


def _accessor_error(value: Any, wanted: str) -> str:
    kind = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    found = kind.get(type(value), "map[string]interface {}" if value is not None else "<nil>")
    shown = value if isinstance(value, str) else found
    return (
        f".status.binding.name accessor error: {shown} is of the type {found}, expected {wanted}"
    )
