"""The objects of a binding that are not in sync, and their next steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Finding
from fairlead.konnector.commands.overview.comparison import AwaitedStep, changed_at
from fairlead.konnector.commands.overview.crossing import (
    EventAbout,
    crossing_finding,
    happened_at,
)
from fairlead.konnector.commands.overview.rows import BoundKind, FetchedBinding, unsynced
from fairlead.konnector.policies.steps import Pair


class UnsyncedObject(msgspec.Struct, frozen=True, rename="camel"):
    """One object that is not in sync."""

    kind: str
    namespace: str
    name: str
    since_seconds: float | None
    """The age of the change that has not crossed, in seconds; None if it is unknown."""
    waits_for: str
    """The event that it waits for; the obstacle if it is failed."""
    state: State = "waiting"
    reason: str = ""
    remedy: str = ""
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
        _row(pair.consumer, step, _finding(bound, kind, pair, step, warnings), warnings, now)
        for kind in bound.kinds or ()
        for pair, step in unsynced(kind)
        if pair.consumer is not None
    ]
    return sorted(rows, key=lambda row: (-(row.since_seconds or 0), row.namespace, row.name))


def _finding(
    bound: FetchedBinding,
    kind: BoundKind,
    pair: Pair,
    step: AwaitedStep,
    warnings: Mapping[str, Object],
) -> Finding:
    warning = warnings.get(pair.consumer.meta.uid) if pair.consumer is not None else None
    return crossing_finding(step, pair, bound.binding, warning, kind.delay(pair.key))


def _row(
    obj: Object,
    step: AwaitedStep,
    finding: Finding,
    warnings: Mapping[str, Object],
    now: datetime,
) -> UnsyncedObject:
    event = warnings.get(obj.meta.uid)
    about_event = event.decode(EventAbout) if event is not None else EventAbout()
    if event is None or about_event.message in finding.message:
        # The finding repeats the message.
        event, about_event = None, EventAbout()
    when = happened_at(event) if event is not None else None
    return UnsyncedObject(
        kind=obj.kind,
        namespace=obj.meta.namespace,
        name=obj.meta.name,
        since_seconds=_age(changed_at(step.side), now),
        waits_for=finding.message.removeprefix("waits for "),
        state=finding.state,
        reason=finding.reason,
        remedy=finding.remedy,
        warning=": ".join(part for part in (about_event.reason, about_event.message) if part),
        warning_seconds=_age(when, now),
    )


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max((now - moment).total_seconds(), 0.0)
