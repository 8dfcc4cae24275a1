"""DELETE of one object and of a collection."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import JSON
from fairlead.sandbox import errors
from fairlead.sandbox.objects import deletes
from fairlead.sandbox.objects.core import Answer, Call
from fairlead.sandbox.requests import answers
from fairlead.sandbox.requests.handlers.read import existing
from fairlead.sandbox.requests.handlers.write import answer
from fairlead.sandbox.requests.negotiation import decode_body
from fairlead.sandbox.requests.selection import parse_selection


async def delete(call: Call) -> Answer:
    """Delete an object: a Status when it is gone, the object while finalizers hold it."""
    options = _options(call)
    old = existing(call)
    left = deletes.delete(call.core, call.type, old, options, user=call.user)
    if left is not None:
        return await answer(call, left)
    await call.core.store.settle()
    if call.type.strategy.returns_deleted:
        return answers.one(call, old)
    resource = call.type.group_resource
    details: JSON = {"name": old.key.name}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.resource, "uid": old.meta.uid}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
    return Answer(msgspec.json.encode(status))


async def delete_collection(call: Call) -> Answer:
    """Delete what a list with the same selectors shows; the answer is that list."""
    options = _options(call)
    selection = parse_selection(call.type, call.query)
    collection = call.core.store.collection(call.type.collection)
    namespace = call.info.namespace if call.type.resource.namespaced else ""
    records = [record for record in collection.list(namespace) if selection.matches(record)]
    for record in records:
        try:
            deletes.delete(call.core, call.type, record, options, user=call.user)
        except errors.StatusError as error:
            if error.code != 404:
                raise
    await call.core.store.settle()
    return answers.many(call, records, {"resourceVersion": str(call.core.store.published)})


def _options(call: Call) -> deletes.DeleteOptions:
    body = decode_body(call.content_type, call.body, "DeleteOptions") if call.body else {}
    return deletes.parse_options(body, dict(call.query))
