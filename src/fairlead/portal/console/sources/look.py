"""One look over a cluster: bindings, accesses, ServiceBindings and the workloads they name.

A kind that the caller may not list in all namespaces is listed in the context's; one that may not
be listed at all becomes a note, and the rest is still shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.model import State
from fairlead.api.resource import Resource
from fairlead.api.selectors import SelectorError
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.commands.links import Reference, wish_of
from fairlead.binding.services.service import label_selector
from fairlead.client import ApiError, Client, Forbidden, NotFound, NotServed
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.rows import FetchedBinding, unsynced
from fairlead.portal import bounds
from fairlead.portal.console.pages.viewing import path_of
from fairlead.portal.console.sources.mirrors import mirrors_of
from fairlead.portal.console.sources.rows import binding_thing, bound_of, thing_of
from fairlead.portal.model.lists import BindingDetail, BindingRow, MirrorDetail, ObjectRow


SEEN_TOPIC = "all"
"""Topic of the shared look over the whole cluster."""


class OwnSight(msgspec.Struct, frozen=True):
    """The result of a look; ``notes`` say what could not be read.

    ``mirrors`` are the Connections and bindings of kbind v2.
    """

    bindings: tuple[BindingDetail, ...] = ()
    things: tuple[ObjectRow, ...] = ()
    notes: tuple[str, ...] = ()
    mirrors: tuple[MirrorDetail, ...] = ()

    @property
    def rows(self) -> list[BindingRow]:
        """The rows of all that is listed among bindings."""
        return [*(entry.row for entry in self.bindings), *(entry.row for entry in self.mirrors)]


async def look(client: Client, overview: Overview) -> OwnSight:
    """Look at the bindings, accesses, ServiceBindings and workloads of a whole cluster.

    Args:
        client: a client with the caller's rights.
        overview: the overview of the same cluster, with its connections to providers.

    Raises:
        ClientError: the cluster is unavailable.
    """
    return await _Look(client, overview).run()


class _Look:
    def __init__(self, client: Client, overview: Overview) -> None:
        self._client = client
        self._overview = overview
        self._slots = asyncio.Semaphore(bounds.REQUESTS_OF_A_LOOK)
        self._notes: list[str] = []

    async def run(self) -> OwnSight:
        async with asyncio.TaskGroup() as group:
            bound = group.create_task(self._bindings())
            mirrored = group.create_task(self._mirrors())
            listed = {
                resource: group.create_task(self._listed(resource))
                for resource in (POSTGRESACCESSES, SERVICEBINDINGS, COREOS_SERVICEBINDINGS)
            }
        bindings, mirrors = bound.result(), mirrored.result()
        things: dict[tuple[str, str, str], ObjectRow] = {}
        for resource, task in listed.items():
            for row in task.result():
                thing = thing_of(resource, row)
                things[thing.resource, thing.namespace, thing.name] = thing
        bound_objects = chain(
            *(detail.objects for detail in bindings), *(detail.objects for detail in mirrors)
        )
        for thing in bound_objects:
            # For a bound object the crossing's state takes precedence over its own.
            things[thing.resource, thing.namespace, thing.name] = thing
        services = [
            *((SERVICEBINDINGS, one) for one in listed[SERVICEBINDINGS].result()),
            *((COREOS_SERVICEBINDINGS, one) for one in listed[COREOS_SERVICEBINDINGS].result()),
        ]
        bad = _not_working(things.values())
        for resource, row in services:
            key = resource.group_resource, *row.key
            things[key] = _behind(things[key], row, bad)
        workloads = await self._workloads(
            [(things[resource.group_resource, *one.key], one) for resource, one in services]
        )
        sight = OwnSight(tuple(bindings), mirrors=tuple(mirrors))
        every = [*map(binding_thing, sight.rows), *things.values(), *workloads]
        return msgspec.structs.replace(
            sight,
            things=tuple(sorted(every)),
            notes=tuple(sorted(dict.fromkeys(self._notes))),
        )

    async def _bindings(self) -> list[BindingDetail]:
        try:
            bindings = await self._overview.fetch()
        except Forbidden:
            self._notes.append(
                f"You may not list {APISERVICEBINDINGS.group_resource}, so objects that providers"
                " bring are not shown. Ask an administrator for the verb list on it."
            )
            return []
        warnings = await self._warnings(bindings)
        return [bound_of(binding, warnings) for binding in bindings]

    async def _mirrors(self) -> list[MirrorDetail]:
        bindings, notes = await self._overview.fetch_mirrored()
        self._notes += [f"{note[:1].upper()}{note[1:]}." for note in notes]
        return mirrors_of(bindings, await self._warnings(bindings))

    async def _warnings(self, bindings: Iterable[FetchedBinding]) -> Mapping[str, Object]:
        """Return the last Warnings about objects that are not in sync."""
        open_ = [
            pair.consumer
            for binding in bindings
            for kind in binding.kinds or ()
            for pair, _ in unsynced(kind)
            if pair.consumer is not None
        ]
        return await self._overview.warnings(open_)

    async def _listed(self, resource: Resource) -> Sequence[Object]:
        name = resource.group_resource
        try:
            return await self._list(resource)
        except NotFound:
            # Its CRD is not installed.
            return ()
        except Forbidden:
            # As kubectl does with a context without a namespace.
            there = self._client.config.namespace or "default"
        try:
            objects = await self._list(resource, there)
        except (Forbidden, NotFound):
            self._notes.append(
                f"You may not list {name}, neither in all namespaces nor in {there}: none of them"
                " is shown. Choose a context with a namespace where you may, or ask an"
                " administrator for the verb list."
            )
            return ()
        self._notes.append(
            f"You may not list {name} in all namespaces: only those of namespace {there} are"
            " shown."
        )
        return objects

    async def _list(
        self, resource: Resource, namespace: str = "", *, metadata_only: bool = False
    ) -> Sequence[Object]:
        async with self._slots:
            listed = await self._client.list(resource, namespace, metadata_only=metadata_only)
        return listed.items

    async def _workloads(self, services: Sequence[tuple[ObjectRow, Object]]) -> list[ObjectRow]:
        """Return the workloads of ServiceBindings, each in the state of its worst binding."""
        rows: dict[tuple[str, str, str], ObjectRow] = {}
        selectors = 0
        for of, binding in services:
            reference = wish_of(binding).workload
            if reference is None:
                continue
            selectors += reference.selector is not None
            if reference.selector is not None and selectors > bounds.SELECTORS:
                self._notes.append(
                    f"More than {bounds.SELECTORS} ServiceBindings choose workloads by a selector:"
                    " those of the others are not shown here."
                )
                break
            for thing in await self._named(reference, of):
                key = thing.resource, thing.namespace, thing.name
                if key not in rows or rows[key].state == "ok":
                    rows[key] = thing
        return list(rows.values())

    async def _named(self, reference: Reference, binding: ObjectRow) -> list[ObjectRow]:
        try:
            resource = await self._resource(reference)
            names = [reference.name]
            if reference.selector is not None:
                matcher = label_selector(reference.selector)
                listed = await self._list(resource, reference.namespace, metadata_only=True)
                names = [one.meta.name for one in listed if matcher.matches(one.meta.labels)]
        except (NotServed, SelectorError):
            # The binding's own condition reports it.
            return []
        except Forbidden:
            self._notes.append(
                f"You may not list {reference.shown} in {reference.namespace}: those that"
                " ServiceBindings select are not shown."
            )
            return []
        except ApiError as error:
            self._notes.append(f"{reference.text} cannot be looked for: {error}")
            return []
        state: State = "ok" if binding.state == "ok" else "waiting"
        text = "" if state == "ok" else f"waits for ServiceBinding {binding.name}"
        return [
            ObjectRow(
                kind=resource.kind,
                namespace=reference.namespace,
                name=name,
                resource=resource.group_resource,
                state=state,
                about=text,
                since=binding.since if text else "",
                at=path_of("objects", resource.group_resource, reference.namespace, name),
            )
            for name in names
            if name
        ]

    async def _resource(self, reference: Reference) -> Resource:
        discovery, group = self._client.discovery, reference.group
        if reference.plural:
            return await discovery.resource_by_plural(group, reference.plural, reference.version)
        api_version = f"{group}/{reference.version}" if group else reference.version
        return await discovery.resource_for(api_version, reference.kind)


_Place = tuple[str, str, str]
"""Kind or resource, namespace and name of an object."""


def _not_working(things: Iterable[ObjectRow]) -> frozenset[_Place]:
    """Return the places of things that do not work, by kind and by resource."""
    return frozenset(
        (name, thing.namespace, thing.name)
        for thing in things
        if thing.state in {"failed", "waiting"}
        for name in (thing.kind, thing.resource)
    )


def _behind(thing: ObjectRow, binding: Object, bad: frozenset[_Place]) -> ObjectRow:
    """Return a ServiceBinding, as waiting if it failed and one of its services does not work."""
    if thing.state != "failed":
        return thing
    services = ((one.shown, one.namespace, one.name) for one in wish_of(binding).services)
    if bad.isdisjoint(services):
        return thing
    return msgspec.structs.replace(thing, state="waiting")
