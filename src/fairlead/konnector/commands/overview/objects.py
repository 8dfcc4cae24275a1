"""The objects of a binding that are not in sync, and their next steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.kubebind.conditions import OBJECTS_FAILING, KubeBindCondition
from fairlead.api.meta import Object
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.verdict import Finding, conditions_of, remedy_of, written_at
from fairlead.api.timestamps import format_time, parse_time
from fairlead.konnector.commands.overview.comparison import AwaitedStep, changed_at
from fairlead.konnector.commands.overview.rows import FetchedBinding, unsynced
from fairlead.konnector.policies.steps import (
    DELETION,
    AskNamespace,
    Create,
    Delete,
    Pair,
    PatchMetadata,
    Refuse,
    Replace,
    ReplaceStatus,
    Step,
    Wait,
)


class _Involved(msgspec.Struct):
    uid: str = ""


class EventAbout(msgspec.Struct, rename="camel"):
    """Event (core/v1): its object, its reason and its last time."""

    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None


class UnsyncedObject(msgspec.Struct, frozen=True, rename="camel"):
    """One object that is not in sync."""

    kind: str
    namespace: str
    name: str
    since_seconds: float | None
    """The age of the change that has not crossed, in seconds; None if it is unknown."""
    waits_for: str
    warning: str = ""
    """The last Warning about the object, its reason first."""
    warning_seconds: float | None = None
    """The age of the Warning, in seconds."""


def object_rows(
    bound: FetchedBinding, warnings: Mapping[str, Object], now: datetime
) -> list[UnsyncedObject]:
    """Return the objects of a binding that are not in sync, the longest waiting first.

    Args:
        bound: the data fetched for the binding.
        warnings: the last Warning about each object, by its uid.
        now: the moment from which ages are told.
    """
    rows = [
        _row(
            pair.consumer,
            found.side,
            waits_for(found.step, pair, kind.delay(pair.key)),
            warnings,
            now,
        )
        for kind in bound.kinds or ()
        for pair, found in unsynced(kind)
        if pair.consumer is not None
    ]
    return sorted(rows, key=lambda row: (-(row.since_seconds or 0), row.namespace, row.name))


def _row(
    obj: Object, side: Object, waits: str, warnings: Mapping[str, Object], now: datetime
) -> UnsyncedObject:
    event = warnings.get(obj.meta.uid)
    told = event.decode(EventAbout) if event is not None else EventAbout()
    if event is None or told.message in waits:
        # The awaited step repeats the message.
        event, told = None, EventAbout()
    when = happened_at(event) if event is not None else None
    return UnsyncedObject(
        kind=obj.kind,
        namespace=obj.meta.namespace,
        name=obj.meta.name,
        since_seconds=_age(changed_at(side), now),
        waits_for=waits,
        warning=": ".join(part for part in (told.reason, told.message) if part),
        warning_seconds=_age(when, now),
    )


def waits_for(step: Step, pair: Pair, delay: KubeBindCondition | None = None) -> str:
    """Describe the engine's next step for a person.

    ``delay`` is what the object's provider namespace waits for.
    """
    match step:
        case Refuse():
            return f"a person ({step.reason}): {step.message}"
        case AskNamespace():
            return "a namespace on the provider"
        case Wait() if step.reason == DELETION and pair.provider is not None:
            finalizers = ", ".join(pair.provider.meta.finalizers) or "none"
            return f"its copy to go, which has these finalizers: {finalizers}"
        case Wait() if pair.target is None and delay is not None:
            return f"a provider namespace: {delay.message}"
        case Wait():
            return f"a {step.reason}"
        case Create():
            return "its copy to be created"
        case PatchMetadata() if pair.provider is None:
            return "its copy to be created"
        case Replace():
            return "its last change to reach the copy"
        case ReplaceStatus():
            return "the status of its copy"
        case Delete():
            return "its copy to be deleted"
        case PatchMetadata():
            return "its metadata to be written"
    return "the provider to tell what is there"


SYNC_FAILED = "SyncFailed"
"""Reason of the konnector's Event about an object that a server refuses."""


def crossing_finding(
    found: AwaitedStep,
    pair: Pair,
    binding: Object,
    warning: Object | None = None,
    delay: KubeBindCondition | None = None,
) -> Finding:
    """Return what keeps an object that is not in sync from crossing.

    Args:
        found: its next step.
        pair: the object and its copy.
        binding: its APIServiceBinding, which counts the objects that a server refuses.
        warning: the last Warning about the object.
        delay: what the object's provider namespace waits for.
    """
    step = found.step
    waits = f"waits for {waits_for(step, pair, delay)}"
    if isinstance(step, Refuse):
        return Finding(
            "failed", waits, step.reason, remedy=remedy_of(step.reason, place="consumer")
        )
    if isinstance(step, Wait) and pair.target is None and delay is not None:
        remedy = remedy_of(delay.reason, place="consumer")
        state = KUBE_BIND.state(delay.reason)
        return Finding(state, waits, delay.reason, delay.last_transition_time, remedy)
    refusal, since = _refusal(pair, binding, warning)
    if not refusal:
        at = changed_at(found.side)
        return Finding("waiting", waits, since=format_time(at) if at is not None else "")
    here = getattr(step, "side", "provider") == "consumer"
    side = "this cluster" if here else "the provider"
    message = f"{side} refuses its last change: {refusal}"
    return Finding("failed", message, SYNC_FAILED, since, _remedy(refusal, here=here))


def _refusal(pair: Pair, binding: Object, warning: Object | None) -> tuple[str, str]:
    """Return a server's answer to the object's last change, and its time; "" for none."""
    obj = pair.consumer
    if obj is None:
        return "", ""
    failing = get_condition(conditions_of(binding), OBJECTS_FAILING)
    fails = failing is not None and failing.status == "True"
    told = warning.decode(EventAbout) if warning is not None else EventAbout()
    if warning is not None and told.reason == SYNC_FAILED:
        at = format_time(happened_at(warning))
        # After an edit the Event is about the spec before it, until the server answers again.
        if fails or at >= written_at(obj):
            return told.message, at
    # Without the right to read Events: the condition quotes the answer to the first object.
    if failing is not None and fails and f"written: {obj.kind} {obj.key}" in failing.message:
        _, _, quoted = failing.message.partition("; the first because ")
        return quoted.partition(": ")[2], failing.last_transition_time
    return "", ""


def _remedy(refusal: str, *, here: bool) -> str:
    """Return what helps against a server's refusal of an object."""
    if " is invalid: " in refusal:
        return "correct the fields of the object that the message names"
    if "exceeded quota" in refusal:
        raised = "have the quota raised" if here else "ask the provider's team for a larger quota"
        return f"{raised}, or delete objects that are not needed"
    # Policies, too, say what "cannot" be; a missing right is always a user's.
    if 'User "' in refusal and '" cannot ' in refusal:
        if here:
            return "give the konnector's ServiceAccount the right that the message names"
        return "ask the provider's team to give the consumer the right that the message names"
    if here:
        return "have the policy or webhook that the message names let the konnector through"
    return (
        "change in the object what the provider's policy refuses, or ask the provider's team to"
        " admit it"
    )


def happened_at(event: Object) -> datetime:
    """Return when an Event happened last; the earliest time if it does not tell."""
    told = event.decode(EventAbout)
    for text in (told.last_timestamp, told.event_time, event.meta.creation_timestamp):
        try:
            if text:
                return parse_time(text)
        except ValueError:
            continue
    return parse_time("1970-01-01T00:00:00Z")


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max((now - moment).total_seconds(), 0.0)
