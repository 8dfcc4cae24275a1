"""Objects and helpers of the contract suite."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, Resource
from fairlead.client import Client, NotFound, WatchEvent


GROUP = "contract.example.org"
WIDGETS = Resource(GROUP, "v1", "widgets", "Widget")
OLD_WIDGETS = Resource(GROUP, "v1beta1", "widgets", "Widget")

_SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}
_VERSION: JSON = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": _SCHEMA},
    "subresources": {"status": {}},
    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
}


def crd(plural: str, kind: str, *versions: JSON, namespaced: bool = True) -> JSON:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"plural": plural, "kind": kind},
            "versions": copy.deepcopy(list(versions or [_VERSION])),
        },
    }


def widget_crd() -> JSON:
    old = copy.deepcopy(_VERSION) | {"name": "v1beta1", "storage": False}
    return crd("widgets", "Widget", _VERSION, old)


def widget(name: str, **spec: Any) -> JSON:
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def configmap(name: str, **metadata: Any) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"key": "value"},
    }


def owned_by(owner: Object, **more: Any) -> list[JSON]:
    return [
        {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.meta.name,
            "uid": owner.meta.uid,
            **more,
        }
    ]


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the check holds; the deadline only ends a test that has failed."""
    async with asyncio.timeout(SECONDS):
        while not await check():  # noqa: ASYNC110 - the condition is on a server
            await asyncio.sleep(0.02)


async def gone(client: Client, name: str, namespace: str, resource: Resource = CONFIGMAPS) -> None:
    async def check() -> bool:
        try:
            await client.get(resource, name, namespace)
        except NotFound:
            return True
        return False

    await eventually(check)


async def take(events: AsyncIterator[WatchEvent], count: int) -> list[WatchEvent]:
    """The first events of a watch that are no bookmarks."""
    found: list[WatchEvent] = []
    async with asyncio.timeout(SECONDS), aclosing(events) as stream:  # type: ignore[type-var]
        async for event in stream:
            if event.type != "BOOKMARK":
                found.append(event)
            if len(found) == count:
                break
    return found


def names(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.object.meta.name) for event in events]
