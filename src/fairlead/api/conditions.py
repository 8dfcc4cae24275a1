"""Conditions as ``metav1.Condition`` has them.

https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
kube-bind's own conditions carry a severity and live in :mod:`fairlead.api.kubebind`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from fairlead.api.meta import JSON


ConditionStatus = Literal["True", "False", "Unknown"]


class Event(NamedTuple):
    """Type, reason and message of an Event (core/v1)."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Condition(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A condition, as ``metav1.Condition``; the time is RFC 3339."""

    type: Annotated[str, msgspec.Meta(description="Type of the condition, such as Ready.")]
    status: Annotated[ConditionStatus, msgspec.Meta(description="Whether the condition holds.")]
    reason: Annotated[
        str,
        msgspec.Meta(
            description="The reason as one word; the page Reasons of the manual says what to do."
        ),
    ] = ""
    message: Annotated[
        str, msgspec.Meta(description="The reason in a sentence, with the names of the objects.")
    ] = ""
    last_transition_time: Annotated[
        str, msgspec.Meta(description="When the status of the condition last changed.")
    ] = ""
    observed_generation: Annotated[
        int, msgspec.Meta(description="The generation of the spec that the condition describes.")
    ] = 0


_FIELDS = {
    "type": str,
    "status": str,
    "reason": str,
    "message": str,
    "lastTransitionTime": str,
    "observedGeneration": int,
}
"""Types of a condition's fields in JSON."""


C = TypeVar("C", bound=Condition)


def set_condition(conditions: Iterable[C], new: C, *, now: str) -> list[C]:
    """Return the conditions with ``new`` in the place of the one of its type, or at the end.

    The transition time changes only with the status (API conventions).
    """
    result: list[C] = []
    is_present = False
    for old in conditions:
        if old.type != new.type:
            result.append(old)
            continue
        is_present = True
        # A new reason or message alone is no transition.
        since = old.last_transition_time if old.status == new.status else now
        # One that was stored without a time gets one, which the schema of metav1.Condition
        # requires.
        result.append(msgspec.structs.replace(new, last_transition_time=since or now))
    if not is_present:
        result.append(msgspec.structs.replace(new, last_transition_time=now))
    return result


def stored_conditions(body: JSON) -> list[Condition]:
    """Return the conditions of an object's status, each read for itself.

    One without a type or a known status is left out. Another field of a wrong type counts as
    missing: some writers put null where they have no time.
    """
    status = body.get("status")
    stored = status.get("conditions") if isinstance(status, dict) else None
    conditions = (_condition(item) for item in (stored if isinstance(stored, list) else []))
    return [condition for condition in conditions if condition is not None]


def _condition(item: Any) -> Condition | None:
    if not isinstance(item, dict):
        return None
    fields = {
        name: item[name]
        for name, type_ in _FIELDS.items()
        # Not isinstance: True is an int.
        if type(item.get(name)) is type_
    }
    try:
        return msgspec.convert(fields, Condition)
    except msgspec.ValidationError:
        return None


def get_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of this type, None if it was never set."""
    return next((condition for condition in conditions if condition.type == type_), None)


def turned(
    old: Iterable[Condition], new: Iterable[Condition], type_: str, *, good: str = ""
) -> list[Event]:
    """Return the Event for a condition whose status or reason has changed, else no Event.

    Args:
        old: the conditions as they were stored.
        new: the conditions as they are stored now.
        type_: the type of the condition.
        good: the message where the condition is True and has none of its own.
    """
    before, after = get_condition(old, type_), get_condition(new, type_)
    if after is None:
        return []
    # Not the message: it may change at every pass.
    if before is not None and (before.status, before.reason) == (after.status, after.reason):
        return []
    if after.status == "True":
        return [Event("Normal", after.reason, after.message or good)]
    return [Event("Warning", after.reason, after.message or f"{type_} is {after.status}")]


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition of this type is set and True."""
    condition = get_condition(conditions, type_)
    return condition is not None and condition.status == "True"
