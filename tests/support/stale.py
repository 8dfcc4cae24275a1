"""A server whose caches say one thing and whose answers say another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.api.status import Status, StatusDetails
from fairlead.client import Client
from fairlead.client.bounds import Intake
from fairlead.client.errors import api_error
from fairlead.client.wire import ObjectList, Page


GONE = StatusDetails(name="?")
"""The object itself is not there; what else answers 404 names nothing."""


class StaleServer:
    """Lists what ``cached`` has, gets what ``live`` has, and remembers writes.

    A key of ``live`` that is missing is answered with a 404; ``absent`` None makes it one that
    says nothing of the object.
    """

    def __init__(
        self,
        cached: Mapping[Resource, Sequence[Object]],
        live: Sequence[Object] = (),
        *,
        absent: StatusDetails | None = GONE,
    ) -> None:
        self.intake = Intake("stale", None)
        self.writes: list[tuple[str, str, str, JSON]] = []
        self._cached = cached
        self.live(live)
        self._absent = absent

    @property
    def client(self) -> Client:
        return cast("Client", self)

    def live(self, objects: Sequence[Object]) -> None:
        """Have these, and nothing else, from now on."""
        self._live = {(found.kind, found.key): found for found in objects}

    def written(self, verb: str, plural: str) -> list[tuple[str, JSON]]:
        """Names and bodies, or preconditions, of writes."""
        return [
            (name, body) for one, kind, name, body in self.writes if (one, kind) == (verb, plural)
        ]

    async def list(self, resource: Resource, namespace: str = "", **_: Any) -> ObjectList:
        known = self._cached.get(resource, ())
        found = [one for one in known if namespace in {"", one.meta.namespace}]
        return ObjectList(list(found), "1")

    async def page(self, resource: Resource, namespace: str = "", **_: Any) -> Page:
        """Says what there is now, as get does."""
        found = [
            one
            for (kind, key), one in self._live.items()
            if kind == resource.kind and key.namespace == namespace
        ]
        return Page(found, "1", "")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        found = self._live.get((resource.kind, Key(namespace, name)))
        if found is None:
            details = self._absent and StatusDetails(name=name)
            raise api_error(Status("Failure", "not found", "NotFound", 404, details))
        return found

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **_: Any
    ) -> Object:
        self.writes.append(("create", resource.plural, body["metadata"]["name"], body))
        return object_from_dict(body)

    async def update(self, resource: Resource, body: JSON, **_: Any) -> Object:
        self.writes.append(("update", resource.plural, body["metadata"]["name"], body))
        return object_from_dict(body)

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, **_: Any
    ) -> Object:
        self.writes.append(("patch", resource.plural, name, patch))
        metadata = {"name": name, "namespace": namespace}
        return object_from_dict({"kind": resource.kind, "metadata": metadata})

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **preconditions: Any
    ) -> None:
        self.writes.append(("delete", resource.plural, name, preconditions))
