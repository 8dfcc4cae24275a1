"""Writes objects that shall be there, and statuses together with the events of what changed."""

from __future__ import annotations

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.client import AlreadyExists, Client, NotFound
from fairlead.runtime import commit


async def ensure(client: Client, resource: Resource, body: JSON, *fields: str) -> Object:
    """Create an object, or put the body's fields into the one that is there.

    Raises:
        Conflict: it was changed meanwhile.
        ApiError: the server refused.
    """
    metadata = body["metadata"]
    try:
        stored = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
    except NotFound:
        try:
            return await client.create(resource, body)
        except AlreadyExists:
            stored = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
    live = stored.to_dict()
    for field in fields:
        both = isinstance(body[field], dict) and isinstance(live.get(field), dict)
        live[field] = live[field] | body[field] if both else body[field]
    return await commit(client, resource, stored, live)
