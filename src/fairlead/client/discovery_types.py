"""The forms of discovery: ``APIGroupList`` and ``APIResourceList``, and the aggregated one."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fairlead.api.resource import Resource
from fairlead.client.errors import UnexpectedAnswer


_FORM = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
AGGREGATED = f"{_FORM.format('v2')},{_FORM.format('v2beta1')},application/json"
"""Asks for everything at once and takes the plain form from servers that cannot."""


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
    """The groups in an answer of either form, and the resources that the aggregated one carries.

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
        raise UnexpectedAnswer(f"discovery at {path} cannot be read: {error}") from None
    raise UnexpectedAnswer(f"discovery at {path} answered {kind or 'no kind'}")


def decode_resources(body: bytes, group: str, version: str) -> tuple[Resource, ...]:
    """The resources of one group version, subresources left out.

    Raises:
        UnexpectedAnswer: the answer is no APIResourceList.
    """
    try:
        content = msgspec.json.decode(body, type=ResourceList)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(f"discovery of {group}/{version} cannot be read: {error}") from None
    return tuple(
        Resource(group, version, entry.name, entry.kind, entry.namespaced)
        for entry in content.resources or ()
        if "/" not in entry.name
    )


def _plain(content: _Plain) -> list[GroupVersions]:
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
                    if entry.response_kind is not None
                )
    return groups, resources
