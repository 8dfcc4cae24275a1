"""Requests and answers as they go over the wire.

Malformed requests are refused before they are sent. Of the objects in lists and watch events only
the metadata is decoded; the rest is kept as one copy of the bytes.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.meta import JSON, Object, ObjectMeta, decode_item, decode_object
from fairlead.api.nesting import member, members
from fairlead.api.resource import Resource
from fairlead.api.status import Status
from fairlead.client.bounds import Chunks, Growing
from fairlead.client.errors import ConnectionFailed, UnexpectedAnswer, api_error, refusal


JSON_TYPE = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# The second form is for servers that do not know PartialObjectMetadata: they send whole objects.
PARTIAL_OBJECT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class _Named(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


def encode_body(body: JSON | Sequence[JSON] | msgspec.Struct | bytes) -> bytes:
    """Encode a body as JSON; bytes are taken as they are."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def body_meta(body: bytes) -> ObjectMeta:
    """Decode the metadata of an encoded body.

    Raises:
        BadRequest: the body has no valid metadata.
    """
    try:
        return msgspec.json.decode(body, type=_Named).metadata
    except msgspec.MsgspecError as error:
        raise refusal(
            "BadRequest", f"the object to send is malformed: {field_message(error)}"
        ) from None


def object_path(resource: Resource, name: str, namespace: str, subresource: str = "") -> str:
    """Return the path of one object.

    Raises:
        BadRequest: the name or the namespace is missing or would lead to another path.
    """
    if not name:
        raise refusal("BadRequest", f"a name is needed for {resource.group_resource}")
    if resource.namespaced and not namespace:
        raise refusal("BadRequest", f"a namespace is needed for {resource.group_resource} {name}")
    for segment in (name, namespace, *subresource.split("/")):
        check_segment(segment)
    return resource.path(namespace, name, subresource)


def collection_path(resource: Resource, namespace: str) -> str:
    """Return the path of all objects, or of a namespace's objects.

    Raises:
        BadRequest: the namespace would lead to another path.
    """
    check_segment(namespace)
    return resource.path(namespace)


def check_segment(text: str) -> None:
    """Refuse text that Kubernetes refuses in path segments (``IsValidPathSegmentName``).

    Raises:
        BadRequest: the text is ``.`` or ``..``, or contains a slash or a percent sign.
    """
    if text in {".", ".."} or "/" in text or "%" in text:
        raise refusal("BadRequest", f"{text!r} is not a valid name of a Kubernetes object")


def decode_answer(body: bytes, resource: Resource) -> Object:
    """Decode the object in an answer.

    Raises:
        UnexpectedAnswer: the answer is not a Kubernetes object.
    """
    try:
        obj = decode_object(body)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(
            f"the answer about {resource} is not an object: {field_message(error)}"
        ) from None
    if not obj.kind:
        raise UnexpectedAnswer(f"the answer about {resource} has no kind")
    return obj


def selectors(labels: str, fields: str) -> dict[str, str]:
    """Return the query parameters of a label selector and a field selector, "" being none."""
    result = {}
    if labels:
        result["labelSelector"] = labels
    if fields:
        result["fieldSelector"] = fields
    return result


def watch_params(resource_version: str, timeout_seconds: float | None) -> dict[str, str]:
    """Return the query parameters of a watch; the default timeout is 5 to 10 minutes, at random.

    Without the jitter, watches that began together after a server's restart would end together.
    """
    if timeout_seconds is None:
        timeout_seconds = random.uniform(300, 600)  # noqa: S311  jitter
    params = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(max(1, round(timeout_seconds))),
    }
    if resource_version:
        params["resourceVersion"] = resource_version
    return params


def delete_options(uid: str, resource_version: str, propagation: str) -> bytes:
    """Return the JSON of ``metav1.DeleteOptions``."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {}
    if uid:
        preconditions["uid"] = uid
    if resource_version:
        preconditions["resourceVersion"] = resource_version
    if preconditions:
        options["preconditions"] = preconditions
    if propagation:
        options["propagationPolicy"] = propagation
    return msgspec.json.encode(options)


class ListMeta(msgspec.Struct, rename="camel"):
    """``metav1.ListMeta``."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectList(msgspec.Struct):
    """All objects of a list, and the resourceVersion to watch from."""

    items: list[Object]
    resource_version: str = ""


class Page(msgspec.Struct):
    """One answer to a list request; ``continue_`` is "" on the last."""

    items: list[Object]
    resource_version: str
    continue_: str


class _RawList(msgspec.Struct, rename="camel"):
    items: list[msgspec.Raw] | None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_list_decoder = msgspec.json.Decoder(_RawList)


def unchanged(object_: Object) -> Object:
    """Return the object: the transform of readers who want it whole."""
    return object_


def decode_page(
    body: bytes,
    resource: Resource,
    check: Callable[[int], None] = lambda _count: None,
    transform: Callable[[Object], Object] = unchanged,
) -> Page:
    """Decode the objects in a list; each has a copy of its bytes.

    A slice would keep the whole page in memory as long as one of its objects is kept. ``check`` is
    called with the number of objects before they are decoded, and may raise. ``transform`` shrinks
    each object before the next one is decoded.

    Raises:
        UnexpectedAnswer: the body is no list of Kubernetes objects.
    """
    api_version, kind = resource.api_version, resource.kind
    try:
        try:
            content = _list_decoder.decode(body)
        except RecursionError:
            content = _deep_list(body)
        check(len(content.items or ()))
        items = [transform(decode_item(raw, api_version, kind)) for raw in content.items or ()]
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(
            f"the list of {resource} cannot be read: {field_message(error)}"
        ) from None
    return Page(items, content.metadata.resource_version, content.metadata.continue_)


def _deep_list(body: bytes) -> _RawList:
    """Decode a list with an object that is nested too deeply for the usual decoder."""
    items, metadata = member(body, b"items"), member(body, b"metadata")
    return _RawList(
        items=[msgspec.Raw(one.of(items)) for one in members(items)],
        metadata=msgspec.json.decode(metadata, type=ListMeta),
    )


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """Event of a watch; the object of a BOOKMARK has a resourceVersion alone."""

    type: EventType
    object: Object


class _RawEvent(msgspec.Struct):
    type: EventType
    object: msgspec.Raw


_event_decoder = msgspec.json.Decoder(_RawEvent)

_BEGINNINGS: dict[bytes, EventType] = {
    b'{"type":"ADDED","object":': "ADDED",
    b'{"type":"MODIFIED","object":': "MODIFIED",
    b'{"type":"DELETED","object":': "DELETED",
}
_OBJECT = b'"object":'
_LONGEST = max(map(len, _BEGINNINGS))


def decode_event(line: bytes, resource: Resource) -> WatchEvent:
    """Decode the event on a line.

    Raises:
        ApiError: the line is an ERROR event; :class:`~fairlead.client.errors.Gone` is one of them.
        UnexpectedAnswer: the line is no watch event.
    """
    # Servers write all lines alike, so the object can be cut out without a look at the whole line.
    # Its decoder takes nothing but one object: what was cut wrongly is decoded again as it is.
    start = line.find(_OBJECT, 0, _LONGEST) + len(_OBJECT)
    type_ = _BEGINNINGS.get(line[:start])
    if type_ is not None and line.endswith(b"}"):
        try:
            item = decode_item(line[start:-1], resource.api_version, resource.kind)
        except msgspec.MsgspecError:
            return _decode_any(line, resource)
        return WatchEvent(type_, item)
    return _decode_any(line, resource)


def _decode_any(line: bytes, resource: Resource) -> WatchEvent:
    try:
        try:
            event = _event_decoder.decode(line)
        except RecursionError:
            parts = {name: msgspec.Raw(member(line, name)) for name in (b"type", b"object")}
            event = _RawEvent(
                msgspec.json.decode(parts[b"type"], type=EventType), parts[b"object"]
            )
        if event.type == "ERROR":
            raise api_error(msgspec.json.decode(event.object, type=Status))
        item = decode_item(event.object, resource.api_version, resource.kind)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(
            f"an event of {resource} cannot be read: {field_message(error)}"
        ) from None
    return WatchEvent(event.type, item)


async def read_lines(
    content: Chunks, growing: Growing | None = None
) -> AsyncGenerator[list[bytes], None]:
    """Yield the complete lines of each chunk that arrives.

    Splitting whole chunks costs a fraction of reading line by line, and an event may be larger
    than any limit that a line reader has. ``growing`` accounts for the line that is not complete.

    Raises:
        ConnectionFailed: the stream ended in the middle of a line.
        AnswerTooLarge: a line exceeds the bound.
    """
    pending: list[bytes] = []
    while chunk := await content.readany():
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            if growing is not None:
                await growing.take(len(chunk))
            pending.append(chunk)
            continue
        pending.append(head)
        lines = b"".join(pending).split(b"\n")
        pending = [rest] if rest else []
        if growing is not None:
            growing.clear()
            await growing.take(len(rest))
        yield lines
    if pending:
        raise ConnectionFailed("a watch ended in the middle of an event")
