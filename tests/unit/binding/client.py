"""A client whose server is a dict, for what is fetched and written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.patch import apply_merge_patch
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelSelector
from fairlead.api.status import Status
from fairlead.client import (
    AlreadyExists,
    ApiError,
    Client,
    ClientError,
    Conflict,
    NotFound,
    NotServed,
    ObjectList,
)


class FakeDiscovery:
    def __init__(self, *resources: Resource) -> None:
        self.resources = list(resources)
        self.invalidated = 0

    def invalidate(self) -> None:
        self.invalidated += 1

    async def resource_for(self, api_version: str, kind: str) -> Resource:
        return self._find(lambda item: (item.api_version, item.kind) == (api_version, kind))

    async def resource_by_plural(self, group: str, plural: str, version: str = "") -> Resource:
        wanted = (group, version, plural)
        return self._find(lambda item: (item.group, item.version, item.plural) == wanted)

    def _find(self, matches: Callable[[Resource], bool]) -> Resource:
        for resource in self.resources:
            if matches(resource):
                return resource
        raise NotServed(Status("Failure", "not served", "NotFound", 404))


class FakeClient:
    """Keeps what is written in ``writes``; ``fail`` raises instead of answering.

    What must not be patched may be put where ``puts`` is set.
    """

    def __init__(self, *bodies: JSON, resources: tuple[Resource, ...] = ()) -> None:
        self.objects = {_key(body): copy.deepcopy(body) for body in bodies}
        self.writes: list[tuple[str, str]] = []
        self.reads: list[tuple[str, str]] = []
        self.fail: dict[tuple[str, str], ClientError] = {}
        self.discovery = FakeDiscovery(*resources)
        self.field_manager = "fairlead-binding"
        self.allowed = True
        self.puts = False
        self.reviews = 0

    @property
    def client(self) -> Client:
        return cast("Client", self)

    def object(self, kind: str, name: str) -> JSON:
        return self.objects[kind, name]

    def _check(self, verb: str, resource: Resource) -> None:
        error = self.fail.get((verb, resource.plural))
        if error:
            raise error

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        self._check("get", resource)
        self.reads.append(("get", f"{resource.kind} {name}"))
        if (resource.kind, name) not in self.objects:
            raise missing(name)
        return object_from_dict(self.objects[resource.kind, name])

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", **options: Any
    ) -> ObjectList:
        self._check("list", resource)
        self.reads.append(("list", f"{resource.kind} {labels}".rstrip()))
        selector = LabelSelector.parse(labels)
        found = [
            object_from_dict(body)
            for (kind, _), body in self.objects.items()
            if kind == resource.kind
        ]
        return ObjectList([item for item in found if selector.matches(item.meta.labels)], "1")

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **options: Any
    ) -> Object:
        self._check("create", resource)
        if resource.plural == "subjectaccessreviews":
            self.reviews += 1
            return object_from_dict({**body, "status": {"allowed": self.allowed}})
        if _key(body) in self.objects:
            raise AlreadyExists(Status("Failure", "exists", "AlreadyExists", 409))
        self.objects[_key(body)] = copy.deepcopy(body)
        self.writes.append(("create", body["kind"]))
        return object_from_dict(body)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: JSON,
        *,
        subresource: str = "",
    ) -> Object:
        self._check(f"patch {subresource}".rstrip(), resource)
        before = self.objects.get((resource.kind, name))
        if before is None:
            raise missing(name)
        version = patch.get("metadata", {}).get("resourceVersion")
        if version and version != before["metadata"].get("resourceVersion"):
            raise Conflict(Status("Failure", "changed", "Conflict", 409))
        after = apply_merge_patch(before, patch)
        self.objects[resource.kind, name] = after
        self.writes.append(("patch", f"{resource.kind}/{subresource}".rstrip("/")))
        return object_from_dict(after)

    async def update(self, resource: Resource, body: JSON, *, subresource: str = "") -> Object:
        if not self.puts:
            self._check("patch", resource)
        before = self.objects[_key(body)]["metadata"].get("resourceVersion")
        if body["metadata"].get("resourceVersion") != before:
            raise Conflict(Status("Failure", "changed", "Conflict", 409))
        self.objects[_key(body)] = copy.deepcopy(body)
        self.writes.append(("update", resource.kind))
        return object_from_dict(body)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = ""
    ) -> None:
        self._check("delete", resource)
        if self.objects.pop((resource.kind, name), None) is None:
            raise missing(name)
        self.writes.append(("delete", resource.kind))


def missing(name: str) -> ApiError:
    return NotFound(Status("Failure", f"{name} not found", "NotFound", 404))


def _key(body: JSON) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]
