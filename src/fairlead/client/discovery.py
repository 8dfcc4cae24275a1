"""Groups, versions and resources of a server, cached until they are invalidated or missed."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.resource import Resource, split_api_version
from fairlead.api.status import Status
from fairlead.client import limits
from fairlead.client.errors import NotFound, NotServed, UnexpectedAnswer


_FORM = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
AGGREGATED = f"{_FORM.format('v2')},{_FORM.format('v2beta1')},application/json"
"""Accept header for aggregated discovery (KEP-3352), or else the plain form."""


class GroupVersions(NamedTuple):
    """An API group and its versions, the preferred one first."""

    name: str
    versions: tuple[str, ...]


class ResourceEntry(msgspec.Struct, rename="camel"):
    """``metav1.APIResource``; subresources have a slash in their name."""

    name: str
    kind: str
    namespaced: bool = False


class ResourceList(msgspec.Struct, rename="camel"):
    """``metav1.APIResourceList``."""

    resources: list[ResourceEntry] | None = None


class _PlainVersion(msgspec.Struct, rename="camel"):
    version: str = ""


class _PlainGroup(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_PlainVersion] = []
    preferred_version: _PlainVersion = msgspec.field(default_factory=_PlainVersion)


class _Plain(msgspec.Struct, rename="camel"):
    versions: list[str] | None = None
    groups: list[_PlainGroup] | None = None


class _Kind(msgspec.Struct, rename="camel"):
    kind: str = ""


class _Entry(msgspec.Struct, rename="camel"):
    resource: str
    scope: str = "Cluster"
    response_kind: _Kind | None = None


class _Version(msgspec.Struct, rename="camel"):
    version: str
    resources: list[_Entry] | None = None
    freshness: str = "Current"


class _Name(msgspec.Struct, rename="camel"):
    name: str = ""


class _Group(msgspec.Struct, rename="camel"):
    metadata: _Name = msgspec.field(default_factory=_Name)
    versions: list[_Version] = []


class _Aggregated(msgspec.Struct, rename="camel"):
    items: list[_Group] = []


Decoded = tuple[list[GroupVersions], dict[str, tuple[Resource, ...]]]


def decode_groups(body: bytes, path: str) -> Decoded:
    """Decode the groups in an answer of either form, and the aggregated one's resources.

    Raises:
        UnexpectedAnswer: the answer is neither.
    """
    try:
        kind = msgspec.json.decode(body, type=_Kind).kind
        if kind == "APIGroupDiscoveryList":
            return _aggregated(msgspec.json.decode(body, type=_Aggregated))
        if kind in {"APIVersions", "APIGroupList"}:
            return _plain(msgspec.json.decode(body, type=_Plain)), {}
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(
            f"discovery at {path} cannot be read: {field_message(error)}"
        ) from None
    raise UnexpectedAnswer(f"discovery at {path} answered {kind or 'no kind'}")


def decode_resources(body: bytes, group: str, version: str) -> tuple[Resource, ...]:
    """Decode the resources of one group version, without subresources.

    Raises:
        UnexpectedAnswer: the answer is no APIResourceList.
    """
    try:
        content = msgspec.json.decode(body, type=ResourceList)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(
            f"discovery of {group}/{version} cannot be read: {field_message(error)}"
        ) from None
    return tuple(
        Resource(group, version, entry.name, entry.kind, entry.namespaced)
        for entry in content.resources or ()
        if "/" not in entry.name
    )


def _plain(content: _Plain) -> list[GroupVersions]:
    # ``/api`` answers with APIVersions, the versions of the core group; ``/apis`` has the others.
    if content.versions is not None:
        return [GroupVersions("", tuple(content.versions))]
    result = []
    for group in content.groups or ():
        preferred = group.preferred_version.version
        rest = [version.version for version in group.versions if version.version != preferred]
        ordered = [preferred, *rest] if preferred else rest
        result.append(GroupVersions(group.name, tuple(ordered)))
    return result


def _aggregated(content: _Aggregated) -> Decoded:
    groups, resources = [], {}
    for group in content.items:
        name = group.metadata.name
        # The aggregated form has no field for the preferred version: it is the first one.
        groups.append(GroupVersions(name, tuple(version.version for version in group.versions)))
        for version in group.versions:
            # A stale entry repeats what an extension server said before it went down.
            if version.freshness != "Stale":
                api_version = f"{name}/{version.version}" if name else version.version
                resources[api_version] = tuple(
                    Resource(
                        name,
                        version.version,
                        entry.resource,
                        entry.response_kind.kind,
                        entry.scope == "Namespaced",
                    )
                    for entry in version.resources or ()
                    # Without a kind, there are subresources and no operation on the resource.
                    if entry.response_kind is not None
                )
    return groups, resources


class Getter(Protocol):
    """The GET of a client, the only method that discovery needs."""

    async def __call__(self, path: str, *, accept: str) -> bytes:
        """Return the body of a successful GET."""
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
    fails only the look-ups of that group. The list of groups, asked for in the aggregated form of
    Kubernetes 1.26 and later, brings all resources along. A resource that is not in the cache is
    looked for on the server before :class:`NotServed` is raised: a CRD made a moment ago is found.
    Concurrent look-ups of one group version cause one request.
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
        """Drop the cache and running fetches, since a CRD or an APIService has changed."""
        self._valid_since = self._tick()
        self._groups = None
        self._resources.clear()

    async def groups(self) -> list[GroupVersions]:
        """Return every API group, the core group ("") first, its preferred version first.

        Raises:
            ApiError: the server refused discovery.
            ConnectionFailed: the server was not reached.
        """
        return list((await self._load_groups(0)).values())

    async def resources(self) -> list[Resource]:
        """Return all served resources, in the preferred version of each group.

        Raises:
            ApiError: the server refused discovery, or a group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        resources: list[Resource] = []
        for group in await self.groups():
            if group.versions:
                version = group.versions[0]
                api_version = f"{group.name}/{version}" if group.name else version
                resources += await self._load_resources(api_version, 0)
        return resources

    async def resource_for(self, api_version: str, kind: str) -> Resource:
        """Return the resource of a kind.

        Raises:
            NotServed: the server has no such kind in that version.
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        oldest = self._clock
        # At first any known answer will do, then only one that was fetched after the question.
        for since in (0, oldest):
            for resource in await self._load_resources(api_version, since):
                if resource.kind == kind:
                    return resource
        raise self._not_served(f"{kind} in {api_version}")

    async def resource_by_plural(self, group: str, plural: str, version: str = "") -> Resource:
        """Return the resource of a plural name, in the given or the group's preferred version.

        Raises:
            NotServed: the server has no such resource.
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        oldest = self._clock
        for since in (0, oldest):
            versions = (version,) if version else await self._versions(group, since)
            for candidate in versions:
                api_version = f"{group}/{candidate}" if group else candidate
                for resource in await self._load_resources(api_version, since):
                    if resource.plural == plural:
                        return resource
        name = f"{plural}.{group}" if group else plural
        raise self._not_served(f"{name}/{version}" if version else name)

    async def versions_of(self, group: str, plural: str) -> list[str]:
        """Return the versions of a group in which a resource is served, the preferred one first.

        Raises:
            ApiError: the server refused discovery, or that group's own server is down.
            ConnectionFailed: the server was not reached.
        """
        versions: list[str] = []
        for version in await self._versions(group, 0):
            api_version = f"{group}/{version}" if group else version
            if any(one.plural == plural for one in await self._load_resources(api_version, 0)):
                versions.append(version)
        return versions

    async def server_version(self) -> str:
        """Return ``gitVersion`` of the server, such as ``v1.31.2``; asked each time.

        Raises:
            ApiError: the server refused.
            ConnectionFailed: the server was not reached, or is not a Kubernetes API server.
        """
        body = await self._get("/version", accept="application/json")
        try:
            return msgspec.json.decode(body, type=_ServerVersion).git_version
        except msgspec.MsgspecError:
            raise UnexpectedAnswer(f"{self._server} is not a Kubernetes API server") from None

    async def _load_resources(self, api_version: str, since: int) -> tuple[Resource, ...]:
        """Return the resources of a group version as they were after ``since``."""
        async with self._lock(api_version):
            cached = self._resources.get(api_version)
            if cached is None or cached.fetched <= since:
                cached = await self._fetch(api_version)
            return cached.all

    async def _fetch(self, api_version: str) -> _Resources:
        began = self._tick()
        group, version = split_api_version(api_version)
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            body = await self._get(path, accept="application/json")
        except NotFound:
            # The absence of a version is cached too: before it is believed, it is fetched again.
            resources: tuple[Resource, ...] = ()
        else:
            resources = decode_resources(body, group, version)
        result = _Resources(began, resources)
        self._keep(api_version, result)
        return result

    async def _versions(self, group: str, since: int) -> tuple[str, ...]:
        versions = (await self._load_groups(since)).get(group)
        return versions.versions if versions is not None else ()

    async def _load_groups(self, since: int) -> dict[str, GroupVersions]:
        """Return the groups as they were after ``since``."""
        async with self._lock(""):
            if self._groups is not None and self._groups.fetched > since:
                return self._groups.by_name
            began = self._tick()
            groups: dict[str, GroupVersions] = {}
            for path in ("/api", "/apis"):
                versions, resources = decode_groups(await self._get(path, accept=AGGREGATED), path)
                groups |= {group.name: group for group in versions}
                for api_version, group_resources in resources.items():
                    self._keep(api_version, _Resources(began, group_resources))
            if began > self._valid_since:
                self._groups = _Groups(began, groups)
            return groups

    def _keep(self, api_version: str, resources: _Resources) -> None:
        if resources.fetched <= self._valid_since:
            return
        # Objects of other writers name group versions: the cache must not grow with invented ones.
        if len(self._resources) >= limits.REMEMBERED:
            self._resources.clear()
        self._resources[api_version] = resources

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _not_served(self, what: str) -> NotServed:
        message = f"{self._server} does not serve {what}; is its CRD installed?"
        return NotServed(Status("Failure", message, "NotFound", 404))


class _ServerVersion(msgspec.Struct, rename="camel"):
    git_version: str
