"""The obstacle of an object that is not in sync, and the remedy."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.kbind.names import FORBIDDEN
from fairlead.api.kubebind.conditions import (
    OBJECTS_FAILING,
    OBJECTS_REWRITTEN,
    KubeBindCondition,
)
from fairlead.api.meta import Object
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.verdict import (
    Finding,
    conditions_of,
    protocol_of,
    remedy_of,
    written_at,
)
from fairlead.api.timestamps import format_time, parse_time
from fairlead.konnector.commands.overview.comparison import AwaitedStep, changed_at
from fairlead.konnector.policies.steps import (
    COPY_DELETED,
    DELETION,
    SYNC_FAILED,
    WRITE_UNDONE,
    Apply,
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


def happened_at(event: Object) -> datetime:
    """Return when an Event happened last; the earliest time if it does not tell."""
    body = event.decode(EventAbout)
    for text in (body.last_timestamp, body.event_time, event.meta.creation_timestamp):
        try:
            if text:
                return parse_time(text)
        except ValueError:
            continue
    return parse_time("1970-01-01T00:00:00Z")


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
            return f"its copy to disappear, which has these finalizers: {finalizers}"
        case Wait() if pair.target is None and delay is not None:
            return f"a provider namespace: {delay.message}"
        case Wait():
            return f"a {step.reason}"
        case Create():
            return "its copy to be created"
        case PatchMetadata() if pair.provider is None and _is_leaving(pair):
            return "the konnector to remove its finalizer, since its copy is gone"
        case PatchMetadata() | Apply() if pair.provider is None:
            return "its copy to be created"
        case Replace() | Apply():
            return "its last change to reach the copy"
        case ReplaceStatus():
            return "the status of its copy"
        case Delete():
            return "its copy to be deleted"
        case PatchMetadata():
            return "its metadata to be written"
    return "the provider's list of objects"


def _is_leaving(pair: Pair) -> bool:
    return pair.consumer is not None and pair.consumer.meta.deleting


def crossing_finding(
    awaited: AwaitedStep,
    pair: Pair,
    binding: Object,
    warning: Object | None = None,
    delay: KubeBindCondition | None = None,
) -> Finding:
    """Return what keeps an object that is not in sync from crossing.

    Args:
        awaited: its next step.
        pair: the object and its copy.
        binding: its binding, which counts the objects that a server refuses.
        warning: the last Warning about the object.
        delay: what the object's provider namespace waits for.
    """
    step = awaited.step
    waits = f"waits for {waits_for(step, pair, delay)}"
    if isinstance(step, Refuse):
        remedy = remedy_of(step.reason, place="consumer", protocol=protocol_of(binding))
        return Finding("failed", waits, step.reason, remedy=remedy)
    if isinstance(step, Wait) and pair.target is None and delay is not None:
        remedy = remedy_of(delay.reason, place="consumer")
        state = KUBE_BIND.state(delay.reason)
        return Finding(state, waits, delay.reason, delay.last_transition_time, remedy)
    fight = rewriting_finding(pair.consumer, binding, warning)
    if fight is not None:
        return fight
    refusal, since = _refusal(pair, binding, warning)
    if not refusal:
        at = changed_at(awaited.side)
        return Finding("waiting", waits, since=format_time(at) if at is not None else "")
    here = getattr(step, "side", "provider") == "consumer"
    side = "this cluster" if here else "the provider"
    message = f"{side} refuses its last change: {refusal}"
    return Finding("failed", message, SYNC_FAILED, since, _remedy(refusal, here=here))


def rewriting_finding(
    obj: Object | None, binding: Object, warning: Object | None = None
) -> Finding | None:
    """Return that another program undoes what the konnector writes to an object; None if none.

    Between two writes the object may look as if it were in sync, or as if it only waited.

    Args:
        obj: the consumer's object.
        binding: its binding, which names the first objects of which this is so.
        warning: the last Warning about the object.
    """
    rewritten = get_condition(conditions_of(binding), OBJECTS_REWRITTEN)
    if obj is None or rewritten is None or rewritten.status != "True":
        return None
    _, named, rest = rewritten.message.partition(f"{obj.kind} {obj.key} (")
    if not named and not _MORE.search(rewritten.message):
        # An Event stays for an hour when the cause is gone.
        return None
    event = warning.decode(EventAbout) if warning is not None else EventAbout()
    if warning is not None and event.reason in {WRITE_UNDONE, COPY_DELETED}:
        # The Event is as old as the fight, its last time is that of the latest write.
        since = warning.meta.creation_timestamp or format_time(happened_at(warning))
        reason, message = event.reason, event.message
    else:
        if not named:
            return None
        reason, since = rewritten.reason, rewritten.last_transition_time
        who = rest.partition(")")[0]
        message = f"another writer undoes the konnector's writes to it again and again: {who}"
    remedy = remedy_of(reason, place="consumer")
    return Finding("failed", message, reason, since, remedy)


_MORE = re.compile(r", and \d+ more")
"""End of a list that does not name all objects."""


def _refusal(pair: Pair, binding: Object, warning: Object | None) -> tuple[str, str]:
    """Return a server's answer to the object's last change, and its time; "" for none."""
    obj = pair.consumer
    if obj is None:
        return "", ""
    failing = get_condition(conditions_of(binding), OBJECTS_FAILING)
    fails = failing is not None and failing.status == "True"
    event = warning.decode(EventAbout) if warning is not None else EventAbout()
    if warning is not None and event.reason in _REFUSED:
        at = format_time(happened_at(warning))
        # After an edit the Event is about the spec before it, until the server answers again.
        if fails or at >= written_at(obj):
            return event.message, at
    # Without the right to read Events: the condition quotes the answer to the first object.
    if failing is not None and fails and f"written: {obj.kind} {obj.key}" in failing.message:
        _, _, quoted = failing.message.partition("; the first because ")
        return quoted.partition(": ")[2], failing.last_transition_time
    return "", ""


_REFUSED = frozenset({SYNC_FAILED, FORBIDDEN})
"""Reasons of Events about a server's refusal; the second one is kbind v2's."""


def _remedy(refusal: str, *, here: bool) -> str:
    """Return what helps against a server's refusal of an object."""
    if " is invalid: " in refusal:
        return "correct the fields of the object that the message names"
    if "exceeded quota" in refusal:
        raised = "ask for a larger quota" if here else "ask the provider's team for a larger quota"
        return f"{raised}, or delete objects that are not needed"
    # Policies, too, say what "cannot" be; a missing right is always a user's.
    if 'User "' in refusal and '" cannot ' in refusal:
        if here:
            return "give the konnector's ServiceAccount the right that the message names"
        return "ask the provider's team to give the consumer the right that the message names"
    if here:
        return "make the policy or webhook that the message names admit the konnector's writes"
    return (
        "change in the object what the provider's policy refuses, or ask the provider's team to"
        " admit it"
    )
