"""API servers that are away, behind, restored, or answer with errors."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from tests.sim import views
from tests.sim.breaking import Base
from tests.sim.planes import Plane


WRITES = ("create", "update", "patch", "delete")
"""Verbs."""
_WATCH = b"watch=true"


class ServerFaults(Base):
    """Each lasts for a while and is then over."""

    async def plane_restarts(self, dice: Random) -> bool:
        """An API server is killed and is there again soon."""
        return await self._away(dice.choice(self.planes), dice.uniform(0.1, 3.0))

    async def plane_away(self, dice: Random) -> bool:
        """An API server is away for longer."""
        return await self._away(dice.choice(self.planes), dice.choice((30.0, 90.0, 700.0)))

    async def _away(self, plane: Plane, seconds: float) -> bool:
        if not plane.up:
            return False
        self.say(f"{plane.name} is away for {seconds:.1f} s")
        await plane.kill()
        await asyncio.sleep(seconds)
        if not plane.up:
            await plane.restart()
            self.say(f"{plane.name} is back")
        return True

    async def restore(self, dice: Random) -> bool:
        """An API server loses what happened lately; its programs are started again after that."""
        plane = dice.choice(self.planes)
        if not plane.up:
            return False
        plane.save()
        known = self.saved(plane)
        self.say(f"{plane.name} is backed up")
        with self.focused(dice):
            await self.operate(dice, dice.randint(1, 6), dice.choice((0.1, 2.0)))
        if not plane.up:
            return False
        self.say(f"{plane.name} is restored")
        await plane.kill()
        await asyncio.sleep(dice.uniform(0.1, 3.0))
        if plane.up:
            return False
        self.restored(plane, known)
        await plane.restore(plane.backups[-1][1])
        for replica in self.replicas:
            # What has seen later versions would take older ones for known.
            replica.kill()
            replica.start()
        return True

    def saved(self, plane: Plane) -> object:
        """What has to be known of an API server to restore it."""
        return None

    def restored(self, plane: Plane, known: object) -> None:
        """Take back what the world knows of an API server."""

    async def cut_watches(self, dice: Random) -> bool:
        """All watches of one resource, or all at all, are cut."""
        plane = dice.choice(self.planes)
        if not plane.up:
            return False
        return bool(plane.sandbox.faults.drop_watches(self._resource(dice)))

    async def cut_event(self, dice: Random) -> bool:
        """The next event of some watches ends in the middle."""
        plane = dice.choice(self.planes)
        if plane.up:
            plane.sandbox.faults.cut_event(self._resource(dice))
        return plane.up

    async def compact(self, dice: Random) -> bool:
        """History is forgotten, and watches have to list again."""
        plane = dice.choice(self.planes)
        if not plane.up:
            return False
        plane.sandbox.faults.compact()
        plane.sandbox.faults.drop_watches(self._resource(dice))
        return True

    async def old_view(self, dice: Random) -> bool:
        """A replica lists from an API server that is behind, and hears no more for a while."""
        replica, plane = self._someone(dice), dice.choice(self.planes)
        if replica is None or not plane.up:
            return False
        network, store = self.simulation.network, plane.store
        with self.focused(dice, plane):
            await self.operate(dice, dice.randint(1, 4), 1.0)
        if not replica.running or plane.store is not store or replica.name in views.behind(store):
            return False
        oldest = max(store.compacted, store.rv - dice.choice((5, 20, 60)))
        if oldest >= store.rv:
            return False

        def listen(connection: Any, end: Any, piece: bytes) -> None:
            process = end.process
            there = connection.server.process is plane.process
            mine = process is not None and process.name == replica.name
            if there and mine and _WATCH in piece[:500]:
                connection.hold()

        views.behind(store)[replica.name] = dice.randrange(oldest, store.rv)
        self.say(f"{replica.name} sees {plane.name} as of {views.behind(store)[replica.name]}")
        network.on_send.append(listen)
        try:
            if dice.random() < 0.6:
                replica.kill()
                replica.start()
            else:
                plane.sandbox.faults.fail("watch", "*", 410, times=20)
                plane.sandbox.faults.drop_watches()
            await self.operate(dice, dice.randint(0, 2), 1.0)
            await asyncio.sleep(dice.choice((1.0, 8.0, 30.0)))
        finally:
            views.behind(store).pop(replica.name, None)
            network.on_send.remove(listen)
        for connection in list(network.connections.values()):
            if connection.held and connection.server.process is plane.process:
                connection.release()
        return True

    async def repeat(self, dice: Random) -> bool:
        """Watches tell again what they have told: time goes back, and on to the present."""
        plane, resource = dice.choice(self.planes), dice.choice(self.resources)
        if not plane.up:
            return False
        found = next(
            (one for one in plane.store.collections() if one.name.split(".")[0] == resource), None
        )
        if found is None or not found.subscribers:
            return False
        store, first = plane.store, plane.store.published - dice.choice((3, 30, 200))
        changes = store.history(found.name, max(first, store.compacted), store.published, 1000)
        self.say(f"{plane.name} tells {len(changes)} events of {found.name} again")
        for listener in list(found.subscribers):
            for change in changes:
                listener(change)
        return bool(changes)

    async def lose(self, dice: Random) -> bool:
        """Watches leave out an event without a word; that is found within hours alone."""
        plane = dice.choice(self.planes)
        resource = dice.choice(self.resources) if dice.random() < 0.5 else self.resources[0]
        if not plane.up or not plane.sandbox.faults.lose(resource, dice.choice((1, 1, 3))):
            return False
        self.say(f"{plane.name} leaves out events of {resource}")
        self.missing = True
        with self.focused(dice):
            await self.operate(dice, 3, 1.0)
        return True

    async def starve(self, dice: Random) -> bool:
        """One kind of objects does not come through for a while, all else does."""
        plane, resource = dice.choice(self.planes), dice.choice(self.resources)
        if not plane.up:
            return False
        faults, seconds = plane.sandbox.faults, dice.choice((10.0, 60.0, 150.0))
        code = dice.choice((0, 403, 500, 503))
        self.say(f"{plane.name} serves no {resource}: {code or 'silence'} for {seconds:.0f} s")
        if code:
            faults.fail("*", resource, code, times=-1)
        else:
            faults.delay(1000.0, "*", resource)
        rule = faults._rules[-1]
        faults.drop_watches(resource)
        await asyncio.sleep(seconds)
        rule.times = 0
        return True

    async def errors(self, dice: Random) -> bool:
        """Some requests are answered with 500."""
        return self._refuse(dice, dice.choice((500, 500, 504)))

    async def conflicts(self, dice: Random) -> bool:
        """Writes are answered with 409."""
        return self._refuse(dice, 409)

    async def busy(self, dice: Random) -> bool:
        """429 and 503, with and without Retry-After."""
        return self._refuse(dice, dice.choice((429, 503)), retry_after=dice.choice((0, 1, 5)))

    def _refuse(self, dice: Random, code: int, **more: Any) -> bool:
        plane = dice.choice(self.planes)
        if not plane.up:
            return False
        verbs = WRITES if code == 409 else (*WRITES, "get", "list", "watch")
        resource, times = self._resource(dice), dice.choice((1, 3, 20))
        self.say(f"{plane.name} answers {times} requests on {resource} with {code}")
        for verb in dice.sample(verbs, k=2):
            plane.sandbox.faults.fail(verb, resource, code, times=times, **more)
        return True

    async def late_answers(self, dice: Random) -> bool:
        """Requests on one resource are answered late, for a while."""
        plane = dice.choice(self.planes)
        if not plane.up:
            return False
        faults = plane.sandbox.faults
        resource = self._resource(dice)
        self.say(f"{plane.name} answers late on {resource}")
        faults.delay(dice.choice((1.0, 8.0, 40.0)), "*", resource, times=dice.randint(1, 10))
        return True
