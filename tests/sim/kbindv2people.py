"""What app teams and the providers' teams do in the world of kbind v2."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.sim.kbindv2model import FACTORYS, Model
from tests.sim.kbindv2world import (
    KINDS,
    NAMES,
    PASSWORD,
    RELATED,
    SHOPS,
    BothProtocols,
    Platform,
)
from tests.sim.planes import Plane
from tests.sim.simulation import Simulation
from tests.sim.stores import one
from tests.support.kbindbound import widget
from tests.support.load import thing
from tests.support.provider import WIDGETS

from fairlead.api.kbind.names import (
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_DELETION_POLICY,
    ANNOTATION_RELATED_BINDING,
    CONSUMER_CLUSTER_UID,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SECRETS,
    Resource,
)
from fairlead.client import AlreadyExists


_AIMED = {
    "change": 3.0,
    "delete": 3.0,
    "replace": 1.5,
    "report": 3.0,
    "orphan": 0.5,
    "delete_copy": 1.0,
    "usurp": 0.3,
    "add": 0.5,
    "lose_mark": 0.3,
}
"""What is done to one object, with weights."""


class Teams(BothProtocols):
    """Operations; each says whether it has changed anything."""

    focus: tuple[Resource, Key] | None = None
    """The object that operations meet at, as long as a fault wants that."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.model = Model(self)

    @contextlib.contextmanager
    def focused(self, dice: Random, plane: Plane | None = None) -> Iterator[None]:
        """Have operations meet at one object."""
        kind = dice.choice(self._served() or list(KINDS.values()))
        self.focus = (kind, Key(dice.choice(SHOPS), dice.choice(NAMES)))
        try:
            yield
        finally:
            self.focus = None

    def likely(self) -> dict[str, float]:
        """What is done to the object that operations meet at."""
        if self.focus is None:
            return self.operations
        kind, (shop, name) = self.focus
        if one(self.consumer, kind, name, shop) is None:
            return {"create": 1.0}
        return _AIMED

    def _served(self) -> list[Resource]:
        """The kinds whose CRDs the consumer has."""
        return [
            kind
            for api, kind in KINDS.items()
            if (crd := one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api))
            and not crd.meta.deleting
        ]

    # --- app teams

    def _choose(self, dice: Random) -> tuple[Resource, Object] | None:
        if self.focus is not None:
            kind, key = self.focus
            found = one(self.consumer, kind, key.name, key.namespace)
            if found is not None and not found.meta.deleting:
                return kind, found
        every = [
            (kind, found)
            for kind, found in self.objects(self.consumer)
            if not found.meta.deleting and kind in self._served()
        ]
        return dice.choice(every) if every else None

    async def create(self, dice: Random) -> bool:
        """A new object."""
        served = self._served()
        if not served:
            return False
        kind, shop = dice.choice(served), dice.choice(SHOPS)
        free = [name for name in NAMES if not one(self.consumer, kind, name, shop)]
        if self.focus is not None:
            kind, (shop, name) = self.focus
            free = [] if one(self.consumer, kind, name, shop) else [name]
        if not free:
            return False
        body = widget(kind, dice.choice(free), shop, spec=self._spec(dice))
        if dice.random() < 0.5:
            body["metadata"] |= {
                "labels": {"mine": "1"},
                "annotations": {"mine": "1", "kube-bind.io/deletion-policy": "Orphan"},
            }
        await self.team.create(kind, body)
        return True

    def _spec(self, dice: Random) -> JSON:
        self._numbers += 1
        spec: JSON = {
            "size": self._numbers,
            "note": dice.choice(("a", "b")),
            "options": {dice.choice("xy"): str(dice.randrange(3))},
        }
        return {name: spec[name] for name in dice.sample(sorted(spec), k=dice.randint(1, 3))}

    async def change(self, dice: Random) -> bool:
        """Members of the spec come, change and go."""
        gone: JSON = dict.fromkeys(dice.sample(("size", "note", "options"), k=1))
        return await self._patch(dice, {"spec": {**gone, **self._spec(dice)}})

    async def annotate(self, dice: Random) -> bool:
        """A label or an annotation comes, changes or goes."""
        field = dice.choice(("labels", "annotations"))
        return await self._patch(dice, {"metadata": {field: {"mine": dice.choice((None, "2"))}}})

    async def orphan(self, dice: Random) -> bool:
        """The copy shall stay when the object goes, or no longer."""
        policy = dice.choice(("Orphan", None))
        return await self._patch(
            dice, {"metadata": {"annotations": {ANNOTATION_DELETION_POLICY: policy}}}
        )

    async def _patch(self, dice: Random, patch: JSON) -> bool:
        chosen = self._choose(dice)
        if chosen is None:
            return False
        kind, found = chosen
        made = await self.team.merge_patch(kind, found.meta.name, found.meta.namespace, patch)
        return made.meta.resource_version != found.meta.resource_version

    async def delete(self, dice: Random) -> bool:
        """An object is deleted."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        await self.team.delete(chosen[0], *reversed(chosen[1].key))
        return True

    async def replace(self, dice: Random) -> bool:
        """Another object under the same name, as soon as it is free."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        kind, found = chosen
        await self.team.delete(kind, *reversed(found.key))
        end = self.simulation.loop.time() + 20.0
        while one(self.consumer, kind, *reversed(found.key)):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(dice.uniform(0.001, 0.2))
        body = widget(kind, found.meta.name, found.meta.namespace, spec={"note": "again"})
        await self.team.create(kind, body)
        return True

    async def former(self, dice: Random) -> bool:
        """An object of v1alpha2 comes, changes or goes."""
        shop, name = dice.choice(SHOPS), dice.choice(NAMES)
        self._numbers += 1
        if one(self.consumer, WIDGETS, name, shop) is None:
            body = thing(name, shop, count=self._numbers % 50)
            body["metadata"]["annotations"] = {ANNOTATION_DELETION_POLICY: "Orphan", "mine": "1"}
            body["metadata"]["labels"] = {"core.kbind.io/mine": "1"}
            await self.team.create(WIDGETS, body)
        elif dice.random() < 0.3:
            await self.team.delete(WIDGETS, name, shop)
        else:
            patch = {"spec": {"count": self._numbers % 50}}
            await self.team.merge_patch(WIDGETS, name, shop, patch)
        return True

    # --- related objects

    async def settings(self, dice: Random) -> bool:
        """A ConfigMap for the provider: it comes, changes or goes."""
        shop, name = dice.choice(SHOPS), dice.choice(("settings", "tuning"))
        return await self._put(dice, self.consumer, CONFIGMAPS, shop, name)

    async def key(self, dice: Random) -> bool:
        """A Secret for the consumer: it comes, changes or goes."""
        platform = dice.choice(list(self.platforms.values()))
        shop, name = dice.choice(SHOPS), dice.choice(("key", "password"))
        return await self._put(dice, platform.plane, SECRETS, shop, name)

    async def _put(self, dice: Random, plane: Plane, kind: Resource, shop: str, name: str) -> bool:
        self._numbers += 1
        client = self.admin_of(plane)
        found = one(plane, kind, name, shop)
        if found is not None and ANNOTATION_RELATED_BINDING in found.meta.annotations:
            return False
        text = f"{PASSWORD}-{self._numbers}" if kind is SECRETS else str(self._numbers)
        body: JSON = {"stringData" if kind is SECRETS else "data": {"value": text}}
        if found is None:
            await self._open(plane, shop)
            metadata = {"name": name, "namespace": shop, "labels": {RELATED: "true"}}
            kinds = {"apiVersion": "v1", "kind": kind.kind}
            await client.create(kind, {**kinds, "metadata": metadata, **body})
        elif dice.random() < 0.4:
            await client.delete(kind, name, shop)
        else:
            await client.merge_patch(kind, name, shop, body)
        return True

    async def _open(self, plane: Plane, shop: str) -> None:
        """Have a namespace."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shop}}
        if one(plane, NAMESPACES, shop) is None:
            with contextlib.suppress(AlreadyExists):
                await self.admin_of(plane).create(NAMESPACES, body)

    # --- the factories

    def _copy(self, dice: Random) -> tuple[Platform, Resource, Object] | None:
        every = [
            (platform, kind, copy)
            for platform in self.platforms.values()
            for kind, copy in self.objects(platform.plane)
            if copy.meta.annotations.get(CONSUMER_CLUSTER_UID) and not copy.meta.deleting
        ]
        if self.focus is not None:
            near = [found for found in every if (found[1], found[2].key) == self.focus]
            every = near or every
        return dice.choice(every) if every else None

    async def _operate(self, dice: Random, patch: JSON, **more: Any) -> bool:
        chosen = self._copy(dice)
        if chosen is None:
            return False
        platform, kind, copy = chosen
        name, shop = copy.meta.name, copy.meta.namespace
        made = await platform.admin.merge_patch(kind, name, shop, patch, **more)
        return made.meta.resource_version != copy.meta.resource_version

    async def report(self, dice: Random) -> bool:
        """The status of a copy."""
        self._numbers += 1
        status = {"made": self._numbers, "factory": dice.choice(("north", "south"))}
        return await self._operate(dice, {"status": status}, subresource="status")

    async def add(self, dice: Random) -> bool:
        """What the factory notes on a copy for itself."""
        return await self._operate(
            dice,
            {
                "metadata": {"labels": {"factory": "1"}, "annotations": {"factory": "1"}},
                "spec": {FACTORYS: dice.choice(("1", "2"))},
            },
        )

    async def meddle(self, dice: Random) -> bool:
        """Somebody at the provider changes what is the consumer's."""
        return await self._operate(dice, {"spec": {"note": "meddled", "size": -1}})

    async def lose_mark(self, dice: Random) -> bool:
        """The annotations go by which a copy is known."""
        notes = dict.fromkeys((CONSUMER_CLUSTER_UID, ANNOTATION_CONSUMER_OBJECT_UID))
        return await self._operate(dice, {"metadata": {"annotations": notes}})

    async def delete_copy(self, dice: Random) -> bool:
        """A copy is deleted at the provider."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        platform, kind, copy = chosen
        await platform.admin.delete(kind, *reversed(copy.key))
        return True

    async def native(self, dice: Random) -> bool:
        """A provider makes an object of its own where a copy could be."""
        platform = dice.choice(list(self.platforms.values()))
        shop = dice.choice(SHOPS)
        kinds = [
            kind
            for kind in KINDS.values()
            if one(platform.plane, CUSTOMRESOURCEDEFINITIONS, kind.group_resource)
        ]
        if not kinds:
            return False
        kind = dice.choice(kinds)
        free = [name for name in NAMES if not one(platform.plane, kind, name, shop)]
        if not free:
            return False
        await self._open(platform.plane, shop)
        body = widget(kind, dice.choice(free), shop, spec={"note": "the provider's own"})
        await platform.admin.create(kind, body)
        return True

    async def usurp(self, dice: Random) -> bool:
        """A provider deletes a copy, and makes an object of its own under the name."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        platform, kind, copy = chosen
        await platform.admin.delete(kind, *reversed(copy.key))
        body = widget(kind, copy.meta.name, copy.meta.namespace, spec={"note": "its own"})
        await platform.admin.create(kind, body)
        return True

    async def delete_native(self, dice: Random) -> bool:
        """One of them goes."""
        every = [
            (platform, kind, found)
            for platform in self.platforms.values()
            for kind, found in self.objects(platform.plane)
            if not found.meta.annotations.get(CONSUMER_CLUSTER_UID) and not found.meta.deleting
        ]
        if not every:
            return False
        platform, kind, found = dice.choice(every)
        await platform.admin.delete(kind, *reversed(found.key))
        return True
