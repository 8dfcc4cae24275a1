"""The binding controllers' duties: their projections into workloads."""

from __future__ import annotations

import shlex

from fairlead.api.meta import Object
from fairlead.api.remains import count, named
from fairlead.api.resource import SECRETS, Resource
from fairlead.api.servicebinding.coreos import (
    BINDABLEKINDS,
    COREOS_FINALIZER,
    COREOS_SERVICEBINDINGS,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER
from fairlead.binding.admission.names import KEY_SECRET, SECRET
from fairlead.client.lookups import find, list_all
from fairlead.uninstall.duties.base import Duties, having, remedy_for, standing
from fairlead.uninstall.findings import Use


_FINALIZERS = (SPEC_FINALIZER, COREOS_FINALIZER)
_AGAIN = ", as soon as the controllers run again (apply `fairlead manifests binding`)"


class BindingDuties(Duties):
    """ServiceBindings of both APIs that have been projected."""

    async def uses(self) -> list[Use]:
        """Return each binding whose deletion waits for the controllers."""
        by_kind = await self._workloads()
        if not any(by_kind.values()):
            return []
        again = await self._again(_AGAIN)
        going = await self._removal.going()
        return [
            _use(resource, obj, going, again)
            for resource, every in by_kind.items()
            for obj in every
        ]

    async def orphan(self) -> None:
        """Release the bindings; their projections stay in the workloads."""
        for resource, objects in (await self._workloads()).items():
            if number := await self._removal.let_go(resource, objects, *_FINALIZERS):
                stay = count(number, "projection stays", "projections stay")
                self._removal.progress(f"let go {named(objects)}: {stay} on the workloads")

    async def clear(self) -> None:
        """Delete the webhook's certificate, and the list that the controllers write."""
        # The controllers make these at run time, so that no manifest and no Helm release has them.
        for name in (SECRET, KEY_SECRET):
            if secret := await find(self._client, SECRETS, name, self._footprint.namespace):
                await self._removal.delete(SECRETS, [secret])
                self._removal.progress(f"deleted Secret {secret.key}")
        await self._removal.delete(BINDABLEKINDS, await list_all(self._client, BINDABLEKINDS))

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
