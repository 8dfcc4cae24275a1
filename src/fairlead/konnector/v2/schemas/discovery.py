"""Readers of a provider's discovery: the APIs that it serves beside those of Kubernetes.

Sources: KEP-3352 (aggregated discovery), ``metav1.APIResourceList``, kbind v2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kbind import ExportedAPI
from fairlead.konnector.v2.schemas.openapi import ServedAPI, ServedVersion


T = TypeVar("T")

VERBS = frozenset({"get", "list", "watch", "create", "patch", "delete"})
"""Verbs without which objects of an API cannot be synchronised."""

_KUBERNETES = frozenset({"", "apps", "batch", "extensions", "policy", "autoscaling"})
_FAMILIES = ("k8s.io", "kbind.io", "kube-bind.io", "kcp.io")
"""Groups that no provider offers, with all that end so: of Kubernetes, kcp and both protocols."""
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_GROUP = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")


class DiscoveryError(Exception):
    """An answer that is no discovery document; the message says why."""


class Discovered(msgspec.Struct, frozen=True):
    """The APIs of a provider by name, and the groups that discovery could not be asked for."""

    apis: dict[str, ServedAPI]
    failed: frozenset[str] = frozenset()


class DiscoveredResource(msgspec.Struct, frozen=True):
    """A resource of one version."""

    plural: str
    kind: str
    namespaced: bool
    singular: str
    verbs: frozenset[str]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    status: bool


class GroupVersion(msgspec.Struct, frozen=True):
    """A version of a group, with the resources that are served in it."""

    group: str
    version: str
    resources: tuple[DiscoveredResource, ...] = ()


def is_offered(group: str) -> bool:
    """Whether a group may have APIs that a provider offers."""
    return group not in _KUBERNETES and not f".{group}".endswith(
        tuple(f".{family}" for family in _FAMILIES)
    )


def discovered(versions: Iterable[GroupVersion], failed: Iterable[str] = ()) -> Discovered:
    """Return the APIs of group versions, which come with the preferred one of a group first."""
    kinds: dict[tuple[str, str], list[tuple[str, DiscoveredResource]]] = {}
    for served in versions:
        for resource in served.resources:
            if resource.verbs >= VERBS:
                entries = kinds.setdefault((served.group, resource.plural), [])
                entries.append((served.version, resource))
    apis = [_api(group, entries) for (group, _), entries in kinds.items()]
    return Discovered({api.name: api for api in apis}, frozenset(failed))


def _api(group: str, entries: list[tuple[str, DiscoveredResource]]) -> ServedAPI:
    _, first = entries[0]
    return ServedAPI(
        group=group,
        plural=first.plural,
        kind=first.kind,
        namespaced=first.namespaced,
        versions=tuple(ServedVersion(version, entry.status) for version, entry in entries),
        singular=first.singular,
        short_names=first.short_names,
        categories=first.categories,
    )


class _Subresource(msgspec.Struct):
    subresource: str = ""


class _ResponseKind(msgspec.Struct):
    kind: str = ""


class _Entry(msgspec.Struct, rename="camel"):
    resource: str
    scope: str = "Cluster"
    response_kind: _ResponseKind | None = None
    singular_resource: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _Version(msgspec.Struct, rename="camel"):
    version: str
    resources: list[_Entry] | None = None
    freshness: str = "Current"


class _Metadata(msgspec.Struct):
    name: str = ""


class _Group(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    versions: list[_Version] | None = None


class _Aggregated(msgspec.Struct):
    items: list[_Group] | None = None


class _PlainVersion(msgspec.Struct):
    version: str = ""


class _PlainGroup(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_PlainVersion] | None = None
    preferred_version: _PlainVersion = msgspec.field(default_factory=_PlainVersion)


class _Groups(msgspec.Struct):
    kind: str = ""
    groups: list[_PlainGroup] | None = None


class _PlainEntry(msgspec.Struct, rename="camel"):
    name: str
    kind: str = ""
    namespaced: bool = False
    singular_name: str = ""
    verbs: list[str] | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_PlainEntry] | None = None


def aggregated(body: bytes) -> Discovered | None:
    """Return the APIs in an aggregated answer of ``/apis``; None if it is a plain one.

    A server that is down has stale versions, which repeat what it said before; its group is among
    the failed ones.

    Raises:
        DiscoveryError: it is no answer of discovery.
    """
    if _decoded(body, _Groups).kind == "APIGroupList":
        return None
    versions: list[GroupVersion] = []
    failed = []
    for group in _decoded(body, _Aggregated).items or ():
        name = group.metadata.name
        if not (is_offered(name) and _GROUP.fullmatch(name)):
            continue
        for version in group.versions or ():
            if version.freshness != "Current":
                failed.append(name)
            if _LABEL.fullmatch(version.version):
                entries = tuple(_resources(version.resources or ()))
                versions.append(GroupVersion(name, version.version, entries))
    return discovered(versions, failed)


def _resources(entries: Iterable[_Entry]) -> Iterator[DiscoveredResource]:
    for entry in entries:
        # Without a kind, there are subresources and no operation on the resource.
        if entry.response_kind is None or not _LABEL.fullmatch(entry.resource):
            continue
        yield DiscoveredResource(
            plural=entry.resource,
            kind=entry.response_kind.kind,
            namespaced=entry.scope == "Namespaced",
            singular=entry.singular_resource,
            verbs=frozenset(entry.verbs or ()),
            short_names=tuple(entry.short_names or ()),
            categories=tuple(entry.categories or ()),
            status=any(part.subresource == "status" for part in entry.subresources or ()),
        )


def plain_groups(body: bytes) -> list[GroupVersion]:
    """Return the versions of the offered groups in a plain answer of ``/apis``, without resources.

    Raises:
        DiscoveryError: it is no answer of discovery.
    """
    result = []
    for group in _decoded(body, _Groups).groups or ():
        if is_offered(group.name) and _GROUP.fullmatch(group.name):
            preferred = group.preferred_version.version
            names = [entry.version for entry in group.versions or ()]
            result += [
                GroupVersion(group.name, name)
                for name in sorted(names, key=lambda name: name != preferred)
                if _LABEL.fullmatch(name)
            ]
    return result


def plain_version(body: bytes, group: str, version: str) -> GroupVersion:
    """Return a version of a group with its resources, of a plain answer.

    Raises:
        DiscoveryError: it is no answer of discovery.
    """
    entries = _decoded(body, _Resources).resources or ()
    subresources = {entry.name for entry in entries if "/" in entry.name}
    return GroupVersion(
        group,
        version,
        tuple(
            DiscoveredResource(
                plural=entry.name,
                kind=entry.kind,
                namespaced=entry.namespaced,
                singular=entry.singular_name,
                verbs=frozenset(entry.verbs or ()),
                short_names=tuple(entry.short_names or ()),
                categories=tuple(entry.categories or ()),
                status=f"{entry.name}/status" in subresources,
            )
            for entry in entries
            if _LABEL.fullmatch(entry.name)
        ),
    )


class _Place(msgspec.Struct, rename="camel"):
    server_relative_url: str = msgspec.field(default="", name="serverRelativeURL")


class _Index(msgspec.Struct):
    paths: dict[str, _Place] = {}


def document_hashes(body: bytes) -> dict[str, str]:
    """Return the hash of each document in the index of OpenAPI v3, by group and version.

    The hash is "" where the server gives none. The index is of the form that KEP-2896 has.

    Raises:
        DiscoveryError: it is no such index.
    """
    hashes = {}
    for path, place in _decoded(body, _Index).paths.items():
        _, _, digest = place.server_relative_url.partition("hash=")
        hashes[path.removeprefix("apis/")] = digest
    return hashes


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.MsgspecError as error:
        raise DiscoveryError(f"discovery cannot be read: {field_message(error)}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise DiscoveryError(f"discovery cannot be read: {error}") from None


def exported(api: ServedAPI) -> ExportedAPI:
    """Return the entry of an API in the status of a Connection."""
    return ExportedAPI(
        name=api.name,
        group=api.group,
        resource=api.plural,
        scope="Namespaced" if api.namespaced else "Cluster",
        versions=[version.name for version in api.versions],
    )
