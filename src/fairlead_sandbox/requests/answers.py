"""Objects and lists in the form the client asked for: whole, as a Table, or metadata alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from time import monotonic

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.negotiation import Accept
from fairlead_sandbox.resources.columns import AGE, NAME, Column
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Record


_SOME = 50
"""Objects of a list that are looked at or encoded before the clock is."""
_TURN = 0.01
"""Seconds after which others have their turn."""


class _Partial(msgspec.Struct):
    metadata: msgspec.Raw


_decode_partial = msgspec.json.Decoder(_Partial).decode


def partial(record: Record, accept: Accept) -> bytes:
    """The object's PartialObjectMetadata."""
    version = accept.version.encode()
    return (
        b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/'
        + version
        + b'","metadata":'
        + bytes(_decode_partial(record.raw).metadata)
        + b"}"
    )


def encode(type_: ResourceType, record: Record, accept: Accept, include: str = "") -> bytes:
    """One object, as it stands in an answer or a watch event."""
    if accept.form == "table":
        rows = [_row(type_, record, accept, include)]
        return _table(type_, rows, {"resourceVersion": str(record.rv)}, accept)
    if accept.form == "metadata":
        return partial(record, accept)
    return type_.served(record)


def one(call: Call, record: Record, code: int = 200) -> Answer:
    """The answer that is an object."""
    include = call.query.get("includeObject", "")
    return Answer(encode(call.type, record, call.accept, include), code)


async def in_turns(records: Sequence[Record]) -> AsyncIterator[Sequence[Record]]:
    """The records, some at a time, between which others have their turn."""
    end = monotonic() + _TURN
    for start in range(0, len(records), _SOME):
        if monotonic() > end:
            await asyncio.sleep(0)
            end = monotonic() + _TURN
        yield records[start : start + _SOME]


async def many(call: Call, records: Sequence[Record], metadata: JSON) -> Answer:
    """The answer that is a list; ``metadata`` is the list's own."""
    accept = call.accept
    if accept.form == "table":
        include = call.query.get("includeObject", "")
        rows: list[JSON] = []
        async for some in in_turns(records):
            rows += [_row(call.type, record, accept, include) for record in some]
        return Answer(_table(call.type, rows, metadata, accept))
    items: list[bytes] = []
    if accept.form == "metadata":
        kind, version = "PartialObjectMetadataList", f"meta.k8s.io/{accept.version}"
        async for some in in_turns(records):
            items += [partial(record, accept) for record in some]
    else:
        kind, version = call.type.list_kind, call.type.resource.api_version
        async for some in in_turns(records):
            items += [call.type.served(record) for record in some]
    head = msgspec.json.encode({"kind": kind, "apiVersion": version, "metadata": metadata})
    # Stored objects are JSON already: a list of thousands is put together without decoding any.
    return Answer(head[:-1] + b',"items":[' + b",".join(items) + b"]}")


def _columns(type_: ResourceType) -> list[Column]:
    """The columns of a resource; the name comes first unless they have it elsewhere."""
    if any(column.name == NAME.name for column in type_.columns):
        return list(type_.columns)
    return [NAME, *(type_.columns or [AGE])]


def _row(type_: ResourceType, record: Record, accept: Accept, include: str) -> JSON:
    """One row; its object is the metadata, the whole, or left out."""
    body = type_.to_dict(record)
    result: JSON = {"cells": [column.cell(body) for column in _columns(type_)]}
    if include == "Object":
        result["object"] = body
    elif include == "None":
        result["object"] = None
    else:
        result["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{accept.version}",
            "metadata": body["metadata"],
        }
    return result


def _table(type_: ResourceType, rows: list[JSON], metadata: JSON, accept: Accept) -> bytes:
    """The Table of these rows."""
    return msgspec.json.encode(
        {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{accept.version}",
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in _columns(type_)],
            "rows": rows,
        }
    )
