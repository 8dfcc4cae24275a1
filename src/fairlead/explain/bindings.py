"""The chains of bindings of either API: what is read for each, from workload to role."""

from __future__ import annotations

import asyncio

from fairlead.api.kbind.names import CONNECTIONS
from fairlead.api.links import Chain, Link, patient
from fairlead.api.meta import Key, Object, object_from_dict
from fairlead.api.resource import SECRETS, Resource
from fairlead.api.selectors import SelectorError
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.timestamps import moment
from fairlead.binding.commands.links import (
    BoundWorkload,
    Reference,
    SeenObject,
    ToldBinding,
    binding_link,
    chain_of,
    read_object,
    secret_link,
    secret_named,
    service_link,
    wish_of,
    workload_links,
)
from fairlead.binding.services.service import label_selector
from fairlead.binding.workloads.records import BindingRecord, read_records
from fairlead.client import Forbidden, NotFound, NotServed
from fairlead.client.lookups import binding_of
from fairlead.explain.reading import ChainReading
from fairlead.explain.targets import ExplainedTarget, UnknownTargetError


AT_ONCE = 8
"""Largest number of bindings that are read concurrently."""


class BindingChains:
    """Makes the chains of the bindings that concern a target.

    Args:
        reading: reads the objects.
        target: a workload or a binding; a kind of "" means all bindings.
        namespace: the namespace of the bindings.
    """

    def __init__(self, reading: ChainReading, target: ExplainedTarget, namespace: str) -> None:
        self._reading = reading
        self._client = reading.client
        self._target = target
        self._namespace = namespace
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> list[Chain]:
        """Return the chains, ordered by binding."""
        wishes = await self._wishes()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._chain(one)) for one in wishes]
        chains = [chain for task in tasks if (chain := task.result()) is not None]
        if not chains and not self._target.of_binding:
            raise UnknownTargetError(
                f"no ServiceBinding of namespace {self._namespace} selects"
                f" {self._target.kind}/{self._target.name}: create one, or correct its"
                " reference to the workload"
            )
        return chains

    async def _wishes(self) -> list[ToldBinding]:
        """Return the bindings that may concern the target."""
        bindings: list[ToldBinding] = []
        is_known = False
        for resource in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS):
            if self._target.of_binding and not self._target.is_api(resource):
                continue
            try:
                listed = await self._client.list(resource, self._namespace)
            # One of the two APIs may not be installed.
            except NotFound as error:
                if not error.unserved:
                    raise
                continue
            is_known = True
            bindings += [wish_of(one) for one in listed.items if self._is_wanted(one)]
        if not is_known:
            for resource in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS):
                if bringer := await binding_of(self._client, resource):
                    kind, _, name = bringer.partition(" ")
                    way = kind == CONNECTIONS.kind
                    shown = "fairlead bindings" if way else f"fairlead bindings {name} --objects"
                    raise UnknownTargetError(
                        f"{bringer} brings {resource.group_resource} to this cluster, and its"
                        f" provider serves them: {shown} tells how they stand"
                    )
            raise UnknownTargetError(
                "the cluster does not know ServiceBinding: install the controllers, or the CRDs"
                " with fairlead crds binding | kubectl apply -f -"
            )
        if self._target.of_binding and self._target.name and not bindings:
            raise UnknownTargetError(
                f"ServiceBinding {Key(self._namespace, self._target.name)} does not exist"
            )
        return bindings

    def _is_wanted(self, binding: Object) -> bool:
        target = self._target
        return not target.of_binding or not target.name or binding.meta.name == target.name

    async def _chain(self, wish: ToldBinding) -> Chain | None:
        """Return the chain of a binding; None if it does not concern the target."""
        async with self._slots:
            bound = await self._workloads(wish)
            if bound is None:
                return None
            links = [binding_link(wish)]
            if (reference := wish.workload) is not None:
                links += workload_links(bound, wish, reference.text, reference.containers)
            links += await self._sources(wish)
        return chain_of(wish, patient(links, moment()))

    async def _sources(self, wish: ToldBinding) -> list[Link]:
        links: list[Link] = []
        named: list[SeenObject] = []
        for reference in wish.services:
            resource = await self._resource(reference)
            if isinstance(resource, SeenObject):
                links.append(service_link(resource, wish))
                continue
            namespace = reference.namespace if resource.namespaced else ""
            service = await self._read(resource, Key(namespace, reference.name))
            links.append(service_link(service, wish))
            if name := secret_named(service):
                named.append(await self._read(SECRETS, Key(reference.namespace, name)))
            if service.sight == "there":
                links += await self._reading.beyond(resource, object_from_dict(service.body))
        own = None
        key = Key(self._namespace, wish.secret)
        # A Secret that is projected as it is was read as the service's.
        if key.name and key not in {secret.key for secret in named}:
            own = await self._read(SECRETS, key)
        secret = secret_link(named, own)
        return [*links, *([secret] if secret is not None else [])]

    async def _read(self, resource: Resource, key: Key) -> SeenObject:
        """Read an object, with a note if the caller may not."""
        result = await self._reading.read(resource, key)
        if result.sight == "Forbidden":
            self._reading.notes.append(f"you may not read {result.text}")
        return result

    async def _resource(self, reference: Reference) -> Resource | SeenObject:
        discovery = self._client.discovery
        group, version = reference.group, reference.version
        try:
            if reference.plural:
                return await discovery.resource_by_plural(group, reference.plural, version)
            api_version = f"{group}/{version}" if group else version
            return await discovery.resource_for(api_version, reference.kind)
        except NotServed:
            api_version = f"{group}/{version}" if group else version
            problem = f"the cluster does not know {reference.shown} of {api_version}"
            return SeenObject(text=reference.text, sight="NotServed", problem=problem)

    async def _workloads(self, wish: ToldBinding) -> list[BoundWorkload] | None:
        """Return the selected workloads; None if the target is another workload."""
        reference, target = wish.workload, self._target
        if reference is None:
            return [] if target.of_binding else None
        resource = await self._resource(reference)
        if isinstance(resource, SeenObject):
            return [BoundWorkload(workload=resource)] if target.of_binding else None
        if not target.of_binding and not target.is_kind(resource):
            return None
        workloads = await self._selected(resource, reference)
        if not target.of_binding:
            workloads = [one for one in workloads if one.key.name == target.name]
            if not workloads:
                return None
        return [BoundWorkload(workload=one, record=_record(one, wish.uid)) for one in workloads]

    async def _selected(self, resource: Resource, reference: Reference) -> list[SeenObject]:
        if reference.selector is None:
            if not reference.name:
                return []
            return [await self._read(resource, Key(reference.namespace, reference.name))]
        try:
            matcher = label_selector(reference.selector)
            listed = await self._client.list(resource, reference.namespace)
        except SelectorError as error:
            return [SeenObject(text=reference.text, sight="Error", problem=str(error))]
        except Forbidden:
            self._reading.notes.append(f"you may not list {resource.group_resource}")
            problem = "you may not list them"
            return [SeenObject(text=reference.text, sight="Forbidden", problem=problem)]
        return [
            read_object(f"{resource.kind} {item.key}", item)
            for item in listed.items
            if matcher.matches(item.meta.labels)
        ]


def _record(workload: SeenObject, uid: str) -> BindingRecord | None:
    annotations = (workload.body.get("metadata") or {}).get("annotations") or {}
    return read_records(annotations).get(uid)
