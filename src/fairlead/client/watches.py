"""Watch streams: JSON objects, one a line, as they come off the wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

import aiohttp
import msgspec

from fairlead.api.meta import Object, decode_item
from fairlead.api.resource import Resource
from fairlead.api.status import Status
from fairlead.client.errors import ConnectionFailed, UnexpectedAnswer, api_error


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class WatchEvent(msgspec.Struct, frozen=True):
    """One event; the object of a BOOKMARK has a resourceVersion and nothing else."""

    type: EventType
    object: Object


class _RawEvent(msgspec.Struct):
    type: EventType
    object: msgspec.Raw


_event_decoder = msgspec.json.Decoder(_RawEvent)


def decode_event(line: bytes, resource: Resource) -> WatchEvent:
    """The event on a line.

    Raises:
        ApiError: it is an ERROR event; :class:`~fairlead.client.errors.Gone` is one of them.
        UnexpectedAnswer: the line is no watch event.
    """
    try:
        event = _event_decoder.decode(line)
        if event.type == "ERROR":
            raise api_error(msgspec.json.decode(event.object, type=Status))
        item = decode_item(event.object, resource.api_version, resource.kind)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(f"an event of {resource} cannot be read: {error}") from None
    return WatchEvent(event.type, item)


async def read_lines(content: aiohttp.StreamReader) -> AsyncGenerator[list[bytes], None]:
    """The complete lines of each chunk that arrives.

    Splitting whole chunks costs a fraction of reading line by line, and an event may be larger
    than any limit that a line reader has.

    Raises:
        ConnectionFailed: the stream ended in the middle of a line.
    """
    pending: list[bytes] = []
    while chunk := await content.readany():
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            pending.append(chunk)
            continue
        pending.append(head)
        lines = b"".join(pending).split(b"\n")
        pending = [rest] if rest else []
        yield lines
    if pending:
        raise ConnectionFailed("a watch ended in the middle of an event")
