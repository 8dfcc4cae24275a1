"""In which order what a revoked consumer had goes: namespaces, copies, and the identity last."""

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
    """What a consumer has.

    ``consumer`` is its cluster namespace, None where there is none, ``binding`` the ClusterBinding
    in it, and ``owned`` are its provider namespaces. ``copies`` are its objects elsewhere, None
    as long as they were not looked at, and ``unseen`` is why kinds could not be.
    """

    consumer: Object | None
    binding: Object | None
    owned: Sequence[Object]
    copies: Sequence[Found] | None = None
    unseen: Sequence[str] = ()


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What to delete; ``look`` asks for a look at the copies, ``waiting`` says what is awaited."""

    namespaces: list[Object] = []
    copies: list[Found] = []
    look: bool = False
    waiting: str = ""


def reconcile(state: State) -> Plan:
    """What to do next about a consumer that is to be cleared away.

    The cluster namespace says whose all of it is, and its exports say which kinds: it goes when
    nothing else is left, and stays as long as that is not known.
    """
    consumer = state.consumer
    if consumer is None or consumer.meta.deleting or not identity_of(consumer):
        return Plan()
    if not record_of(state.binding).clearing:
        return Plan()
    if state.owned:
        names = ", ".join(sorted(one.meta.name for one in state.owned))
        due = [one for one in state.owned if not one.meta.deleting]
        return Plan(namespaces=due, waiting=f"the provider namespaces {names}")
    if state.copies is None:
        return Plan(look=True)
    if state.copies:
        left = [copy for copy in state.copies if not copy[1].meta.deleting]
        first = state.copies[0][1]
        told = f"{len(state.copies)} copies, such as {first.kind} {first.key}"
        return Plan(copies=left, waiting=told)
    if state.unseen:
        return Plan(waiting="; ".join(state.unseen))
    return Plan(namespaces=[consumer])
