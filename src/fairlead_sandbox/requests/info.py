"""Verb and object of a request, read from its method, path and query alone.

Follows Kubernetes' RequestInfo. Authorization and routing both use the result, so that they can
never read a path differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


_VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
"""RBAC verbs by HTTP method."""
_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}
"""Verbs for a request without a name, by the verb for one object."""
_NAMESPACE_SUBRESOURCES = {"status", "finalize"}
"""Subresources of namespaces; any other third segment is a resource in the namespace."""


class RequestInfo(NamedTuple):
    """One request; ``group`` to ``name`` are empty for a path that is no resource."""

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    rest: tuple[str, ...] = ()
    """Path segments after the subresource; such requests are answered with 404."""
    selected_name: str = ""
    """Name in the field selector ``metadata.name=...``; authorization uses it as the name."""


def parse_request(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Return verb and object of a request.

    The verb of a path that is no resource is the method in lower case. ``watch`` of the query
    makes a list a watch.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        return RequestInfo(path, method.lower())
    # /api/v1 and /apis/GROUP/VERSION are discovery documents; RBAC knows them as paths.
    if len(rest) < 2:
        return RequestInfo(path, method.lower())
    version, *rest = rest
    return _resource(method, path, query, group, version, rest)


def _resource(
    method: str, path: str, query: Mapping[str, str], group: str, version: str, parts: list[str]
) -> RequestInfo:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    name = parts[1] if len(parts) > 1 else ""
    verb = _VERBS.get(method, "")
    if not name:
        verb = _COLLECTION_VERBS.get(verb, verb)
    if verb == "list" and query_flag(query, "watch"):
        verb = "watch"
    return RequestInfo(
        path=path,
        verb=verb,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=parts[0],
        subresource=parts[2] if len(parts) > 2 else "",
        name=name,
        rest=tuple(parts[3:]),
        selected_name="" if name else _selected_name(query.get("fieldSelector", "")),
    )


def _selected_name(selector: str) -> str:
    for term in selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name":
            return value.removeprefix("=")
    return ""


def mended(text: str) -> str:
    """Return the value of a header as valid text; bytes that are no UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def query_flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a boolean of the query is true: with any value, also "", but "0" and "false"."""
    value = query.get(name)
    return value is not None and value.lower() not in {"0", "false"}
