"""Owners of fields after writes that are no apply, in ``metadata.managedFields``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fairlead.api.meta import JSON
from fairlead.api.timestamps import now
from fairlead_sandbox.patches.apply.managers import (
    FieldManager,
    Managed,
    decode,
    encode,
    only,
    updated,
)
from fairlead_sandbox.patches.apply.paths import NOTHING, MalformedFieldsError, Path, Paths, member
from fairlead_sandbox.patches.apply.shapes import Shape
from fairlead_sandbox.patches.apply.walk import changes


SERVER = "kube-apiserver"
"""Manager of the fields that the server itself changes."""


class NewObject(NamedTuple):
    """A new object before the server sets uid, defaults and allocated fields."""

    shape: Shape
    empty: JSON
    """An empty object of its kind, with which the new one is compared."""
    allocated: Sequence[str]
    """Paths that the server allocates; the writer owns only those that it has sent."""
    given: Paths
    """Paths that the writer has sent."""

    @classmethod
    def of(cls, shape: Shape, empty: JSON, allocated: Sequence[str], body: JSON) -> NewObject:
        """Record a body before the server completes it."""
        given = changes(shape, {}, body).added if allocated else NOTHING
        return cls(shape, empty, allocated, given)

    def entries(self, body: JSON, manager: FieldManager) -> list[JSON]:
        """Return the managedFields of the completed object."""
        managed = updated(self.shape, self.empty, without_entries(body), {}, manager, now())
        if self.allocated:
            fields = managed[manager].fields if manager in managed else NOTHING
            managed = only(managed, manager, fields - frozenset(self._filled_in(fields)))
        return encode(managed)

    def _filled_in(self, fields: Paths) -> Iterator[Path]:
        below = [tuple(map(member, prefix.split("/"))) for prefix in self.allocated]
        for path in fields - self.given:
            if any(path[: len(prefix)] == prefix for prefix in below):
                yield path


def after_update(
    shape: Shape, before: JSON, after: JSON, given: Any, manager: FieldManager
) -> list[JSON]:
    """Return the managedFields of a changed object; [] ends the tracking.

    ``given`` are the managedFields that the writer sent, who may change them. One empty entry
    (``[{}]``) ends the tracking until the next apply, as the API documents.
    """
    stored: list[JSON] = before["metadata"].get("managedFields") or []
    if given == [{}]:
        return []
    entries = _chosen(given, stored)
    if not entries:
        return []
    old, new = without_entries(before), without_entries(after)
    if old == new:
        return entries
    managed = decode(entries)
    result = updated(shape, old, new, managed, manager, now())
    # Encoding anew may order the entries otherwise, and a write that changes nothing would be a
    # change.
    return entries if result == managed else encode(result)


def _chosen(given: Any, stored: list[JSON]) -> list[JSON]:
    """Return the writer's entries if they are valid, else the stored ones."""
    if not given or given == stored:
        return stored
    try:
        return encode(decode(given))
    except MalformedFieldsError:
        return stored


def entries_of(body: JSON) -> Any:
    """Return ``managedFields`` of a body as sent: of any type, None without it."""
    metadata = body.get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def without_entries(body: JSON) -> JSON:
    """Return the body without managedFields."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": metadata}


def managed_by(body: JSON) -> Managed:
    """Return the owners of a stored object."""
    return decode(body["metadata"].get("managedFields"))
