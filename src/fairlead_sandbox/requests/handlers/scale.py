"""The scale subresource: an object's replicas as ``autoscaling/v1`` Scale."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead_sandbox import errors
from fairlead_sandbox.objects import writes
from fairlead_sandbox.requests.bodies import decode_body
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers import patch as patches
from fairlead_sandbox.requests.handlers.read import existing
from fairlead_sandbox.resources.types import Scale
from fairlead_sandbox.schema.errors import invalid
from fairlead_sandbox.storage.records import Record


_PATCHES = (patches.JSON_PATCH, patches.MERGE_PATCH, patches.STRATEGIC_PATCH)
"""Media types of patches that the subresource takes."""
_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""Metadata that a Scale has in common with its object."""


async def get(call: Call) -> Answer:
    """Answer with the object's Scale."""
    return _answer(call, existing(call))


async def update(call: Call) -> Answer:
    """Set the object's replicas to those of a Scale."""
    body = decode_body(call.content_type, call.body, "Scale")
    return await _write(call, existing(call), body)


async def patch(call: Call) -> Answer:
    """Patch the object's Scale and set its replicas to the result."""
    old = existing(call)
    media_type = call.content_type.partition(";")[0].strip().lower()
    if media_type not in _PATCHES:
        raise errors.unsupported_media_type(_PATCHES)
    return await _write(call, old, patches.apply(call, media_type, to_scale(call, old)))


def to_scale(call: Call, record: Record) -> JSON:
    """Return the Scale of an object."""
    scale, body = _paths(call), call.type.to_dict(record)
    meta = {name: body["metadata"][name] for name in _KEPT if name in body["metadata"]}
    result: JSON = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": {"replicas": _find(body, scale.spec) or 0},
        "status": {"replicas": _find(body, scale.status) or 0},
    }
    selector = _find(body, scale.selector) if scale.selector else None
    if isinstance(selector, dict):
        try:
            selector = str(LabelSelector.from_dict(selector))
        except SelectorError as error:
            raise errors.bad_request(str(error)) from None
    if selector:
        result["status"]["selector"] = selector
    return result


def _answer(call: Call, record: Record) -> Answer:
    return Answer(msgspec.json.encode(to_scale(call, record)))


async def _write(call: Call, old: Record, scale: JSON) -> Answer:
    # A Scale without replicas sets 0: the field is no pointer in the Go type.
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        field = "." + ".".join(_paths(call).spec)
        wrong = invalid(field, replicas, "should be a non-negative integer")
        resource = call.type.resource
        raise errors.invalid(resource.group, resource.kind, old.key.name, [wrong])
    body = call.type.to_dict(old)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        # A Scale has the resourceVersion of its object, so it guards the write of the object.
        body["metadata"]["resourceVersion"] = version
    target = body
    *parents, last = _paths(call).spec
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = replicas
    # As a write of the whole object, not of a subresource; managedFields still name the endpoint.
    record = writes.update(
        call.core, call.type, old, body, call.writing._replace(subresource="", through="scale")
    )
    await call.core.store.settle(record.rv)
    return _answer(call, record)


def _paths(call: Call) -> Scale:
    if call.type.scale is None:
        raise errors.no_such_resource()
    return call.type.scale


def _find(body: JSON, path: tuple[str, ...]) -> Any:
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
