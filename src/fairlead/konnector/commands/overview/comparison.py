"""Whether an object and its copy are in sync, and since when they are not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from fairlead.api.meta import Object
from fairlead.api.timestamps import parse_time
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.copies import status_of
from fairlead.konnector.policies.merge import BoundFields, CrossingFields
from fairlead.konnector.policies.mirror import MirroredFields, MirrorPolicy
from fairlead.konnector.policies.steps import (
    Apply,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Replace,
    ReplaceStatus,
    Settle,
    Side,
    Step,
)


class _Managed(msgspec.Struct):
    time: str = ""


class _Times(msgspec.Struct, rename="camel"):
    managed_fields: list[_Managed] = []


class _Managers(msgspec.Struct):
    metadata: _Times = msgspec.field(default_factory=_Times)


_MOST_STEPS = 6
"""Steps of one comparison, more than can follow from two objects."""


class AwaitedStep(NamedTuple):
    """The engine's next step for an object that is not in sync.

    ``side`` is the end whose last change has not reached the other end.
    """

    side: Object
    step: Step


ObjectPolicy = BoundPolicy | MirrorPolicy
"""The policy of either protocol about objects of a bound kind."""


def waiting(policy: ObjectPolicy, pair: Pair) -> AwaitedStep | None:
    """Return the next step for the ends of an object; None if both are in sync.

    An object is in sync if the engine's own policy would leave it as it is. The engine also knows
    the outcome of its writes, which is unknown here. So a write that would only remove members
    from the copy counts as done, for a server that adds defaults restores them each time, and so
    does a status that differs in members that are null.
    """
    fields: CrossingFields = MirroredFields()
    if isinstance(policy, BoundPolicy):
        fields = BoundFields(policy.local)
    elif (refusal := _refusal(policy, pair)) is not None:
        return refusal
    step: Step = InSync()
    for _ in range(_MOST_STEPS):
        step = policy.next_step(pair)
        # The engine asks because its cache has no managedFields; these objects have them.
        if isinstance(step, Read) and pair.provider is not None:
            body = pair.provider.to_dict()
            pair = pair.knowing(owned=fields.owned(body), wrote=fields.wrote(body))
        elif (settled := _as_good_as_done(step, pair)) is not None:
            pair = _remembering(policy, pair, settled)
        else:
            break
    if isinstance(step, InSync) or _has_gone(step, pair):
        return None
    side = _side(step, pair)
    return None if side is None else AwaitedStep(side, step)


def _refusal(policy: MirrorPolicy, pair: Pair) -> AwaitedStep | None:
    """Return the refusal of an object that is in conflict, also before the konnector tells it."""
    obj = pair.consumer
    if obj is None or obj.meta.deleting or policy.covered(obj.meta.namespace) is None:
        return None
    refusal = policy.refusal(pair)
    return None if refusal is None else AwaitedStep(obj, refusal)


def _has_gone(step: Step, pair: Pair) -> bool:
    """Whether a deletion has crossed, so that others alone hold the consumer's object."""
    consumer = pair.consumer
    return isinstance(step, Done) and consumer is not None and consumer.meta.deleting


def _as_good_as_done(step: Step, pair: Pair) -> Side | None:
    """Return the side on which a step would change nothing that lasts, None if there is none."""
    consumer, provider = pair.consumer, pair.provider
    if consumer is None or provider is None:
        return None
    match step:
        case Settle():
            return step.side
        case Replace(side="provider") | Apply(side="provider") if contains(
            provider.to_dict(), step.body
        ):
            return "provider"
        case ReplaceStatus():
            # An empty status is equal to no status.
            there, here = status_of(provider) or None, status_of(consumer) or None
            if contains(there, here) and contains(here, there):
                return "consumer"
    return None


def _remembering(policy: ObjectPolicy, pair: Pair, side: Side) -> Pair:
    """Return the pair with its end on this side as the outcome of a write."""
    came = policy.outcome(side, pair)
    outcomes = dict(pair.outcomes)
    if came is not None:
        outcomes[side] = came
    return pair.knowing(outcomes=outcomes)


def _side(step: Step, pair: Pair) -> Object | None:
    """Return the source of the step: the copy for status and uid, else the consumer's object."""
    match step:
        case ReplaceStatus():
            return pair.provider
        case PatchMetadata() if "finalizers" not in step.metadata:
            return pair.provider
    return pair.consumer


def contains(whole: Any, part: Any) -> bool:
    """Whether every member of ``part`` is in ``whole`` with an equal value.

    Members that only ``whole`` has do not matter, at any depth, nor does a member that is null;
    lists are as long as one another. Booleans are no numbers.
    """
    if part is None:
        return True
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            contains(whole.get(name), value) for name, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(whole) == len(part)
            and all(contains(one, other) for one, other in zip(whole, part, strict=True))
        )
    # In Python True equals 1.
    return bool(whole == part) and isinstance(whole, bool) == isinstance(part, bool)


def changed_at(obj: Object) -> datetime | None:
    """Return the time of an object's last change; None if it does not tell."""
    return max(_times(obj), default=None)


def _times(obj: Object) -> Iterator[datetime]:
    managed = obj.decode(_Managers).metadata.managed_fields
    times = [obj.meta.creation_timestamp, obj.meta.deletion_timestamp]
    for text in (*times, *(entry.time for entry in managed)):
        try:
            if text:
                yield parse_time(text)
        except ValueError:
            continue
