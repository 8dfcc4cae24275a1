"""Storing a status, and telling about what has changed in it."""

from __future__ import annotations

from fairlead.api.kubebind_conditions import READY
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.provider.changes import stored_conditions, transitions
from fairlead.runtime import EventRecorder, commit


async def store_status(
    client: Client, recorder: EventRecorder, resource: Resource, old: Object, new: JSON | None
) -> Object:
    """Commit the status of ``new`` and record an event for each condition that has turned."""
    if new is None:
        return old
    stored = await commit(client, resource, old, new, subresource="status")
    if stored is old:
        return old
    for condition in transitions(stored_conditions(old), stored_conditions(stored)):
        if condition.type == READY or condition.status == "Unknown":
            continue
        failed = condition.status == "False" and condition.severity in {"Error", "Warning"}
        recorder.event(
            stored,
            "Warning" if failed else "Normal",
            condition.reason or condition.type,
            condition.message or f"{condition.type} is {condition.status}",
        )
    return stored
