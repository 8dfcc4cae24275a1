"""Order of the deletion of a revoked consumer: namespaces, copies, cluster namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.meta import Object
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
    """Objects to delete; ``count`` asks for the copies, ``waiting`` names awaited objects."""

    namespaces: list[Object] = []
    copies: list[Found] = []
    count: bool = False
    waiting: str = ""


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
        names = ", ".join(sorted(one.meta.name for one in state.owned))
        due = [one for one in state.owned if not one.meta.deleting]
        return ClearingPlan(namespaces=due, waiting=f"the provider namespaces {names}")
    if state.copies is None:
        return ClearingPlan(count=True)
    if state.copies:
        left = [copy for copy in state.copies if not copy[1].meta.deleting]
        first = state.copies[0][1]
        text = f"{len(state.copies)} copies, such as {first.kind} {first.key}"
        return ClearingPlan(copies=left, waiting=text)
    if state.unseen:
        return ClearingPlan(waiting="; ".join(state.unseen))
    return ClearingPlan(namespaces=[consumer])
