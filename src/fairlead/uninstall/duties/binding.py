"""The binding controllers' duties: their projections into workloads."""

from __future__ import annotations

import shlex

from fairlead.api.meta import Object
from fairlead.api.remains import count, named
from fairlead.api.resource import NAMESPACES, SECRETS, Resource
from fairlead.api.servicebinding.coreos import (
    BINDABLEKINDS,
    COREOS_FINALIZER,
    COREOS_SERVICEBINDINGS,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER
from fairlead.binding.admission.names import KEY_SECRET, SECRET
from fairlead.client.lookups import find, list_all
from fairlead.provider.commands.revoke.cluster import Desk
from fairlead.uninstall.duties.base import having, let_go, remedy_for, standing
from fairlead.uninstall.findings import Use
from fairlead.uninstall.footprints import Footprint
from fairlead.uninstall.presence import runs


_FINALIZERS = (SPEC_FINALIZER, COREOS_FINALIZER)
_AGAIN = ", as soon as the controllers run again (apply `fairlead manifests binding`)"


class BindingDuties:
    """ServiceBindings of both APIs that have been projected."""

    def __init__(self, desk: Desk, footprint: Footprint) -> None:
        self._desk = desk
        self._client = desk.client
        self._footprint = footprint

    async def uses(self) -> list[Use]:
        """Return each binding whose deletion waits for the controllers."""
        by_kind = await self._workloads()
        if not any(by_kind.values()):
            return []
        again = "" if await runs(self._client, self._footprint) else _AGAIN
        going = {one.meta.name for one in await self._desk.list(NAMESPACES) if one.meta.deleting}
        return [
            _use(resource, obj, going, again)
            for resource, every in by_kind.items()
            for obj in every
        ]

    async def notes(self) -> list[str]:
        """Return no notes."""
        return []

    async def orphan(self) -> None:
        """Release the bindings; their projections stay in the workloads."""
        for resource, objects in (await self._workloads()).items():
            if number := await let_go(self._desk, resource, objects, *_FINALIZERS):
                stay = count(number, "projection stays", "projections stay")
                self._desk.progress(f"let go {named(objects)}: {stay} on the workloads")

    async def clear(self) -> None:
        """Delete the webhook's certificate, and the list that the controllers write."""
        # The controllers make these at run time, so that no manifest and no Helm release has them.
        for name in (SECRET, KEY_SECRET):
            if secret := await find(self._client, SECRETS, name, self._footprint.namespace):
                await self._desk.delete(SECRETS, [secret])
                self._desk.progress(f"deleted Secret {secret.key}")
        await self._desk.delete(BINDABLEKINDS, await list_all(self._client, BINDABLEKINDS))

    async def _workloads(self) -> dict[Resource, list[Object]]:
        return {
            # A binding gets its finalizer before its first write to a workload: one without it has
            # left nothing there.
            resource: having(await list_all(self._client, resource), *_FINALIZERS)
            for resource in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS)
        }


def _use(resource: Resource, obj: Object, going: set[str], again: str) -> Use:
    key = obj.meta.key
    what = f"ServiceBinding {key} of {resource.group} is projected onto {_workload(obj)}"
    what += standing(obj, "the controllers to take that back")
    if key.namespace in going:
        what += f"; for it {key.namespace} stays in Terminating"
    place = f"-n {shlex.quote(key.namespace)} {shlex.quote(key.name)}"
    deletion = f"`kubectl delete {resource.group_resource} {place}` takes it back{again}"
    return Use(
        what=what,
        remedy=remedy_for(obj, deletion),
        option="orphan",
        breaks=f"what ServiceBinding {key} has put onto {_workload(obj)} stays there",
    )


def _workload(obj: Object) -> str:
    """Return the workload that a binding names, as text."""
    spec = obj.to_dict().get("spec") or {}
    named = spec.get("workload") or spec.get("application") or {}
    kind = named.get("kind") or named.get("resource") or "workloads"
    return f"{kind} {named['name']}" if named.get("name") else f"{kind} by label"
