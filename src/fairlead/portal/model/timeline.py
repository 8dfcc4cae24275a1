"""The timeline of an object: transitions of conditions, Events and writes, on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import condition_state, conditions_of, short
from fairlead.portal import bounds


What = Literal["condition", "Event", "write", "object"]
Cluster = Literal["", "here", "provider"]
"""The cluster of an entry: that of the page or the provider's; "" if there is only one."""


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A transition of a condition; ``before`` is the former status, "" for a new condition."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    at: str
    before: str = ""


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a timeline; ``who`` is its author, "" if unknown."""

    at: str
    what: What
    title: str
    text: str = ""
    who: str = ""
    state: State | None = None
    times: int = 1
    cluster: Cluster = ""


class Write(msgspec.Struct, frozen=True, rename="camel"):
    """The last write of a field manager, from ``metadata.managedFields``."""

    manager: str = ""
    operation: str = ""
    time: str = ""
    subresource: str = ""


def writes_of(obj: Object) -> list[Write]:
    """Return the last write of each manager, the newest first."""
    try:
        writes = obj.decode(_Managed).metadata.managed_fields
    except msgspec.ValidationError:
        return []
    return sorted(writes, key=lambda write: write.time, reverse=True)


def timeline(
    obj: Object,
    transitions: Iterable[Transition] = (),
    events: Iterable[Object] = (),
    *,
    cluster: Cluster = "",
) -> list[TimelineEntry]:
    """Return the timeline of an object, the newest entry first."""
    entries = [*_lifetime(obj), *(_transition(obj, one) for one in transitions)]
    listed = {(entry.at, entry.title) for entry in entries}
    # A condition has its last transition alone; one that the history also has is left out.
    last = [_transition(obj, _last(condition)) for condition in conditions_of(obj)]
    entries += [entry for entry in last if (entry.at, entry.title) not in listed]
    entries += [entry for event in events for entry in _event(event, obj)]
    entries += map(_write, writes_of(obj))
    if cluster:
        entries = [msgspec.structs.replace(entry, cluster=cluster) for entry in entries]
    return merged(entries)


def merged(*timelines: Sequence[TimelineEntry]) -> list[TimelineEntry]:
    """Return the entries of several timelines as one, the newest first."""
    entries = [entry for timeline in timelines for entry in timeline]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[: bounds.TIMELINE]


def _lifetime(obj: Object) -> Iterator[TimelineEntry]:
    meta = obj.meta
    if meta.creation_timestamp:
        yield TimelineEntry(at=meta.creation_timestamp, what="object", title="created")
    if meta.deletion_timestamp:
        finalizers = ", ".join(meta.finalizers)
        text = f"finalizers hold it: {finalizers}" if finalizers else ""
        yield TimelineEntry(
            at=meta.deletion_timestamp, what="object", title="deletion began", text=short(text)
        )


def _last(condition: Condition) -> Transition:
    return Transition(
        condition.type,
        condition.status,
        condition.reason,
        condition.message,
        condition.last_transition_time,
    )


def _transition(obj: Object, transition: Transition) -> TimelineEntry:
    condition = Condition(type=transition.type, status=transition.status, reason=transition.reason)
    reason, message = short(transition.reason), short(transition.message)
    return TimelineEntry(
        at=short(transition.at),
        what="condition",
        title=short(f"{transition.type} is {transition.status}"),
        text=": ".join(part for part in (reason, message) if part),
        state=condition_state(obj, condition),
    )


def _write(write: Write) -> TimelineEntry:
    part = f"its {short(write.subresource)}" if write.subresource else "it"
    how = "applied" if write.operation == "Apply" else "wrote"
    return TimelineEntry(
        at=short(write.time), what="write", title=f"{how} {part}", who=short(write.manager)
    )


_STATES: Final[dict[str, State]] = {"Normal": "ok", "Warning": "failed"}


def _event(event: Object, obj: Object) -> Iterator[TimelineEntry]:
    """Yield the entry of an Event, unless it is malformed or about another object."""
    try:
        body = event.decode(ShownEvent)
    except msgspec.ValidationError:
        return
    # Events outlive their object; a new object of the same name has another uid.
    if body.involved_object.uid not in {"", obj.meta.uid}:
        return
    # Recorders of events.k8s.io set event_time alone.
    at = body.last_timestamp or body.event_time or event.meta.creation_timestamp or ""
    yield TimelineEntry(
        at=short(at),
        what="Event",
        title=short(body.reason),
        text=short(body.message),
        who=short(body.source.component or body.reporting_component),
        state=_STATES.get(body.type, "unknown"),
        times=max(body.count or 1, 1),
    )


class _Source(msgspec.Struct):
    component: str = ""


class InvolvedObject(msgspec.Struct, rename="camel"):
    """The object that an Event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class ShownEvent(msgspec.Struct, rename="camel"):
    """The fields of an Event (core/v1) that pages show."""

    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)
    type: str = ""
    reason: str = ""
    message: str = ""
    source: _Source = msgspec.field(default_factory=_Source)
    reporting_component: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    count: int | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: list[Write] = []


class _Managed(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
