"""Encoding of objects and lists in the form that the client asked for: whole, Table, metadata."""

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
"""Objects of a list that are filtered or encoded between two looks at the clock."""
_TURN = 0.01
"""Seconds of work on a list, after which other requests get a turn of the event loop."""


class _Partial(msgspec.Struct):
    metadata: msgspec.Raw


_decode_partial = msgspec.json.Decoder(_Partial).decode


def partial(record: Record, accept: Accept) -> bytes:
    """Return the object's PartialObjectMetadata as JSON."""
    version = accept.version.encode()
    return (
        b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/'
        + version
        + b'","metadata":'
        + bytes(_decode_partial(record.raw).metadata)
        + b"}"
    )


def encode(type_: ResourceType, record: Record, accept: Accept, include: str = "") -> bytes:
    """Return one object as JSON, as an answer or a watch event holds it."""
    if accept.form == "table":
        rows = [_row(type_, record, accept, include)]
        return _table(type_, rows, {"resourceVersion": str(record.rv)}, accept)
    if accept.form == "metadata":
        return partial(record, accept)
    return type_.served(record)


def object_answer(call: Call, record: Record, code: int = 200) -> Answer:
    """Return the answer that holds one object."""
    include = call.query.get("includeObject", "")
    return Answer(encode(call.type, record, call.accept, include), code)


async def in_turns(records: Sequence[Record]) -> AsyncIterator[Sequence[Record]]:
    """Yield the records in slices; between them other requests get turns of the event loop."""
    end = monotonic() + _TURN
    for start in range(0, len(records), _SOME):
        if monotonic() > end:
            await asyncio.sleep(0)
            end = monotonic() + _TURN
        yield records[start : start + _SOME]


async def many(call: Call, records: Sequence[Record], metadata: JSON) -> Answer:
    """Return the answer that holds a list; ``metadata`` is the list's own."""
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
    # Stored objects are JSON already, so a list of thousands is joined without decoding any.
    return Answer(head[:-1] + b',"items":[' + b",".join(items) + b"]}")


def _columns(type_: ResourceType) -> list[Column]:
    """Return the columns of a resource; the name comes first unless they contain it."""
    # Events and some CRDs have a column Name of their own.
    if any(column.name == NAME.name for column in type_.columns):
        return list(type_.columns)
    return [NAME, *(type_.columns or [AGE])]


def _row(type_: ResourceType, record: Record, accept: Accept, include: str) -> JSON:
    """Return a Table's row; ``include`` is the ``includeObject`` of the query."""
    body = type_.to_dict(record)
    result: JSON = {"cells": [column.cell(body) for column in _columns(type_)]}
    if include == "Object":
        # includeObject is Object, None or Metadata, which is also the default.
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
    """Return the Table of these rows as JSON."""
    return msgspec.json.encode(
        {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{accept.version}",
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in _columns(type_)],
            "rows": rows,
        }
    )
