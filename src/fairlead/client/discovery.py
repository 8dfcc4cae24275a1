"""What a server serves: groups, versions and resources, cached until something says otherwise."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.resource import Resource, split_api_version
from fairlead.api.status import Status
from fairlead.client.discovery_types import (
    AGGREGATED,
    GroupVersions,
    decode_groups,
    decode_resources,
)
from fairlead.client.errors import NotFound, NotServed, UnexpectedAnswer


_MOST_VERSIONS = 1000


class Getter(Protocol):
    """The one thing that discovery needs of a client."""

    async def __call__(self, path: str, *, accept: str) -> bytes:
        """The body of a successful GET."""
        ...


class _Groups(NamedTuple):
    fetched: int
    by_name: dict[str, GroupVersions]


class _Resources(NamedTuple):
    fetched: int
    all: tuple[Resource, ...]


class Discovery:
    """Looks resources up by kind or plural name.

    A group version is fetched when it is first asked for, so that a group whose own server is down
    hurts only those who ask for it. The list of groups, asked for in the aggregated form of
    Kubernetes 1.26 and later, brings all resources along. What is not in the cache is looked for
    on the server before :class:`NotServed` is raised: a CRD made a moment ago is found. Many who
    ask for the same thing at once cause one request.
    """

    def __init__(self, get: Getter, server: str) -> None:
        self._get = get
        self._server = server
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Counts questions and fetches, so that a fetch is known to have begun after a question.
        self._clock = 0
        self._valid_since = 0
        self._groups: _Groups | None = None
        self._resources: dict[str, _Resources] = {}

    def invalidate(self) -> None:
        """Forget everything, also what is being fetched: a CRD or an APIService has changed."""
        self._valid_since = self._tick()
        self._groups = None
        self._resources.clear()

    async def groups(self) -> list[GroupVersions]:
        """Every API group, the core group ("") first, its preferred version first.

        Raises:
            ApiError: the server refused discovery.
            ConnectionFailed: the server was not reached.
        """
        return list((await self._load_groups(0)).values())

    async def resource_for(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind.

        Raises:
            NotServed: the server has no such kind in that version.
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        asked = self._clock
        for since in (0, asked):
            for resource in await self._load_resources(api_version, since):
                if resource.kind == kind:
                    return resource
        raise self._not_served(f"{kind} in {api_version}")

    async def resource_by_plural(self, group: str, plural: str, version: str = "") -> Resource:
        """The resource of a plural name, in the given or else the group's preferred version.

        Raises:
            NotServed: the server has no such resource.
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        asked = self._clock
        for since in (0, asked):
            versions = (version,) if version else await self._versions(group, since)
            for candidate in versions:
                api_version = f"{group}/{candidate}" if group else candidate
                for resource in await self._load_resources(api_version, since):
                    if resource.plural == plural:
                        return resource
        name = f"{plural}.{group}" if group else plural
        raise self._not_served(f"{name}/{version}" if version else name)

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

    async def _load_resources(self, api_version: str, since: int) -> tuple[Resource, ...]:
        """The resources of a group version as they were after ``since``."""
        async with self._lock(api_version):
            known = self._resources.get(api_version)
            if known is None or known.fetched <= since:
                known = await self._fetch(api_version)
            return known.all

    async def _fetch(self, api_version: str) -> _Resources:
        began = self._tick()
        group, version = split_api_version(api_version)
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            body = await self._get(path, accept="application/json")
        except NotFound:
            resources: tuple[Resource, ...] = ()
        else:
            resources = decode_resources(body, group, version)
        result = _Resources(began, resources)
        self._keep(api_version, result)
        return result

    async def _versions(self, group: str, since: int) -> tuple[str, ...]:
        found = (await self._load_groups(since)).get(group)
        return found.versions if found is not None else ()

    async def _load_groups(self, since: int) -> dict[str, GroupVersions]:
        """The groups as they were after ``since``."""
        async with self._lock(""):
            if self._groups is not None and self._groups.fetched > since:
                return self._groups.by_name
            began = self._tick()
            groups: dict[str, GroupVersions] = {}
            for path in ("/api", "/apis"):
                found, resources = decode_groups(await self._get(path, accept=AGGREGATED), path)
                groups |= {group.name: group for group in found}
                for api_version, known in resources.items():
                    self._keep(api_version, _Resources(began, known))
            if began > self._valid_since:
                self._groups = _Groups(began, groups)
            return groups

    def _keep(self, api_version: str, known: _Resources) -> None:
        if known.fetched <= self._valid_since:
            return
        # Objects that others write name group versions: the cache must not grow with their fancy.
        if len(self._resources) >= _MOST_VERSIONS:
            self._resources.clear()
        self._resources[api_version] = known

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _not_served(self, what: str) -> NotServed:
        message = f"{self._server} does not serve {what}; is its CRD installed?"
        return NotServed(Status("Failure", message, "NotFound", 404))


class _Version(msgspec.Struct, rename="camel"):
    git_version: str
