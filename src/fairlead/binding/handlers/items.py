"""Makes items of what the binding definitions find."""

from __future__ import annotations

from typing import Any

from fairlead.api.servicebinding.common import (
    COLLECTION_READY,
    DATA_NOT_MAP,
    ERROR_READING_BINDING,
    VALUE_NOT_FOUND,
)
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.definitions import CollectError, Definition, ValueMissing, apply
from fairlead.binding.handlers.preflight import collection_failed
from fairlead.binding.items import Item
from fairlead.binding.reads import ReadError
from fairlead.binding.service import Service


class MissingValue(ValueError):  # noqa: N818 (named after the reason)
    """A null where a value is collected."""


def binding_items(context: Context) -> None:
    """Apply every definition of every service, generic ones first, then by name."""
    for service in context.services():
        for definition in service.definitions:
            _collect(context, service, definition)
            if context.flow.stop:
                return


def _collect(context: Context, service: Service, definition: Definition) -> None:
    try:
        found = apply(definition, service.body, context)
    except (CollectError, ReadError, ValueError) as error:
        # What does not fit is quoted; of a Secret that must not happen.
        hidden = f"a definition in the annotations of {service} does not fit it"
        collection_failed(
            context,
            ERROR_READING_BINDING,
            error,
            message=hidden if service.is_secret else "",
            missing=isinstance(error, ValueMissing),
        )
        return
    if found is None:
        return
    if not isinstance(found, dict):
        wrong = CollectError(f"definition {definition.name or '(generic)'} gives no map")
        collection_failed(context, DATA_NOT_MAP, wrong)
        return
    try:
        for name, value in found.items():
            _add(context, service, "", name, value)
    except MissingValue as error:
        context.flow.fail("Value not found in map")
        context.flow.stop_processing()
        context.set_condition(COLLECTION_READY, "False", VALUE_NOT_FOUND, str(error))


def _add(context: Context, service: Service, prefix: str, name: str, value: Any) -> None:
    """Maps and lists become one item per entry, with the names on the way joined by ``_``."""
    path = f"{prefix}{name}"
    if value is None:
        raise MissingValue(f"Value for key {path} not found")
    if isinstance(value, dict):
        below = f"{path}_" if path else ""
        for key in sorted(value):
            _add(context, service, below, key, value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            context.add_item(Item(f"{path}_{index}", item, service.source))
    else:
        context.add_item(Item(path, value, service.source))
