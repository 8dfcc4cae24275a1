"""What an informer watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fairlead.api.resource import Resource


if TYPE_CHECKING:
    from fairlead.client import ObjectList, WatchEvent


class Scope(NamedTuple):
    """A resource, where and which of its objects; informers of equal scope are shared."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def __str__(self) -> str:
        parts = [self.resource.group_resource]
        if self.namespace:
            parts.append(f"in namespace {self.namespace}")
        if self.labels:
            parts.append(f"with labels {self.labels}")
        if self.fields:
            parts.append(f"with fields {self.fields}")
        return " ".join(parts)


class ListWatch(Protocol):
    """Where objects come from; :class:`fairlead.client.Client` is one."""

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        metadata_only: bool = False,
    ) -> ObjectList:
        """All objects and the version of the collection that they make."""
        ...

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: float | None = None,
        metadata_only: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        """The changes after a version, until the server closes."""
        ...
