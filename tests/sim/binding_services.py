"""What owners of services do in the scenario ``binding``."""

from __future__ import annotations

import asyncio
from random import Random

from tests.sim import binding_world as world
from tests.sim.faults import Breaking
from tests.sim.planes import Plane
from tests.sim.simulation import Simulation
from tests.sim.stores import held, one
from tests.support.binding import DATABASES

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, SECRETS, Resource
from fairlead.client import AlreadyExists, Client, NotFound


WAIT_SECONDS = 20.0
"""Seconds for which somebody waits for a name to be free."""
HELD = (*world.SECRETS_OF_TEAMS, "db1-creds", "db2-creds", "cache-creds")
"""The Secrets of a namespace that services have."""
SERVICES = ((DATABASES, "db1"), (DATABASES, "db2"), (world.CACHES, "cache"))


class Owners(Breaking):
    """Operations of owners; each reads the store as it is, and writes through the API."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.plane = Plane(simulation, "cluster")
        self.planes = [self.plane]
        self.admin: Client
        self._numbers = 0

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def serve(self, resource: Resource, name: str, shop: str, secret: str) -> None:
        """A service, which says what it is bound with; "" is nothing yet."""
        if not one(self.plane, resource, name, shop):
            await self.admin.create(resource, world.service(resource, name, shop, 0))
        status: JSON = (
            {"binding": {"name": secret}} if resource is DATABASES else {"secret": secret}
        )
        if not secret:
            return
        try:
            await self.admin.merge_patch(
                resource, name, shop, {"status": status}, subresource="status"
            )
        except NotFound:
            # A deletion that the server was too busy for has come between.
            await self.serve(resource, name, shop, secret)

    async def rotate(self, dice: Random) -> bool:
        """A Secret has other content."""
        shop = dice.choice(world.SHOPS)
        there = [name for name in HELD if one(self.plane, SECRETS, name, shop)]
        if not there:
            return False
        name = dice.choice(there)
        # Now and then it is as it was once before.
        number = dice.choice((0, 1, self._number()))
        data = world.secret(name, shop, number)["data"]
        before = one(self.plane, SECRETS, name, shop)
        made = await self.admin.merge_patch(SECRETS, name, shop, {"data": data})
        return before is not None and made.meta.resource_version != before.meta.resource_version

    async def secret_goes(self, dice: Random) -> bool:
        """A Secret is deleted."""
        shop = dice.choice(world.SHOPS)
        there = [name for name in HELD if one(self.plane, SECRETS, name, shop)]
        if not there:
            return False
        await self.admin.delete(SECRETS, dice.choice(there), shop)
        return True

    async def secret_comes(self, dice: Random) -> bool:
        """A Secret that was missing is there."""
        shop = dice.choice(world.SHOPS)
        missing = [name for name in HELD if not one(self.plane, SECRETS, name, shop)]
        if not missing:
            return False
        body = world.secret(dice.choice(missing), shop, self._number())
        await self.admin.create(SECRETS, body)
        return True

    async def name_secret(self, dice: Random) -> bool:
        """A service names another Secret, or none any more."""
        shop = dice.choice(world.SHOPS)
        resource, name = dice.choice(SERVICES)
        found = one(self.plane, resource, name, shop)
        if found is None:
            return False
        secret = dice.choice(("db1-creds", "db2-creds", "cache-creds", "login", None))
        field: JSON = {"name": secret} if secret else {"name": None}
        status = {"binding": field} if resource is DATABASES else {"secret": secret}
        made = await self.admin.merge_patch(
            resource, name, shop, {"status": status}, subresource="status"
        )
        return made.meta.resource_version != found.meta.resource_version

    async def service_goes(self, dice: Random) -> bool:
        """A service is deleted."""
        shop = dice.choice(world.SHOPS)
        resource, name = dice.choice(SERVICES)
        if not one(self.plane, resource, name, shop):
            return False
        await self.admin.delete(resource, name, shop)
        return True

    async def service_comes(self, dice: Random) -> bool:
        """A service that was missing is there, and later says what it is bound with."""
        shop = dice.choice(world.SHOPS)
        missing = [it for it in SERVICES if not one(self.plane, it[0], it[1], shop)]
        if not missing:
            return False
        resource, name = dice.choice(missing)
        await self.admin.create(resource, world.service(resource, name, shop, self._number()))
        await asyncio.sleep(dice.choice((0.0, 2.0, 15.0)))
        await self.serve(resource, name, shop, f"{name}-creds")
        return True

    async def own_more(self, dice: Random) -> bool:
        """A service comes to own a ConfigMap, or that says something else, or goes."""
        shop, name = dice.choice(world.SHOPS), dice.choice(("db1", "db2"))
        there = one(self.plane, CONFIGMAPS, f"{name}-facts", shop)
        service = one(self.plane, DATABASES, name, shop)
        data = {"port": str(5000 + self._number())}
        if there:
            if dice.random() < 0.3:
                await self.admin.delete(CONFIGMAPS, f"{name}-facts", shop)
            else:
                await self.admin.merge_patch(CONFIGMAPS, f"{name}-facts", shop, {"data": data})
            return True
        if service is None:
            return False
        owner = {
            "apiVersion": service.api_version,
            "kind": service.kind,
            "name": name,
            "uid": service.meta.uid,
        }
        metadata = {"name": f"{name}-facts", "namespace": shop, "ownerReferences": [owner]}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await self.admin.create(CONFIGMAPS, body)
        return True

    async def lose_generated(self, dice: Random) -> bool:
        """Somebody deletes or edits a Secret that was made for a binding."""
        found = [
            secret
            for secret in held(self.plane, SECRETS)
            if any(owner.kind == "ServiceBinding" for owner in secret.meta.owner_references)
        ]
        if not found:
            return False
        name, shop = reversed(dice.choice(found).key)
        if dice.random() < 0.5:
            await self.admin.delete(SECRETS, name, shop)
        else:
            data = world.encoded({"type": "forged"})
            await self.admin.merge_patch(SECRETS, name, shop, {"data": data})
        return True

    async def _until_gone(self, resource: Resource, found: Object, dice: Random) -> bool:
        end = self.simulation.loop.time() + WAIT_SECONDS
        while one(self.plane, resource, *reversed(found.key)):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(dice.uniform(0.001, 0.2))
        return True

    # --- the end

    async def deleted(self, resource: Resource, found: Object) -> None:
        """Delete what may be gone already."""
        try:
            await self.admin.delete(resource, *reversed(found.key))
        except NotFound:
            return

    async def make_well(self) -> None:
        """Have all services there, with what they are bound with."""
        for shop in world.SHOPS:
            for name in HELD:
                if not one(self.plane, SECRETS, name, shop):
                    try:
                        await self.admin.create(SECRETS, world.secret(name, shop, self._number()))
                    except AlreadyExists:
                        continue
            await self.serve(DATABASES, "db1", shop, "db1-creds")
            await self.serve(DATABASES, "db2", shop, "db2-creds")
            await self.serve(world.CACHES, "cache", shop, "cache-creds")
