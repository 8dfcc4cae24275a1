"""The rows of the overview, made from the data of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import APIServiceBinding, BindingStatus, ClusterBinding, crd_name
from fairlead.api.kubebind.conditions import (
    READY,
    WRONG_WHILE_TRUE,
    KubeBindCondition,
    get_condition,
)
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.kubebind import KONNECTOR, KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.api.resource import Resource
from fairlead.api.timestamps import parse_time
from fairlead.konnector.commands.overview.comparison import AwaitedStep, changed_at, waiting
from fairlead.konnector.commands.readiness import PENDING
from fairlead.konnector.controllers.unbind.reconcile import UNBINDING
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.isolation import IsolationStrategy
from fairlead.konnector.policies.steps import Pair


class ProviderCopies(msgspec.Struct, frozen=True):
    """The provider's objects of one kind, their places, and the policy that compares them."""

    policy: BoundPolicy
    strategy: IsolationStrategy
    objects: Mapping[Key, Object]


class BoundKind(msgspec.Struct, frozen=True):
    """The objects of one bound kind; ``copies`` is None when the provider was not seen."""

    objects: Sequence[Object]
    copies: ProviderCopies | None = None
    resource: Resource | None = None


class FetchedBinding(msgspec.Struct, frozen=True):
    """A binding and the data fetched for it.

    ``problem`` tells of a failed request, ``reason`` is its reason; ``reached`` is True if the
    provider answered everything. ``absence`` is why no konnector works on the binding, if none
    does.
    """

    binding: Object
    kinds: Sequence[BoundKind] | None = None
    """None if the consumer's own objects could not be listed either."""
    cluster_binding: ClusterBinding | None = None
    problem: str = ""
    reason: str = "NotReached"
    reached: bool = False
    absence: str = ""


class OverviewRow(msgspec.Struct, frozen=True, rename="camel"):
    """One line about one binding; unknown numbers are None.

    ``state``, ``reason`` and ``remedy`` describe its problem; a reason of "" has a text alone.
    """

    binding: str
    provider: str
    resources: list[str]
    in_sync: int | None
    objects: int | None
    lag_seconds: float | None
    """Age of the oldest change that has not crossed; None also when there is no such change."""
    last_heartbeat_time: str | None
    problem: str
    state: State = "ok"
    reason: str = ""
    remedy: str = ""

    def heartbeat_age(self, now: datetime) -> float | None:
        """Return the seconds since the last heartbeat; None if none is known."""
        try:
            return _seconds(now, parse_time(self.last_heartbeat_time or ""))
        except ValueError:
            return None


def make_row(bound: FetchedBinding, now: datetime) -> OverviewRow:
    """Return the line about one binding at a moment."""
    try:
        status = bound.binding.decode(APIServiceBinding).status
    except msgspec.ValidationError:
        status = BindingStatus()
    found = fault(bound)
    cluster = bound.cluster_binding
    sides = [found.side for kind in bound.kinds or () for _, found in unsynced(kind)]
    objects = None if bound.kinds is None else sum(len(kind.objects) for kind in bound.kinds)
    since = [moment for side in sides if (moment := changed_at(side)) is not None]
    pretty = cluster.spec.provider_pretty_name if cluster is not None else ""
    return OverviewRow(
        binding=bound.binding.meta.name,
        provider=status.provider_pretty_name or pretty,
        resources=[crd_name(item.resource, item.group) for item in status.bound_schemas],
        in_sync=objects - len(sides) if bound.reached and objects is not None else None,
        objects=objects,
        lag_seconds=_seconds(now, min(since)) if since else None,
        last_heartbeat_time=(cluster.status.last_heartbeat_time or None) if cluster else None,
        problem=found.text if found is not None else "",
        state=found.state if found is not None else "ok",
        reason=found.reason if found is not None else "",
        remedy=found.remedy if found is not None else "",
    )


def unsynced(kind: BoundKind) -> Iterable[tuple[Pair, AwaitedStep]]:
    """Yield the objects of a kind that are not in sync, each with its next step."""
    copies = kind.copies
    if copies is None:
        return
    for obj in kind.objects:
        target, _, refusal = copies.strategy.place(obj.key)
        pair = Pair(
            key=obj.key,
            consumer=obj,
            provider=copies.objects.get(target) if target is not None else None,
            target=target,
            namespace_refusal=refusal,
        )
        found = waiting(copies.policy, pair)
        if found is not None:
            yield pair, found


class BindingFault(NamedTuple):
    """A fault of a binding, and its severity.

    ``reason`` is "" if there is only a message; ``line`` replaces the usual line of both.
    """

    reason: str
    message: str
    state: State
    since: str = ""
    line: str = ""

    @property
    def text(self) -> str:
        """Reason and message in one line."""
        return self.line or ": ".join(part for part in (self.reason, self.message) if part)

    @property
    def remedy(self) -> str:
        """The remedy for the reason."""
        silent = not self.reason and self.state == "waiting"
        return KONNECTOR if silent else KUBE_BIND.helps(self.reason)


def fault(bound: FetchedBinding) -> BindingFault | None:
    """Return the first fault of a binding in all fetched data; None if it is well."""
    try:
        conditions = bound.binding.decode(APIServiceBinding).status.conditions
    except msgspec.ValidationError as error:
        return _plain("Invalid", f"it cannot be read: {error}")
    if bound.problem:
        return _plain(bound.reason, bound.problem)
    ready = get_condition(conditions, READY)
    if ready is None or ready.reason == PENDING:
        return _plain(PENDING, f"no konnector has picked it up: {bound.absence}")
    wrong = (get_condition(conditions, type_) for type_ in WRONG_WHILE_TRUE)
    found = next((one for one in wrong if one is not None and state_of(one) != "ok"), None)
    # These conditions are no part of Ready: a binding that is Ready may still have one.
    if ready.status == "True" and found is not None:
        return _told(found)
    unwell = next((one for one in conditions if _unwell(one)), None)
    if unwell is not None:
        return _told(unwell)
    if bound.binding.meta.deleting:
        return _plain(UNBINDING, "it is being deleted")
    return _providers_fault(bound.cluster_binding)


def _plain(reason: str, message: str) -> BindingFault:
    """Return a fault that is shown by its message alone."""
    return BindingFault(reason, message, KUBE_BIND.state(reason), line=message)


def _unwell(condition: KubeBindCondition) -> bool:
    return condition.status != "True" and condition.type not in WRONG_WHILE_TRUE


def _providers_fault(found: ClusterBinding | None) -> BindingFault | None:
    """Return the provider's report about the connection, which the binding does not have."""
    ready = get_condition(found.status.conditions, READY) if found is not None else None
    if ready is None or ready.status == "True":
        return None
    told = _told(ready)
    message, line = f"on the provider: {told.message}", f"on the provider: {told.text}"
    return told._replace(message=message, line=line)


def _told(condition: KubeBindCondition) -> BindingFault:
    message, state = condition.message, state_of(condition)
    if not condition.reason and not message:
        message = f"{condition.type} is {condition.status}"
    if state == "unknown":
        # The konnector has yet to report it.
        state = "waiting"
    return BindingFault(condition.reason, message, state, condition.last_transition_time)


def _seconds(now: datetime, then: datetime) -> float:
    """Return the seconds between two times, 0 if the clocks disagree."""
    return max((now - then).total_seconds(), 0.0)
