"""The OpenAPI v3 index and the document of each API version; a short OpenAPI v2."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.requests.calls import Answer
from fairlead_sandbox.requests.openapi.messages import reference
from fairlead_sandbox.requests.openapi.schemas import component_name, components
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType


_ROOT = "/openapi/v3"
_OLD = "/openapi/v2"
_INFO: JSON = {"title": "Kubernetes", "version": "unversioned"}
_PROTOBUF = "proto-openapi"
_PROTOBUF_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_EMPTY_PROTOBUF = b"\x0a\x032.0\x12\x19\x0a\nKubernetes\x12\x0bunversioned"
"""An OpenAPI v2 document in protobuf, with version and title but without schemas."""
_ACTIONS: Mapping[str, tuple[str, str]] = {
    "list": ("get", "list"),
    "create": ("post", "post"),
    "deletecollection": ("delete", "deletecollection"),
    "get": ("get", "get"),
    "update": ("put", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}
"""HTTP method and ``x-kubernetes-action`` of each verb's operation."""
_COLLECTION_VERBS = ("list", "create", "deletecollection")
_OBJECT_VERBS = ("get", "update", "patch", "delete")
# kubectl looks for dryRun and fieldValidation in the patch operation of a kind. Without them it
# refuses --dry-run=server, and validates by itself against OpenAPI v2.
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "create": ("dryRun", "fieldManager", "fieldValidation"),
    "update": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "propagationPolicy"),
    "list": ("fieldSelector", "labelSelector", "limit", "continue", "watch"),
}


class OpenApiDocuments:
    """Answers requests for OpenAPI documents; they are made anew when the registry changes."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._generation = -1
        self._cache: dict[str, Answer] = {}

    def answer(self, path: str, accept: str = "") -> Answer | None:
        """Return the answer for an OpenAPI path; None for any other path.

        kubectl reads OpenAPI v2 as protobuf to validate lists. It gets a document without kinds,
        and leaves validation to the server.
        """
        # Without slashes at the end: each number of them would be a document of its own in memory.
        path = path.rstrip("/")
        if path == _OLD and _PROTOBUF in accept:
            return Answer(_EMPTY_PROTOBUF, content_type=_PROTOBUF_TYPE)
        if not path.startswith((_ROOT, _OLD)):
            return None
        if self._generation != self._registry.generation:
            self._cache.clear()
            self._generation = self._registry.generation
        if path not in self._cache:
            document = self._document(path)
            if document is None:
                return None
            self._cache[path] = Answer(msgspec.json.encode(document))
        return self._cache[path]

    def _document(self, path: str) -> JSON | None:
        types = self._registry.all()
        if path == _OLD:
            return swagger(types)
        if path == _ROOT:
            return index(types)
        matching = [type_ for type_ in types if f"{_ROOT}/{_name(type_)}" == path]
        return document(matching) if matching else None


def index(types: Iterable[ResourceType]) -> JSON:
    """Return the index: the URL of each API version's document, with a hash of its content."""
    by_name: dict[str, list[ResourceType]] = {}
    for type_ in types:
        by_name.setdefault(_name(type_), []).append(type_)
    return {
        "paths": {
            name: {"serverRelativeURL": f"{_ROOT}/{name}?hash={_digest(document(members))}"}
            for name, members in by_name.items()
        }
    }


def _digest(body: JSON) -> str:
    return hashlib.sha512(msgspec.json.encode(body)).hexdigest().upper()


def swagger(types: list[ResourceType]) -> JSON:
    """Return the OpenAPI v2 document: the schemas of all kinds, without paths."""
    # The schemas are those of v3; v2 only keeps them at another place.
    text = msgspec.json.encode(components(types)).replace(
        b"#/components/schemas/", b"#/definitions/"
    )
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": msgspec.json.decode(text)}


def document(types: list[ResourceType]) -> JSON:
    """Return the OpenAPI document of one API version: its paths and the schemas of its kinds."""
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": {path: item for type_ in types for path, item in _paths(type_).items()},
        "components": {"schemas": components(types)},
    }


def _name(type_: ResourceType) -> str:
    resource = type_.resource
    if resource.group:
        return f"apis/{resource.group}/{resource.version}"
    return f"api/{resource.version}"


def _paths(type_: ResourceType) -> JSON:
    resource = type_.resource
    scope = "{namespace}" if resource.namespaced else ""
    collection = resource.path(scope)
    paths: JSON = {collection: _item(type_, _COLLECTION_VERBS, scope, name=False)}
    if set(_OBJECT_VERBS) & set(type_.verbs):
        paths[f"{collection}/{{name}}"] = _item(type_, _OBJECT_VERBS, scope, name=True)
    if "status" in type_.subresources:
        verbs = ("get", "update", "patch")
        paths[f"{collection}/{{name}}/status"] = _item(type_, verbs, scope, name=True)
    return paths


def _item(type_: ResourceType, verbs: Iterable[str], scope: str, *, name: bool) -> JSON:
    item: JSON = {}
    for verb in verbs:
        if verb in type_.verbs:
            method, action = _ACTIONS[verb]
            item[method] = _operation(type_, verb, action)
    parameters = [_path_parameter("name")] if name else []
    if scope:
        parameters.append(_path_parameter("namespace"))
    return {**item, "parameters": parameters} if parameters else item


def _path_parameter(name: str) -> JSON:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _operation(type_: ResourceType, verb: str, action: str) -> JSON:
    resource = type_.resource
    content = {"application/json": {"schema": reference(component_name(type_))}}
    return {
        "operationId": f"{verb}{resource.group.title().replace('.', '')}{resource.version.title()}"
        f"{resource.kind}",
        "parameters": [_query(name) for name in _PARAMETERS.get(verb, ())],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
    }


def _query(name: str) -> JSON:
    kind = {"limit": "integer", "watch": "boolean", "force": "boolean"}.get(name, "string")
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
