"""GET of one object."""

from __future__ import annotations

from fairlead.sandbox import errors
from fairlead.sandbox.objects.core import Answer, Call
from fairlead.sandbox.requests import answers
from fairlead.sandbox.storage.records import Record


def existing(call: Call) -> Record:
    """The object that the request names.

    Raises:
        StatusError: 404, it does not exist.
    """
    record = call.core.get(call.type, call.key)
    if record is None:
        raise errors.not_found(call.type.group_resource, call.key.name)
    return record


async def get(call: Call) -> Answer:
    """The object, or its status subresource, which is the same body."""
    record = existing(call)
    await call.core.store.settle(record.rv)
    return answers.one(call, record)
