"""What a server serves: groups, versions and resources, cached until something says otherwise."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from fairlead.api.resource import Resource, split_api_version
from fairlead.api.status import Status
from fairlead.client.discovery_types import (
    AGGREGATED,
    GroupVersions,
    ResourceList,
    decode_groups,
    decode_resources,
)
from fairlead.client.errors import ApiError, NotFound, NotServed, UnexpectedAnswer


class Getter(Protocol):
    """The one thing that discovery needs of a client."""

    async def __call__(self, path: str, *, accept: str) -> bytes:
        """The body of a successful GET."""
        ...


class Discovery:
    """Looks resources up by kind or plural name.

    Aggregated discovery (Kubernetes 1.27) brings everything in two requests; from older servers
    each group version is fetched when it is first asked for. A group that cannot be fetched fails
    only those who ask for it. A name that is not in the cache is looked for once more on the
    server before :class:`NotServed` is raised, so that a CRD made a moment ago is found.
    """

    def __init__(self, get: Getter, server: str) -> None:
        self._get = get
        self._server = server
        self._lock = asyncio.Lock()
        self._groups: dict[str, GroupVersions] | None = None
        self._resources: dict[str, tuple[Resource, ...]] = {}

    def invalidate(self) -> None:
        """Forget everything: a CRD or an APIService has changed."""
        self._groups = None
        self._resources = {}

    async def groups(self) -> list[GroupVersions]:
        """Every API group, the core group ("") first, its preferred version first."""
        async with self._lock:
            return list((await self._load_groups()).values())

    async def resource_for(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind.

        Raises:
            NotServed: the server has no such kind in that version.
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        for fresh in (False, True):
            async with self._lock:
                known = await self._load_resources(api_version, fresh=fresh)
            for resource in known:
                if resource.kind == kind:
                    return resource
        raise _not_served(self._server, f"{kind} in {api_version}")

    async def resource_by_plural(self, group: str, plural: str, version: str = "") -> Resource:
        """The resource of a plural name, in the given or the group's preferred version.

        Raises:
            NotServed: the server has no such resource.
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        for fresh in (False, True):
            async with self._lock:
                if fresh:
                    self._groups = None
                versions = [version] if version else await self._versions(group)
                for candidate in versions:
                    api_version = f"{group}/{candidate}" if group else candidate
                    known = await self._load_resources(api_version, fresh=fresh)
                    for resource in known:
                        if resource.plural == plural:
                            return resource
        wanted = f"{plural}.{group}" if group else plural
        raise _not_served(self._server, f"{wanted}/{version}" if version else wanted)

    async def server_version(self) -> str:
        """``gitVersion`` of the server, such as ``v1.31.2``; asked each time.

        Raises:
            ApiError: the server refused.
            ConnectionFailed: the server was not reached, or is no Kubernetes API server.
        """
        body = await self._get("/version", accept="application/json")
        try:
            return msgspec.json.decode(body, type=_Version).git_version
        except msgspec.MsgspecError:
            raise UnexpectedAnswer(f"{self._server} is no Kubernetes API server") from None

    async def _versions(self, group: str) -> tuple[str, ...]:
        found = (await self._load_groups()).get(group)
        return found.versions if found is not None else ()

    async def _load_groups(self) -> dict[str, GroupVersions]:
        if self._groups is not None:
            return self._groups
        groups: dict[str, GroupVersions] = {}
        for path in ("/api", "/apis"):
            body = await self._get(path, accept=AGGREGATED)
            found, resources = decode_groups(body, path)
            groups |= {group.name: group for group in found}
            self._resources |= resources
        self._groups = groups
        return groups

    async def _load_resources(self, api_version: str, *, fresh: bool) -> tuple[Resource, ...]:
        if fresh:
            self._resources.pop(api_version, None)
        known = self._resources.get(api_version)
        if known is None:
            known = await self._fetch(api_version)
            self._resources[api_version] = known
        return known

    async def _fetch(self, api_version: str) -> tuple[Resource, ...]:
        group, version = split_api_version(api_version)
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            body = await self._get(path, accept="application/json")
        except NotFound:
            return ()
        return decode_resources(body, group, version)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str


def _not_served(server: str, what: str) -> NotServed:
    message = f"{server} does not serve {what}; is its CRD installed?"
    return NotServed(Status("Failure", message, "NotFound", 404))


__all__ = ["ApiError", "Discovery", "ResourceList"]
