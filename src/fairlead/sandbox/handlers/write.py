"""POST and PUT."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.sandbox import answers, errors, writes
from fairlead.sandbox.core import Answer, Call
from fairlead.sandbox.handlers.read import existing
from fairlead.sandbox.negotiation import decode_body
from fairlead.sandbox.store import Record


def read_body(call: Call) -> JSON:
    """The object in the request's body.

    Raises:
        StatusError: it cannot be read.
    """
    return decode_body(call.content_type, call.body, call.type.resource.kind)


async def answer(call: Call, record: Record, code: int = 200) -> Answer:
    """The written object, once it is stored."""
    await call.core.store.settle(record.rv)
    return answers.one(call, record, code)


async def create(call: Call) -> Answer:
    """Create an object in a collection."""
    body = read_body(call)
    record = writes.create(
        call.core,
        call.type,
        call.info.namespace,
        body,
        user=call.user,
        dry_run=call.dry_run,
    )
    return await answer(call, record, 201)


async def update(call: Call) -> Answer:
    """Replace an object or its status."""
    body = read_body(call)
    if not call.type.custom:
        _check_name(call, body)
    record = writes.update(
        call.core,
        call.type,
        existing(call),
        body,
        subresource=call.info.subresource,
        user=call.user,
        dry_run=call.dry_run,
    )
    return await answer(call, record)


def _check_name(call: Call, body: JSON) -> None:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        raise errors.bad_request("name must be provided")
