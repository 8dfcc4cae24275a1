"""Specs of bindings that nobody in their senses writes, and good ones after them.

Whatever a schema allows has to be borne, and has to leave nothing that keeps a good spec from
becoming Ready. ``bindingPath`` is left alone: what it overwrites is not given back.
"""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import ClassVar

from tests.sim import binding_world as world
from tests.sim.binding_teams import Teams
from tests.sim.simulation import Simulation
from tests.sim.stores import held, one
from tests.sim.values import schema_of, spoiled, valid, varied, without

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS, coreos_crd
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, servicebinding_crd
from fairlead.client import Conflict, Invalid


GONE_SECONDS = 100.0
"""Seconds within which a binding goes, even under faults, so that another can take its place."""
_SCHEMAS: dict[str, JSON] = {
    SERVICEBINDINGS.group: schema_of(servicebinding_crd()),
    COREOS_SERVICEBINDINGS.group: without(schema_of(coreos_crd()), "application", "bindingPath"),
}


class Specs(Teams):
    """Operations that set any spec, one that a schema refuses, and a good one again."""

    operations: ClassVar[dict[str, float]] = {
        **Teams.operations,
        "any_spec": 4.0,
        "bad_spec": 0.5,
        "good_spec": 2.0,
    }
    least: ClassVar[dict[str, float]] = {**Teams.least, "any_spec": 0.2, "good_spec": 0.1}

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._healed = False
        self._good: dict[str, JSON] = {}
        """The good specs of bindings that have, or had, others; by uid."""

    async def any_spec(self, dice: Random) -> bool:
        """A binding has some other spec that its schema allows."""
        chosen = self._choose_binding(dice)
        if chosen is None:
            return False
        resource, binding = chosen
        schema = _SCHEMAS[resource.group]
        body = binding.to_dict()
        good = body["spec"]
        odd = good
        if dice.random() < 0.2:
            odd = valid(schema, dice)
        for _ in range(dice.choice((1, 1, 2, 4))):
            odd = varied(schema, odd, dice)
        if resource is SERVICEBINDINGS and dice.random() < 0.7:
            # A server lets no other kind pass.
            for field in ("apiVersion", "kind"):
                odd["workload"][field] = good["workload"][field]
        # Before it is asked for, for the answer may be lost.
        self._good.setdefault(binding.meta.uid, good)
        made = await self.admin.update(resource, {**body, "spec": odd})
        return made.meta.generation != binding.meta.generation

    async def bad_spec(self, dice: Random) -> bool:
        """Somebody tries a spec that the schema refuses."""
        chosen = self._choose_binding(dice)
        if chosen is None:
            return False
        resource, binding = chosen
        body = binding.to_dict()
        bad = spoiled(_SCHEMAS[resource.group], body["spec"], dice)
        if bad is None:
            return False
        try:
            await self.admin.update(resource, {**body, "spec": bad})
        except Invalid:
            return True
        self.simulation.violated(f"the server has taken {bad} as the spec of a {binding.kind}")
        return False

    async def good_spec(self, dice: Random) -> bool:
        """A binding has its good spec again."""
        odd = self._odd()
        if not odd:
            return False
        return await self._mend(*dice.choice(odd))

    def _odd(self) -> list[tuple[Resource, Object]]:
        return [
            (resource, binding)
            for resource in world.BINDINGS
            for binding in held(self.plane, resource)
            if binding.meta.uid in self._good and not binding.meta.deleting
        ]

    async def _mend(self, resource: Resource, binding: Object) -> bool:
        good = self._good[binding.meta.uid]
        try:
            made = await self.admin.update(resource, {**binding.to_dict(), "spec": good})
        except Invalid:
            # One that is Ready cannot be changed any more.
            await self.admin.delete(resource, *reversed(binding.key))
            end = self.simulation.loop.time() + GONE_SECONDS
            while one(self.plane, resource, *reversed(binding.key)):
                if self.simulation.loop.time() > end:
                    if self._healed:
                        self.simulation.violated(
                            f"{resource.group_resource} {binding.key} is not gone "
                            f"{GONE_SECONDS:.0f} s after it was deleted"
                        )
                    return False
                await asyncio.sleep(0.2)
            name, shop = reversed(binding.key)
            body = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": name, "namespace": shop},
                "spec": good,
            }
            await self.admin.create(resource, body)
            return True
        return made.meta.generation != binding.meta.generation

    async def make_well(self) -> None:
        """Have all specs good, too."""
        self._healed = True
        await super().make_well()
        for resource, binding in self._odd():
            await self._mended(resource, binding)

    async def _mended(self, resource: Resource, binding: Object) -> None:
        for _ in range(20):
            fresh = one(self.plane, resource, *reversed(binding.key))
            if fresh is None or fresh.meta.uid != binding.meta.uid or fresh.meta.deleting:
                return
            with contextlib.suppress(Conflict):
                await self._mend(resource, fresh)
                return
