"""The verb and object of a request, read from its method, path and query alone.

Follows Kubernetes' RequestInfo: authorization and routing both work on its answer, so that they
can never read a path differently.
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
_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}
_NAMESPACE_SUBRESOURCES = {"status", "finalize"}


class RequestInfo(NamedTuple):
    """One request; the fields up to ``name`` are empty for paths that are no resource's."""

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
    """The only name that a field selector lets through; authorization takes it for the name."""


def parse_request(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """The request's verb and object.

    The verb of a path that is no resource's is the method in lower case. ``watch`` and ``list``
    come from the query as the server's own routes read it.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[1:]
    elif parts[0] == "apis" and len(parts) > 1:
        group, rest = parts[1], parts[2:]
    else:
        return RequestInfo(path, method.lower())
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
    if verb == "list" and _truthy(query.get("watch")):
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
    """The value of a header; what is no UTF-8 in it is U+FFFD, so that it can be told."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _truthy(value: str | None) -> bool:
    """Whether a query value is true: any given value but "0" and "false", the empty one too."""
    return value is not None and value.lower() not in {"0", "false"}
