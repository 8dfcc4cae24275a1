"""The timeline of an object: transitions of conditions, Events and writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from fairlead.api.conditions import Condition
from fairlead.api.meta import Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import short
from fairlead.portal.console.objects.history import Transition


MOST = 200
"""Largest number of a timeline's entries."""
What = Literal["condition", "Event", "write", "object"]


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a timeline; ``who`` is its author, "" if unknown."""

    at: str
    what: What
    title: str
    text: str = ""
    who: str = ""
    state: State | None = None
    times: int = 1


class Write(msgspec.Struct, frozen=True, rename="camel"):
    """The last write of a field manager, from ``metadata.managedFields``."""

    manager: str = ""
    operation: str = ""
    time: str = ""
    subresource: str = ""


def writes_of(found: Object) -> list[Write]:
    """Return the last write of each manager, the newest first."""
    try:
        known = found.decode(_Managed).metadata.managed_fields
    except msgspec.ValidationError:
        return []
    return sorted(known, key=lambda one: one.time, reverse=True)


def timeline(
    found: Object,
    conditions: Sequence[Condition],
    turns: Iterable[Transition] = (),
    events: Iterable[Object] = (),
) -> list[TimelineEntry]:
    """Return the timeline of an object, the newest entry first."""
    entries = [*_made(found), *map(_turn, turns)]
    seen = {(one.at, one.title) for one in entries}
    # A condition has its last transition alone; one that the history also has is left out.
    entries += [one for one in map(_stands, conditions) if (one.at, one.title) not in seen]
    entries += [entry for event in events if (entry := _told(event)) is not None]
    entries += map(_written, writes_of(found))
    return sorted(entries, key=lambda one: one.at, reverse=True)[:MOST]


def _made(found: Object) -> list[TimelineEntry]:
    entries = []
    if found.meta.creation_timestamp:
        entries.append(
            TimelineEntry(at=found.meta.creation_timestamp, what="object", title="created")
        )
    if found.meta.deletion_timestamp:
        entries.append(
            TimelineEntry(at=found.meta.deletion_timestamp, what="object", title="deletion began")
        )
    return entries


def _stands(condition: Condition) -> TimelineEntry:
    return TimelineEntry(
        at=short(condition.last_transition_time),
        what="condition",
        title=short(f"{condition.type} is {condition.status}"),
        text=_words(condition.reason, condition.message),
        state=state_of(condition),
    )


def _turn(turn: Transition) -> TimelineEntry:
    as_condition = Condition(type=turn.type, status=turn.status, reason=turn.reason)
    title = f"{turn.type} is {turn.status}"
    return TimelineEntry(
        at=turn.at,
        what="condition",
        title=title,
        text=_words(turn.reason, turn.message),
        state=state_of(as_condition),
    )


def _written(write: Write) -> TimelineEntry:
    part = f"its {short(write.subresource)}" if write.subresource else "it"
    how = "applied" if write.operation == "Apply" else "wrote"
    return TimelineEntry(
        at=short(write.time), what="write", title=f"{how} {part}", who=short(write.manager)
    )


_STATES: Final[dict[str, State]] = {"Normal": "ok", "Warning": "failed"}


def _told(event: Object) -> TimelineEntry | None:
    try:
        told = event.decode(ToldEvent)
    except msgspec.ValidationError:
        return None
    # Recorders of events.k8s.io set event_time alone.
    at = told.last_timestamp or told.event_time or event.meta.creation_timestamp or ""
    return TimelineEntry(
        at=short(at),
        what="Event",
        title=short(told.reason),
        text=short(told.message),
        who=short(told.source.component or told.reporting_component),
        state=_STATES.get(told.type, "unknown"),
        times=max(told.count or 1, 1),
    )


def _words(reason: str, message: str) -> str:
    return ": ".join(part for part in (short(reason), short(message)) if part)


class _Source(msgspec.Struct):
    component: str = ""


class About(msgspec.Struct, rename="camel"):
    """The object that an Event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class ToldEvent(msgspec.Struct, rename="camel"):
    """The fields of an Event (core/v1) that pages show."""

    involved_object: About = msgspec.field(default_factory=About)
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
