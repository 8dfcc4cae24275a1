"""Reads the data of an object's page: what it waits for, both copies, and its timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
import yaml

from fairlead.api.conditions import stored_conditions
from fairlead.api.links import Link
from fairlead.api.meta import JSON, Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.resource import EVENTS, SECRETS, Resource
from fairlead.api.timestamps import format_time
from fairlead.binding.commands.explain import ExplainedTarget, UnknownTargetError
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotServed
from fairlead.client.lookups import find
from fairlead.explain.chains import Chain
from fairlead.explain.explaining import explain
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.objects import EventAbout, happened_at
from fairlead.konnector.commands.overview.rows import FetchedBinding
from fairlead.portal.console.own.hiding import shown
from fairlead.portal.console.own.things import Thing, thing_of


MOST_HAPPENED = 200
"""Largest number of a timeline's lines."""
MOST_SHOWN = 60_000
"""Maximum length of a shown spec or status, in characters."""

Where = Literal["here", "provider"]


class TimelineLine(msgspec.Struct, frozen=True):
    """A line of a timeline: time, side, kind and text."""

    at: str
    where: Where
    kind: Literal["condition", "Event", "write"]
    what: str
    bad: bool = False


class Side(msgspec.Struct, frozen=True):
    """An object in one cluster: spec and status as YAML, "" without one."""

    where: Where
    name: str
    spec: str
    status: str


class Whole(msgspec.Struct, frozen=True):
    """The data of an object's page: links, both copies, and timeline."""

    thing: Thing
    chains: tuple[Chain, ...]
    sides: tuple[Side, ...]
    keys: tuple[str, ...]
    """Names of a Secret's entries; their values are never shown."""
    happened: tuple[TimelineLine, ...]
    binding: str
    """The APIServiceBinding of its kind, "" without one."""
    notes: tuple[str, ...]


class _Entry(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: str = ""


class _Managers(msgspec.Struct, rename="camel"):
    managed_fields: list[_Entry] = []


class _Written(msgspec.Struct):
    metadata: _Managers = msgspec.field(default_factory=_Managers)


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


class _About(EventAbout, rename="camel"):
    type: str = ""


class Telling:
    """Reads all that an object's page shows.

    Args:
        client: a client with the caller's rights.
        overview: the overview of the same cluster.
        operator_namespace: namespace of the PostgresAccess operator's settings.
    """

    def __init__(self, client: Client, overview: Overview, operator_namespace: str) -> None:
        self._client = client
        self._overview = overview
        self._operator_namespace = operator_namespace

    async def __call__(self, name: str, namespace: str, resource: str) -> Whole | None:
        """Return the data of an object; None if the object or its kind does not exist.

        Args:
            name: the object's name.
            namespace: its namespace, "" if it is cluster-scoped.
            resource: ``plural.group``.

        Raises:
            ClientError: the cluster is unavailable, or refuses to read the object.
        """
        plural, _, group = resource.partition(".")
        try:
            kind = await self._client.discovery.resource_by_plural(group, plural)
        except NotServed:
            return None
        if kind.namespaced != bool(namespace):
            return None
        found = await find(self._client, kind, name, namespace)
        if found is None:
            return None
        return await self._whole(kind, found)

    async def _whole(self, kind: Resource, found: Object) -> Whole:
        notes: list[str] = []
        chains = await self._chains(kind, found, notes)
        bound, copy = await self._copy(kind, found, notes)
        happened = [*_written("here", found), *await self._events(kind, found, notes)]
        sides = [] if kind == SECRETS else [_side("here", found)]
        if copy is not None:
            happened += _written("provider", copy)
            happened += await self._events_there(bound, copy, notes)
            if kind != SECRETS:
                sides.append(_side("provider", copy))
        happened.sort(key=lambda one: (one.at, one.what), reverse=True)
        thing = thing_of(kind, found)
        if chains:
            state = "ok" if all(one.ready for one in chains) else _worst(chains)
            thing = msgspec.structs.replace(thing, state=state)
        return Whole(
            thing=thing,
            chains=chains,
            sides=tuple(sides),
            keys=tuple(sorted(found.decode(_Data).data)) if kind == SECRETS else (),
            happened=tuple(happened[:MOST_HAPPENED]),
            binding=bound.binding.meta.name if bound is not None else "",
            notes=tuple(sorted(dict.fromkeys(notes))),
        )

    async def _chains(self, kind: Resource, found: Object, notes: list[str]) -> tuple[Chain, ...]:
        target = ExplainedTarget(kind.group_resource, found.meta.name)
        try:
            told = await explain(
                self._client, target, found.meta.namespace, self._operator_namespace
            )
        except UnknownTargetError as error:
            notes.append(str(error))
            return ()
        notes += told.notes
        return told.chains

    async def _copy(
        self, kind: Resource, found: Object, notes: list[str]
    ) -> tuple[FetchedBinding | None, Object | None]:
        try:
            bound = await self._overview.look_at_object(kind, found)
        except ClientError as error:
            notes.append(f"whether a provider brings {kind.kind} is not known: {error}")
            return None, None
        if bound is None:
            return None, None
        if bound.problem:
            notes.append(f"the provider's side was not seen: {bound.problem}")
        copies = bound.kinds[0].copies if bound.kinds else None
        target = copies.strategy.place(found.key).target if copies is not None else None
        if copies is None or target is None:
            return bound, None
        return bound, copies.objects.get(target)

    async def _events(
        self, kind: Resource, found: Object, notes: list[str]
    ) -> Iterable[TimelineLine]:
        meta = found.meta
        fields = f"involvedObject.kind={kind.kind},involvedObject.name={meta.name}"
        try:
            # Recorders put Events about cluster-scoped objects into namespace default.
            listed = await self._client.list(EVENTS, meta.namespace or "default", fields=fields)
        except ApiError as error:
            notes.append(f"Events of this cluster are not seen: {error}")
            return ()
        return _told("here", found, listed.items)

    async def _events_there(
        self, bound: FetchedBinding | None, copy: Object, notes: list[str]
    ) -> Iterable[TimelineLine]:
        if bound is None:
            return ()
        try:
            return _told("provider", copy, await self._overview.events(bound, copy))
        except Forbidden:
            notes.append("Events of the provider are not seen: a consumer may not list them there")
            return ()
        except ClientError as error:
            notes.append(f"Events of the provider are not seen: {error}")
            return ()


def broken(chain: Chain) -> Link | None:
    """Return the link of a chain that the links before it wait for, None if all work."""
    if chain.broken is None:
        return None
    links = [one for one in chain.links if one.name == chain.broken and one.state != "ok"]
    return next((one for one in links if one.message == chain.message), None) or (
        links[0] if links else None
    )


def _worst(chains: Iterable[Chain]) -> Literal["failed", "waiting"]:
    states = {one.state for chain in chains for one in chain.links if not chain.ready}
    return "failed" if "failed" in states else "waiting"


def _side(where: Where, found: Object) -> Side:
    body = found.to_dict()
    name = f"{found.meta.namespace}/{found.meta.name}" if found.meta.namespace else found.meta.name
    return Side(where, name, _yaml(body, "spec"), _yaml(body, "status"))


def _yaml(body: JSON, part: str) -> str:
    value = body.get(part)
    if not value:
        return ""
    masked = shown({part: value})[part]
    text = yaml.dump(masked, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if len(text) <= MOST_SHOWN:
        return text.rstrip("\n")
    return text[:MOST_SHOWN] + "\n# the rest is not shown here"


_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""YAML dumper of libyaml if it is installed: pages dump YAML on the event loop."""


def _written(where: Where, found: Object) -> Iterator[TimelineLine]:
    """Yield timeline lines from an object's own fields: conditions, creation, deletion, writes."""
    meta = found.meta
    for condition in stored_conditions(found.to_dict()):
        if condition.last_transition_time:
            why = ": ".join(part for part in (condition.reason, condition.message) if part)
            what = f"{condition.type} is {condition.status}" + (f": {why}" if why else "")
            bad = state_of(condition) == "failed"
            yield TimelineLine(condition.last_transition_time, where, "condition", what, bad)
    if meta.creation_timestamp:
        yield TimelineLine(meta.creation_timestamp, where, "write", "was created")
    if meta.deletion_timestamp:
        held = ", ".join(meta.finalizers)
        what = "is to be deleted" + (f", which waits for {held}" if held else "")
        yield TimelineLine(meta.deletion_timestamp, where, "write", what)
    try:
        entries = found.decode(_Written).metadata.managed_fields
    except msgspec.ValidationError:
        return
    for entry in entries:
        if entry.time:
            part = f" its {entry.subresource}" if entry.subresource else ""
            what = f"{entry.manager or 'an unnamed client'} wrote{part} ({entry.operation})"
            yield TimelineLine(entry.time, where, "write", what)


def _told(where: Where, found: Object, events: Iterable[Object]) -> Iterator[TimelineLine]:
    """Yield timeline lines from Events, without those of an earlier object of the same name."""
    for event in events:
        try:
            about = event.decode(_About)
        except msgspec.ValidationError:
            continue
        # Events outlive their object; a new one of the same name is not the one that they are
        # about.
        if about.involved_object.uid not in {"", found.meta.uid}:
            continue
        what = ": ".join(part for part in (about.reason, about.message) if part)
        at = format_time(happened_at(event))
        yield TimelineLine(at, where, "Event", what, about.type == "Warning")
