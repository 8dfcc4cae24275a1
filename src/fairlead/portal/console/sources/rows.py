"""Rows and pages of bindings and of their objects, from one look. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import Finding, verdict_of
from fairlead.api.resource import Resource
from fairlead.api.timestamps import format_time, moment
from fairlead.konnector.commands.overview.crossing import crossing_finding, rewriting_finding
from fairlead.konnector.commands.overview.rows import (
    FetchedBinding,
    OverviewRow,
    make_row,
    unsynced,
)
from fairlead.konnector.policies.steps import ReplaceStatus
from fairlead.portal.console.pages.viewing import path_of
from fairlead.portal.model.lists import BindingDetail, BindingRow, Counts, ObjectRow, row_of
from fairlead.portal.model.thing import shown_conditions


def bound_of(bound: FetchedBinding, warnings: Mapping[str, Object]) -> BindingDetail:
    """Return the page of a fetched APIServiceBinding."""
    now = moment()
    row = make_row(bound, now)
    objects = tuple(crossings(bound, warnings))
    return BindingDetail(
        row=binding_row(bound, row, objects, now),
        conditions=shown_conditions(bound.binding),
        objects=objects,
        crumbs=(("Bindings", "/bindings"), (row.provider, "")),
        unbind=path_of("bindings", row.binding, "unbind"),
        unbinds=bound.binding.meta.deleting,
    )


def binding_row(
    bound: FetchedBinding, row: OverviewRow, objects: Sequence[ObjectRow], now: datetime
) -> BindingRow:
    """Return the row of a fetched binding, made of the line that ``fairlead bindings`` prints."""
    lag = None if row.lag_seconds is None else now - timedelta(seconds=row.lag_seconds)
    stop = bound.stop
    return BindingRow(
        cluster=row.provider,
        binding=row.binding,
        at=path_of("bindings", row.binding),
        state=row.state,
        about=row.problem or next((f"remark: {one.text}" for one in row.remarks), ""),
        helps=row.remedy if row.state != "ok" else "",
        since=row.since if row.state != "ok" else verdict_of(bound.binding).since,
        heartbeat=row.last_heartbeat_time or "",
        kinds=tuple(row.resources),
        objects=Counts.of(each.state for each in objects),
        sync=f"{_number(row.in_sync)}/{_number(row.objects)}",
        lag_since=_second(lag),
        silent_since=stop.since if stop is not None else "" if bound.absence else None,
    )


def _number(number: int | None) -> str:
    return "?" if number is None else f"{number}"


def binding_thing(row: BindingRow) -> ObjectRow:
    """Return a binding as a row among objects."""
    resource = _RESOURCES.get(row.kind, APISERVICEBINDINGS)
    in_sync, _, objects = row.sync.partition("/")
    unsynced = f"{in_sync} of {objects} objects are in sync" if in_sync != "?" else ""
    return ObjectRow(
        kind=resource.kind,
        namespace=row.within,
        name=row.binding,
        resource=resource.group_resource,
        state=row.state,
        about=row.about or ("" if in_sync == objects else unsynced),
        since=row.since,
        helps=row.helps,
        at=row.at,
    )


_RESOURCES = {resource.kind: resource for resource in (CONNECTIONS, CLUSTERBINDINGS, BINDINGS)}
"""The kinds of kbind v2 that are listed among bindings, by their names."""
BINDING_RESOURCES = frozenset(
    resource.group_resource for resource in (APISERVICEBINDINGS, *_RESOURCES.values())
)
"""The kinds that are listed among bindings, each as ``plural.group``."""


def thing_of(
    resource: Resource, obj: Object, findings: Iterable[Finding] = (), sync: str = ""
) -> ObjectRow:
    """Return the row of an object, with the verdict on it."""
    name = resource.group_resource
    at = path_of("objects", name, obj.meta.namespace, obj.meta.name)
    return row_of(obj, verdict_of(obj, findings), resource=name, at=at, sync=sync)


def crossings(bound: FetchedBinding, warnings: Mapping[str, Object]) -> Iterator[ObjectRow]:
    """Yield the objects of a binding, with whether both parts have crossed."""
    for kind in bound.kinds or ():
        awaited = {pair.key: (pair, step) for pair, step in unsynced(kind)}
        for obj in sorted(kind.objects, key=lambda obj: obj.key):
            resource = kind.resource or Resource("", "", obj.kind.lower(), obj.kind)
            warning = warnings.get(obj.meta.uid)
            finding, sync = Finding("unknown", "the provider was not seen"), "not seen"
            if obj.key in awaited:
                pair, step = awaited[obj.key]
                finding = crossing_finding(
                    step, pair, bound.binding, warning, kind.delay(pair.key)
                )
                # Only the status is left to do, so the spec has arrived at the provider.
                spec = "sent" if isinstance(step.step, ReplaceStatus) else "not sent yet"
                sync = f"spec {spec}, status not returned yet"
            elif kind.copies is not None:
                # Between two writes an object that others change looks as if it were in sync.
                fight = rewriting_finding(obj, bound.binding, warning)
                finding, sync = fight or Finding("ok", "is in sync"), "spec sent, status returned"
            yield thing_of(resource, obj, [finding], sync)


def _second(time: datetime | None) -> str:
    """Return a time rounded to the second, as times of objects are."""
    return "" if time is None else format_time(time + timedelta(milliseconds=500))
