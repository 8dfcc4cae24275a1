"""What app teams, the factory and administrators do in the world of kube-bind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.sim.kubebindworld import LABEL, NAMES, PASSWORD, SHOPS, Consumer, Place, World, named
from tests.sim.planes import Plane
from tests.sim.stores import held, one
from tests.support.load import additions, thing
from tests.support.provider import WIDGETS

from fairlead.api.kubebind.names import (
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_DELETION_POLICY,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CONFIGMAPS, SECRETS


_AIMED = {
    "change": 3.0,
    "delete": 3.0,
    "replace": 1.0,
    "report": 3.0,
    "orphan": 0.5,
    "certify": 1.0,
    "uncertify": 0.5,
    "configmap": 0.5,
    "delete_copy": 1.0,
    "usurp": 0.3,
    "add": 0.5,
    "lose_mark": 0.5,
}
"""What is done to one widget, with weights."""
_WORDS = (None, "1", "2")


class Peopled(World):
    """Operations; each says whether it has changed anything."""

    focus: tuple[Consumer, Key] | None = None
    """The widget that operations meet at, as long as a fault wants that."""

    @contextlib.contextmanager
    def focused(self, dice: Random, plane: Plane | None = None) -> Iterator[None]:
        """Have operations meet at one widget."""
        near = [consumer for consumer in self.consumers if consumer.plane is plane]
        consumer = dice.choice(near or self.consumers)
        self.focus = (consumer, Key(dice.choice(SHOPS), dice.choice(NAMES)))
        try:
            yield
        finally:
            self.focus = None

    def likely(self) -> dict[str, float]:
        """What is done to the widget that operations meet at."""
        if self.focus is None:
            return self.operations
        consumer, (shop, name) = self.focus
        if one(consumer.plane, WIDGETS, name, shop) is None:
            return {"create": 1.0}
        return _AIMED

    # --- what app teams do

    def _choose(self, dice: Random, *, there: bool = True) -> tuple[Consumer, Object] | None:
        """A widget of some consumer; one that has a copy, where that is wanted."""
        if self.focus is not None:
            consumer, key = self.focus
            widget = one(consumer.plane, WIDGETS, key.name, key.namespace)
            if widget is not None and not widget.meta.deleting:
                return consumer, widget
        consumer = dice.choice(self.consumers)
        found = [
            widget
            for widget in held(consumer.plane, WIDGETS)
            if not widget.meta.deleting and widget.meta.name != "taken"
        ]
        return (consumer, dice.choice(found)) if found else None

    async def create(self, dice: Random) -> bool:
        """A new widget that names a Secret."""
        consumer, shop = dice.choice(self.consumers), dice.choice(SHOPS)
        free = [name for name in NAMES if not one(consumer.plane, WIDGETS, name, shop)]
        if self.focus is not None:
            consumer, (shop, wanted) = self.focus
            free = [] if one(consumer.plane, WIDGETS, wanted, shop) else [wanted]
        if not free:
            return False
        name = dice.choice(free)
        body = thing(name, shop, count=dice.randrange(50), certificates=named(name))
        if dice.random() < 0.5:
            body["metadata"]["labels"] = {"mine": "1"}
            body["metadata"]["annotations"] = {"mine": "1"}
        await consumer.admin.create(WIDGETS, body)
        return True

    async def change(self, dice: Random) -> bool:
        """Members of the spec come, change and go."""
        self._numbers += 1
        spec: JSON = {
            "count": dice.choice((None, 7, self._numbers % 100)),
            "note": dice.choice((None, "a", str(self._numbers))),
            "options": {"x": dice.choice(_WORDS)},
        }
        some = dice.sample(sorted(spec), k=dice.randint(1, 3))
        return await self._patch(dice, {"spec": {name: spec[name] for name in some}})

    async def label(self, dice: Random) -> bool:
        """A label comes, changes or goes."""
        return await self._patch(dice, {"metadata": {"labels": {"mine": dice.choice(_WORDS)}}})

    async def annotate(self, dice: Random) -> bool:
        """An annotation comes, changes or goes."""
        return await self._patch(
            dice, {"metadata": {"annotations": {"mine": dice.choice(_WORDS)}}}
        )

    async def orphan(self, dice: Random) -> bool:
        """The copy shall stay when the widget goes, or no longer."""
        policy = dice.choice(("Orphan", None))
        return await self._patch(
            dice, {"metadata": {"annotations": {ANNOTATION_DELETION_POLICY: policy}}}
        )

    async def _patch(self, dice: Random, patch: JSON) -> bool:
        chosen = self._choose(dice)
        if chosen is None:
            return False
        consumer, widget = chosen
        made = await consumer.admin.merge_patch(
            WIDGETS, widget.meta.name, widget.meta.namespace, patch
        )
        return made.meta.resource_version != widget.meta.resource_version

    async def delete(self, dice: Random) -> bool:
        """A widget is deleted."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        consumer, widget = chosen
        await consumer.admin.delete(WIDGETS, *reversed(widget.key))
        return True

    async def replace(self, dice: Random) -> bool:
        """Another object under the same name, as soon as it is free."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        consumer, widget = chosen
        await consumer.admin.delete(WIDGETS, *reversed(widget.key))
        end = self.simulation.loop.time() + 20.0
        while one(consumer.plane, WIDGETS, *reversed(widget.key)):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(dice.uniform(0.001, 0.2))
        body = thing(widget.meta.name, widget.meta.namespace, note="again")
        await consumer.admin.create(WIDGETS, body)
        return True

    async def configmap(self, dice: Random) -> bool:
        """A ConfigMap for the factory: one that comes, or that says something else."""
        self._numbers += 1
        consumer, shop = dice.choice(self.consumers), dice.choice(SHOPS)
        data = {"number": str(self._numbers)}
        if one(consumer.plane, CONFIGMAPS, "settings", shop):
            await consumer.admin.merge_patch(CONFIGMAPS, "settings", shop, {"data": data})
            return True
        metadata = {"name": "settings", "namespace": shop, "labels": {LABEL: "true"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await consumer.admin.create(CONFIGMAPS, body)
        return True

    async def delete_configmap(self, dice: Random) -> bool:
        """It goes."""
        consumer, shop = dice.choice(self.consumers), dice.choice(SHOPS)
        if not one(consumer.plane, CONFIGMAPS, "settings", shop):
            return False
        await consumer.admin.delete(CONFIGMAPS, "settings", shop)
        return True

    # --- what the factory does

    def _copy(self, dice: Random) -> tuple[Consumer, Object] | None:
        if self.focus is not None:
            consumer, key = self.focus
            copy = one(self.provider, WIDGETS, key.name, consumer.there.get(key.namespace, ""))
            if copy and self._place(copy) not in self.foreign and not copy.meta.deleting:
                return consumer, copy
        consumer = dice.choice(self.consumers)
        found = [
            copy
            for namespace in consumer.there.values()
            for copy in held(self.provider, WIDGETS, namespace)
            if self._place(copy) not in self.foreign and not copy.meta.deleting
        ]
        return (consumer, dice.choice(found)) if found else None

    def _place(self, copy: Object) -> Place:
        return Place(self.provider.name, WIDGETS.group_resource, copy.key)

    async def _operate(self, dice: Random, patch: JSON, **more: Any) -> bool:
        chosen = self._copy(dice)
        if chosen is None:
            return False
        copy = chosen[1]
        name, namespace = copy.meta.name, copy.meta.namespace
        made = await self.admin.merge_patch(WIDGETS, name, namespace, patch, **more)
        return made.meta.resource_version != copy.meta.resource_version

    async def report(self, dice: Random) -> bool:
        """The status of a copy."""
        self._numbers += 1
        status = {"made": self._numbers, "factory": dice.choice(("north", "south"))}
        return await self._operate(dice, {"status": status}, subresource="status")

    async def add(self, dice: Random) -> bool:
        """What the factory notes on a copy for itself."""
        return await self._operate(dice, additions(dice.randrange(9)))

    async def meddle(self, dice: Random) -> bool:
        """Somebody at the provider changes what is the consumer's."""
        return await self._operate(dice, {"spec": {"colour": dice.choice(("green", "red"))}})

    async def lose_mark(self, dice: Random) -> bool:
        """An annotation goes by which a copy is known."""
        patch = {"metadata": {"annotations": {ANNOTATION_CONSUMER_UID: None}}}
        return await self._operate(dice, patch)

    async def delete_copy(self, dice: Random) -> bool:
        """A copy is deleted at the provider."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        await self.admin.delete(WIDGETS, *reversed(chosen[1].key))
        return True

    async def certify(self, dice: Random) -> bool:
        """A Secret that a copy names: it comes, or has another content."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        self._numbers += 1
        copy = chosen[1]
        name, namespace = f"{copy.meta.name}-origin", copy.meta.namespace
        data = {"stringData": {"key": f"{PASSWORD}-{self._numbers}"}}
        if one(self.provider, SECRETS, name, namespace):
            await self.admin.merge_patch(SECRETS, name, namespace, data)
            return True
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data}
        await self.admin.create(SECRETS, body)
        return True

    async def uncertify(self, dice: Random) -> bool:
        """It goes."""
        found = [
            secret
            for consumer in self.consumers
            for namespace in consumer.there.values()
            for secret in held(self.provider, SECRETS, namespace)
            if secret.meta.name.endswith("-origin")
        ]
        if not found:
            return False
        await self.admin.delete(SECRETS, *reversed(dice.choice(found).key))
        return True

    async def native(self, dice: Random) -> bool:
        """The provider makes an object of its own where a copy could be."""
        consumer = dice.choice(self.consumers)
        namespace = consumer.there.get(dice.choice(SHOPS))
        if namespace is None:
            return False
        free = [name for name in NAMES if not one(self.provider, WIDGETS, name, namespace)]
        if not free:
            return False
        await self.admin.create(WIDGETS, thing(dice.choice(free), namespace))
        return True

    async def usurp(self, dice: Random) -> bool:
        """The provider deletes a copy, and makes an object of its own under the name."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        key = chosen[1].key
        await self.admin.delete(WIDGETS, *reversed(key))
        body = thing(key.name, key.namespace, note="the provider's own")
        await self.admin.create(WIDGETS, body)
        return True

    async def delete_native(self, dice: Random) -> bool:
        """One of them goes."""
        places = [
            place
            for place in self.foreign
            if place.collection == WIDGETS.group_resource and place.key.name in NAMES
        ]
        if not places:
            return False
        await self.admin.delete(WIDGETS, *reversed(dice.choice(places).key))
        return True
