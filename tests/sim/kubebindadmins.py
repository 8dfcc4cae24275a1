"""What administrators do in the world of kube-bind: namespaces, credentials, binding again."""

from __future__ import annotations

import asyncio
import base64
from random import Random

from tests.sim.kubebindpeople import Peopled
from tests.sim.kubebindworld import KIOSK, Consumer, named
from tests.sim.planes import Plane
from tests.sim.stores import held, one
from tests.support.load import thing
from tests.support.provider import WIDGETS

from fairlead.api.kubebind import APISERVICEEXPORTS
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.provider.commands.rotation.work import RotateError, rotate
from fairlead.provider.options import InviteOptions


ROTATION_SECONDS = 60.0
"""Simulated seconds for which a rotation waits for the konnector."""


class Administered(Peopled):
    """Operations of administrators."""

    async def kiosk(self, dice: Random) -> bool:
        """A namespace of its own opens, or goes with all that is in it, and opens again."""
        consumer = dice.choice(self.consumers)
        found = one(consumer.plane, NAMESPACES, KIOSK)
        if found is None:
            await self._open(consumer)
            return True
        if found.meta.deleting:
            return False
        await consumer.admin.delete(NAMESPACES, KIOSK)
        again = dice.random() < 0.5
        end = self.simulation.loop.time() + 30.0
        while again and self.simulation.loop.time() < end:
            if not one(consumer.plane, NAMESPACES, KIOSK):
                await self._open(consumer)
                break
            await asyncio.sleep(0.05)
        return True

    async def _open(self, consumer: Consumer) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KIOSK}}
        await consumer.admin.create(NAMESPACES, body)
        await consumer.admin.create(WIDGETS, thing("w1", KIOSK, certificates=named("w1")))

    async def rotate(self, dice: Random) -> bool:
        """A consumer gets new credentials."""
        consumer = dice.choice(self.consumers)
        if consumer.broken:
            return False
        namespace = await self.admin.get(NAMESPACES, consumer.namespace)
        try:
            await rotate(
                self.admin,
                namespace,
                options=InviteOptions(),
                timeout=ROTATION_SECONDS,
                finish=False,
                progress=self.say,
            )
        except RotateError as error:
            self.say(f"the rotation is not done: {error}")
            return False
        return True

    async def spoil_credentials(self, dice: Random) -> bool:
        """The kubeconfig of a consumer is worth nothing, until somebody binds again."""
        consumer = dice.choice(self.consumers)
        found = self._kubeconfig(consumer)
        if found is None or consumer.broken:
            return False
        consumer.broken = True
        data = found.to_dict()["data"]
        name = next(iter(data))
        text = base64.b64decode(data[name]).decode()
        token = text.split("token: ")[1].split("\n")[0].strip().strip('"')
        spoilt = base64.b64encode(text.replace(token, f"{token[:-4]}nope").encode()).decode()
        patch = {"data": {name: spoilt}}
        await consumer.admin.merge_patch(SECRETS, found.meta.name, KONNECTOR_NAMESPACE, patch)
        await asyncio.sleep(dice.choice((2.0, 20.0, 60.0)))
        if consumer.plane.up and self.provider.up:
            await asyncio.wait_for(self.bind(consumer), 60.0)
        return True

    async def unexport(self, dice: Random) -> bool:
        """Somebody deletes an export, and the consumer binds again."""
        consumer = dice.choice(self.consumers)
        found = held(self.provider, APISERVICEEXPORTS, consumer.namespace)
        if not found or consumer.broken:
            return False
        consumer.broken = consumer.unbound = True
        await self.admin.delete(APISERVICEEXPORTS, *reversed(found[0].key))
        await asyncio.sleep(dice.choice((1.0, 10.0, 40.0)))
        if consumer.plane.up and self.provider.up:
            await asyncio.wait_for(self.bind(consumer), 60.0)
        return True

    def _kubeconfig(self, consumer: Consumer) -> Object | None:
        found = [
            secret
            for secret in held(consumer.plane, SECRETS, KONNECTOR_NAMESPACE)
            if b"kubeconfig" in secret.raw
        ]
        return found[0] if found else None

    def restored(self, plane: Plane, known: object) -> None:
        """What was handed out since then is worth nothing."""
        super().restored(plane, known)
        for consumer in self.consumers:
            if plane in {self.provider, consumer.plane}:
                consumer.broken = True

    async def heal(self) -> None:
        """Bind again where credentials may be worth nothing."""
        await super().heal()
        for consumer in self.consumers:
            if consumer.broken:
                await self.bind(consumer)
