"""Order of the deletion of a revoked consumer: namespaces, copies, cluster namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind.conditions import (
    CLEARED,
    OBJECTS_REMAIN,
    OBJECTS_UNKNOWN,
    KubeBindCondition,
    false,
)
from fairlead.api.meta import Object
from fairlead.api.remains import remaining_text
from fairlead.api.resource import Resource
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of


Found = tuple[Resource, Object]
"""A copy and its kind."""


class State(NamedTuple):
    """The objects of a consumer.

    ``consumer`` is its cluster namespace, None where there is none, ``binding`` the ClusterBinding
    in it, and ``owned`` are its provider namespaces. ``copies`` are its objects elsewhere, None
    before they were listed; ``unseen`` has a message for each kind that cannot be listed.
    """

    consumer: Object | None
    binding: Object | None
    owned: Sequence[Object]
    copies: Sequence[Found] | None = None
    unseen: Sequence[str] = ()


class ClearingPlan(msgspec.Struct, kw_only=True, frozen=True):
    """Objects to delete; ``count`` asks for the copies, ``condition`` names awaited objects."""

    namespaces: list[Object] = []
    copies: list[Found] = []
    count: bool = False
    condition: KubeBindCondition | None = None


def reconcile(state: State) -> ClearingPlan:
    """Return the next step for a consumer.

    The cluster namespace is deleted last, and not while a kind cannot be listed: it has the
    identity, by which the consumer is found, and the exports, which name the kinds.
    """
    consumer = state.consumer
    if consumer is None or consumer.meta.deleting or not identity_of(consumer):
        return ClearingPlan()
    if not record_of(state.binding).clearing:
        return ClearingPlan()
    if state.owned:
        due = [one for one in state.owned if not one.meta.deleting]
        return ClearingPlan(namespaces=due, condition=_remaining(state.owned))
    if state.copies is None:
        return ClearingPlan(count=True)
    if state.copies:
        due_copies = [copy for copy in state.copies if not copy[1].meta.deleting]
        return ClearingPlan(
            copies=due_copies, condition=_remaining([copy for _, copy in state.copies])
        )
    if state.unseen:
        message = "; ".join(state.unseen)
        return ClearingPlan(condition=false(CLEARED, OBJECTS_UNKNOWN, message))
    return ClearingPlan(namespaces=[consumer], condition=_remaining([consumer]))


def _remaining(objects: Sequence[Object]) -> KubeBindCondition:
    message = remaining_text(sorted(objects, key=lambda obj: obj.key))
    return false(CLEARED, OBJECTS_REMAIN, message, severity="Info")
