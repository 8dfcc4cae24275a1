"""Gathers what a service's own ConfigMaps, Secrets, Services and Routes hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import ERROR_READING_SERVICES
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.handlers.preflight import collection_failed
from fairlead.binding.items import Item, decode_data
from fairlead.binding.reads import ReadError


def owned_resources(context: Context) -> None:
    """Add an item per entry of what each service owns, where the binding asks for it."""
    for service in context.services():
        try:
            for resource in context.owned_resources(service):
                for name, value in _entries(resource):
                    context.add_item(Item(name, value, service.source))
        except (ReadError, ValueError) as error:
            collection_failed(context, ERROR_READING_SERVICES, error)
            return


def _entries(resource: JSON) -> Iterator[tuple[str, Any]]:
    """The items of one resource; ValueError when it lacks what its kind is asked for."""
    kind = resource["kind"]
    if kind == "Secret":
        _require(resource, "data")
        yield from decode_data(resource).items()
    elif kind == "ConfigMap":
        yield from sorted(_require(resource, "data").items())
    elif kind == "Service":
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
