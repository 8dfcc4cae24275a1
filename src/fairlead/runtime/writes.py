"""Writes of controllers: differences to an object, finalizers, and statuses with their Events.

Each write carries uid and resourceVersion of the object that it is based on, as preconditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fairlead.api.conditions import Event
from fairlead.api.meta import JSON, Object
from fairlead.api.patch import create_merge_patch
from fairlead.api.resource import Resource
from fairlead.client.errors import NotFound
from fairlead.runtime.events import EventRecorder


if TYPE_CHECKING:
    from fairlead.client import Client


_FIXED = (
    *("name", "namespace", "generateName"),
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "managedFields", "selfLink"),
)
"""Fields of the metadata that the server sets, or that never change: no patch has them."""


async def commit(
    client: Client, resource: Resource, old: Object, new: JSON, *, subresource: str = ""
) -> Object:
    """Make ``old`` on the server like ``new``, unless the object has changed since it was read.

    Sends the difference as a merge patch that carries uid and resourceVersion; returns ``old``
    and sends nothing when there is none. With ``subresource="status"`` only the status is
    compared, else all but the status. Members that are null count as absent.

    Raises:
        ValueError: ``new`` has another name or namespace.
        Conflict: the object was changed meanwhile.
        NotFound: the object is gone.
    """
    patch = difference(old, new, subresource=subresource)
    if not patch:
        return old
    # The server refuses the patch if another object has the name by now, or this one has changed.
    metadata = patch.setdefault("metadata", {})
    metadata["uid"] = old.meta.uid
    metadata["resourceVersion"] = old.meta.resource_version
    return await client.merge_patch(
        resource, old.meta.name, old.meta.namespace, patch, subresource=subresource
    )


async def patch_metadata(client: Client, resource: Resource, obj: Object, fields: JSON) -> Object:
    """Merge fields into the metadata of an object, unless it has changed since it was read.

    Raises:
        Conflict: the object was changed meanwhile.
        NotFound: the object is gone.
    """
    preconditions = {"uid": obj.meta.uid, "resourceVersion": obj.meta.resource_version}
    patch: JSON = {"metadata": {**fields, **preconditions}}
    return await client.merge_patch(resource, obj.meta.name, obj.meta.namespace, patch)


async def add_finalizer(client: Client, resource: Resource, obj: Object, finalizer: str) -> Object:
    """Add a finalizer to an object; no request is sent if the object has it.

    Raises:
        Conflict: the object was changed meanwhile.
        Invalid: the object is being deleted, when no finalizer can be added any more.
        NotFound: the object is gone.
    """
    if finalizer in obj.meta.finalizers:
        return obj
    fields = {"finalizers": obj.meta.with_finalizer(finalizer)}
    return await patch_metadata(client, resource, obj, fields)


async def remove_finalizer(
    client: Client, resource: Resource, obj: Object, *finalizers: str
) -> bool:
    """Remove these finalizers from an object; others' finalizers stay.

    Returns whether this call removed one: nothing is sent where none of them is there, and an
    object that is gone meanwhile is left alone.

    Raises:
        Conflict: the object was changed meanwhile.
        NotFound: the server does not serve the kind, and so says nothing about the object.
    """
    finalizers_left = [one for one in obj.meta.finalizers if one not in finalizers]
    if finalizers_left == obj.meta.finalizers:
        return False
    # A merge patch replaces the whole list. The resourceVersion in it makes a Conflict of a
    # finalizer that was added meanwhile, which would be lost otherwise.
    fields = {"finalizers": finalizers_left}
    try:
        await patch_metadata(client, resource, obj, fields)
    except NotFound as error:
        if not error.concerns(obj.meta.name):
            raise
        return False
    return True


Transitions = Callable[[Object, Object], Iterable[Event]]
"""Returns the Events for a change of an object's status, from the old object to the new one."""


class StatusWriter:
    """Writes the statuses of one resource, each together with the Events of its changes."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        recorder: EventRecorder,
        transitions: Transitions,
    ) -> None:
        self._client = client
        self._resource = resource
        self._recorder = recorder
        self._transitions = transitions

    async def write(self, old: Object, body: JSON | None) -> Object:
        """Write the status of ``body`` if it differs from that of ``old``; None writes nothing.

        Returns the stored object, or ``old`` if nothing was written or the object is gone.

        Raises:
            Conflict: the object was changed meanwhile.
            ApiError: the server refused.
        """
        if body is None:
            return old
        try:
            stored = await commit(self._client, self._resource, old, body, subresource="status")
        except NotFound as error:
            if not error.concerns(old.meta.name):
                raise
            return old
        if stored is not old:
            # Only after the write: an event about a status that was refused would be false.
            for event in self._transitions(old, stored):
                self._recorder.event(stored, *event)
        return stored


def difference(old: Object, new: JSON, *, subresource: str = "") -> JSON:
    """Return the merge patch that :func:`commit` would send, without its preconditions.

    Raises:
        ValueError: ``new`` has another name or namespace.
    """
    for field in ("name", "namespace"):
        value = new.get("metadata", {}).get(field, getattr(old.meta, field))
        if value != getattr(old.meta, field):
            raise ValueError(
                f"{old.kind} {old.key}: metadata.{field} cannot become {value}; create another"
            )
    before = old.to_dict()
    if subresource == "status":
        return create_merge_patch(
            {"status": _without_null(before.get("status", {}))},
            {"status": _without_null(new.get("status", {}))},
        )
    return create_merge_patch(_writable(before), _writable(new))


def _writable(body: JSON) -> JSON:
    meta: JSON = {
        name: _without_null(value)
        for name, value in body.items()
        if name not in {"status", "metadata", "apiVersion", "kind"} and value is not None
    }
    metadata = {
        name: _without_null(value)
        for name, value in body.get("metadata", {}).items()
        # Servers leave out {} and [].
        if name not in _FIXED and value
    }
    return {**meta, "metadata": metadata}


def _without_null(value: Any) -> Any:
    """Remove null members: a merge patch cannot set null, so that they would differ for ever."""
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return value
