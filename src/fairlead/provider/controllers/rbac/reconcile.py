"""Decision about the rights of an export: wanted objects are applied, others deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.provider.rights import ORDER, Grounds, Id, rights


class RightsState(NamedTuple):
    """Grounds of an export's rights, and the existing objects.

    ``grounds`` is None if the export is gone; ``existing`` are the objects that this controller
    made for it before. ``places`` are the namespaces that are compared, "" for the whole cluster;
    None compares all.
    """

    grounds: Grounds | None
    existing: Mapping[Id, Object]
    places: frozenset[str] | None = None


class RightsPlan(msgspec.Struct, kw_only=True, frozen=True):
    """Objects to apply, roles before their bindings, and objects to delete, bindings first."""

    apply: list[tuple[Resource, JSON]] = []
    delete: list[Id] = []


def reconcile(state: RightsState) -> RightsPlan:
    """Decide which roles and bindings of an export are applied and which are deleted."""
    places = state.places
    grants = {
        identity: body
        for identity, body in (rights(state.grounds) if state.grounds is not None else {}).items()
        if places is None or identity.key.namespace in places
    }
    leftover = [identity for identity in state.existing if identity not in grants]
    return RightsPlan(
        apply=[(identity.resource, body) for identity, body in grants.items()],
        delete=sorted(leftover, key=lambda identity: -ORDER.index(identity.resource)),
    )
