"""Storing a status, and telling about what has changed in it."""

from __future__ import annotations

from fairlead.api.kubebind.conditions import happening, transitions
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.provider.changes import stored_conditions
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
        recorder.event(stored, *happening(condition))
    return stored
