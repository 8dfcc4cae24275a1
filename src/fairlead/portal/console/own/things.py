"""Bindings and related objects of a cluster, as one look finds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Finding, Judgement, verdict_of
from fairlead.api.resource import Resource
from fairlead.api.timestamps import format_time, moment
from fairlead.konnector.commands.overview.comparison import AwaitedStep
from fairlead.konnector.commands.overview.crossing import crossing_finding, rewriting_finding
from fairlead.konnector.commands.overview.links import binding_link
from fairlead.konnector.commands.overview.objects import UnsyncedObject, object_rows
from fairlead.konnector.commands.overview.rows import (
    BoundKind,
    FetchedBinding,
    make_row,
    unsynced,
)
from fairlead.konnector.policies.steps import ReplaceStatus
from fairlead.portal.model.lists import ObjectRow
from fairlead.portal.model.thing import ConditionRow, shown_conditions


class Crossing(msgspec.Struct, frozen=True):
    """An object of a binding: which parts are in sync, and what it waits for."""

    thing: ObjectRow
    spec: str
    status: str
    waits_for: str = ""
    warning: str = ""


class BoundThing(msgspec.Struct, frozen=True):
    """A binding: the line of ``fairlead bindings``, its conditions and its objects.

    ``lag_since`` is the time of the oldest change that is not in sync. ``silent_since`` is None
    while a konnector works on the binding, and "" if it is unknown since when none does.
    """

    name: str
    provider: str
    resources: tuple[str, ...]
    in_sync: int | None
    objects: int | None
    lag_since: str
    heartbeat: str
    problem: str
    helps: str
    state: State
    since: str
    deleting: bool
    conditions: tuple[ConditionRow, ...]
    crossings: tuple[Crossing, ...]
    silent_since: str | None = None


def bound_of(found: FetchedBinding, warnings: Mapping[str, Object]) -> BoundThing:
    """Return the page's data of a fetched binding."""
    now = moment()
    row, link = make_row(found, now), binding_link(found)
    lag = None if row.lag_seconds is None else now - timedelta(seconds=row.lag_seconds)
    return BoundThing(
        name=row.binding,
        provider=row.provider,
        resources=tuple(row.resources),
        in_sync=row.in_sync,
        objects=row.objects,
        lag_since=_second(lag),
        heartbeat=row.last_heartbeat_time or "",
        problem=row.problem or next((f"remark: {one.text}" for one in row.remarks), ""),
        helps=link.remedy if link.state != "ok" else "",
        state=link.state,
        since=link.since or verdict_of(found.binding).since,
        deleting=found.binding.meta.deleting,
        conditions=shown_conditions(found.binding),
        crossings=tuple(_crossings(found, warnings, now)),
        silent_since=_silent_since(found),
    )


def _silent_since(found: FetchedBinding) -> str | None:
    if found.stop is not None:
        return found.stop.since
    return "" if found.absence else None


def binding_thing(found: BoundThing) -> ObjectRow:
    """Return a binding as a thing."""
    about = found.problem
    if not about and found.in_sync is not None and found.in_sync != found.objects:
        about = f"{found.in_sync} of {found.objects} objects are in sync"
    resource = APISERVICEBINDINGS
    return ObjectRow(
        kind=resource.kind,
        namespace="",
        name=found.name,
        resource=resource.group_resource,
        state=found.state,
        about=about,
        since=found.since,
        helps=found.helps,
    )


def thing_of(resource: Resource, found: Object, findings: Iterable[Finding] = ()) -> ObjectRow:
    """Return an object as a thing, with the verdict on it."""
    verdict, meta = verdict_of(found, findings), found.meta
    return ObjectRow(
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        resource=resource.group_resource,
        state=verdict.state,
        about=note_of(verdict),
        since=verdict.since,
        helps=verdict.remedy if verdict.state != "ok" else "",
    )


def note_of(verdict: Judgement) -> str:
    """Return what a list says of a verdict beside its state: why, or its first remark."""
    if verdict.state != "ok":
        return verdict.text or f"{verdict.type} is not True"
    return next((f"remark: {remark.text}" for remark in verdict.remarks), "")


def _crossings(
    found: FetchedBinding, warnings: Mapping[str, Object], now: datetime
) -> Iterator[Crossing]:
    told = {(row.kind, row.namespace, row.name): row for row in object_rows(found, warnings, now)}
    for kind in found.kinds or ():
        awaited = {
            pair.key: (
                step,
                crossing_finding(
                    *(step, pair, found.binding, _warning(warnings, pair.consumer)),
                    kind.delay(pair.key),
                ),
            )
            for pair, step in unsynced(kind)
        }
        for one in sorted(kind.objects, key=lambda one: one.key):
            row = told.get((one.kind, *one.key))
            fight = rewriting_finding(one, found.binding, _warning(warnings, one))
            yield _crossing(kind, one, awaited.get(one.key), row, fight)


def _warning(warnings: Mapping[str, Object], found: Object | None) -> Object | None:
    return warnings.get(found.meta.uid) if found is not None else None


def _crossing(
    kind: BoundKind,
    one: Object,
    awaited: tuple[AwaitedStep, Finding] | None,
    row: UnsyncedObject | None,
    fight: Finding | None,
) -> Crossing:
    resource = kind.resource or Resource("", "", one.kind.lower(), one.kind)
    if kind.copies is None:
        thing = thing_of(resource, one, [Finding("unknown", "the provider was not seen")])
        return Crossing(thing, "not seen", "not seen")
    if awaited is None or row is None:
        # Between two writes an object that others change looks as if it were in sync.
        thing = thing_of(resource, one, [fight or Finding("ok", "is in sync")])
        return Crossing(thing, "sent", "returned")
    step, finding = awaited
    thing = thing_of(resource, one, [finding])
    # Only the status is left to do, so the spec has arrived at the provider.
    sent = isinstance(step.step, ReplaceStatus)
    return Crossing(
        thing,
        "sent" if sent else "not sent yet",
        "not returned yet",
        row.waits_for,
        row.warning,
    )


def _second(found: datetime | None) -> str:
    """Return a time rounded to the second, as times of objects are."""
    return "" if found is None else format_time(found + timedelta(milliseconds=500))
