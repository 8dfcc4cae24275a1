"""Discovery documents (``/api``, ``/apis``): one per group version, and aggregated (KEP-3352)."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.requests.calls import Answer
from fairlead_sandbox.requests.negotiation import media_ranges
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType


_AGGREGATED = {"v2", "v2beta1"}
"""Served versions of aggregated discovery."""
_SUBRESOURCE_VERBS = ["get", "patch", "update"]
_SCALE_KIND: JSON = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version name; the order is v2, v1, v1beta1, v1alpha1, others."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)


class DiscoveryDocuments:
    """Answers discovery requests; the documents are made anew when the registry changes."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._generation = -1
        self._cache: dict[tuple[tuple[str, ...], str], bytes] = {}

    def answer(self, path: str, accept: str) -> Answer | None:
        """Return the answer for a discovery path, None for any other path."""
        if self._generation != self._registry.generation:
            self._cache.clear()
            self._generation = self._registry.generation
        # kube-apiserver serves one document with and without slashes at the end. The path itself
        # is no key: any user could fill the memory with slashes.
        parts = tuple(path.rstrip("/").split("/")[1:])
        aggregated = _aggregated(accept) if parts in {("api",), ("apis",)} else ""
        key = (parts, aggregated)
        if key not in self._cache:
            document = self._document(parts, aggregated)
            if document is None:
                return None
            # Only after the check that the document exists: paths without one must not fill the
            # memory.
            self._cache[key] = msgspec.json.encode(document)
        if aggregated:
            content_type = (
                f"application/json;g=apidiscovery.k8s.io;v={aggregated};as=APIGroupDiscoveryList"
            )
            return Answer(self._cache[key], content_type=content_type)
        return Answer(self._cache[key])

    def _document(self, parts: tuple[str, ...], aggregated: str) -> JSON | None:
        if aggregated:
            return self._aggregated_document(core=parts == ("api",), version=aggregated)
        match parts:
            case ["api"]:
                return {
                    "kind": "APIVersions",
                    "versions": ["v1"],
                    "serverAddressByClientCIDRs": [],
                }
            case ["apis"]:
                groups = [self._group(group) for group in self._groups() if group]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version] if group:
                return self._resources(group, version)
        return None

    def _groups(self) -> dict[str, list[str]]:
        """Return the groups with their versions, the preferred version first."""
        groups: dict[str, set[str]] = {}
        for type_ in self._registry.all():
            groups.setdefault(type_.resource.group, set()).add(type_.resource.version)
        return {group: sorted(found, key=version_priority) for group, found in groups.items()}

    def _group(self, group: str) -> JSON:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._groups()[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _types(self, group: str, version: str) -> list[ResourceType]:
        return [
            type_
            for type_ in self._registry.all()
            if (type_.resource.group, type_.resource.version) == (group, version)
        ]

    def _resources(self, group: str, version: str) -> JSON | None:
        types = self._types(group, version)
        if not types:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": types[0].resource.api_version,
            "resources": [entry for type_ in types for entry in _entries(type_)],
        }

    def _aggregated_document(self, *, core: bool, version: str) -> JSON:
        groups = [name for name in self._groups() if (name == "") == core]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": [self._group_discovery(name) for name in groups],
        }

    def _group_discovery(self, group: str) -> JSON:
        return {
            # creationTimestamp is null because Go writes an unset metav1.Time so.
            "metadata": {"name": group, "creationTimestamp": None} if group else {},
            "versions": [
                {
                    "version": version,
                    # Only documents of aggregated API servers can be stale, and there are none.
                    "freshness": "Current",
                    "resources": [
                        _resource_discovery(type_) for type_ in self._types(group, version)
                    ],
                }
                for version in self._groups()[group]
            ],
        }


def _aggregated(accept: str) -> str:
    for range_ in media_ranges(accept):
        parameters = range_.parameters
        if (
            range_.type == "application/json"
            and parameters.get("as") == "APIGroupDiscoveryList"
            and parameters.get("g") == "apidiscovery.k8s.io"
            and parameters.get("v") in _AGGREGATED
        ):
            return parameters["v"]
        # Entries stand in the client's order of preference, so plain JSON before the aggregated
        # form wins.
        if range_.type in {"application/json", "*/*"} and "as" not in parameters:
            return ""
    return ""


def _entries(type_: ResourceType) -> Iterable[JSON]:
    resource = type_.resource
    entry: JSON = {
        "name": resource.plural,
        "singularName": type_.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(type_.verbs),
    }
    if type_.short_names:
        entry["shortNames"] = list(type_.short_names)
    if type_.categories:
        entry["categories"] = list(type_.categories)
    yield entry
    for subresource in type_.subresources:
        yield {
            "name": f"{resource.plural}/{subresource}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **_subresource_kind(type_, subresource),
            "verbs": _subresource_verbs(subresource),
        }


def _subresource_verbs(subresource: str) -> list[str]:
    return {"finalize": ["update"], "token": ["create"]}.get(subresource, _SUBRESOURCE_VERBS)


def _subresource_kind(type_: ResourceType, subresource: str) -> JSON:
    if subresource == "scale":
        return dict(_SCALE_KIND)
    if subresource == "token":
        return {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}
    return {"kind": type_.resource.kind}


def _resource_discovery(type_: ResourceType) -> JSON:
    resource = type_.resource
    entry: JSON = {
        "resource": resource.plural,
        "responseKind": _gvk(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": type_.singular,
        "verbs": list(type_.verbs),
    }
    if type_.short_names:
        entry["shortNames"] = list(type_.short_names)
    if type_.categories:
        entry["categories"] = list(type_.categories)
    if type_.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _gvk(
                    **{
                        "group": resource.group,
                        "version": resource.version,
                        **_subresource_kind(type_, name),
                    }
                ),
                "verbs": _subresource_verbs(name),
            }
            for name in type_.subresources
        ]
    return entry


def _gvk(group: str, version: str, kind: str) -> JSON:
    return {"group": group, "version": version, "kind": kind}
