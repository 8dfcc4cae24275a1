"""Ways that are silent, slow or cut, and watches that stay behind."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from tests.sim.breaking import LEASE, WRITING, Base
from tests.sim.network import Link


class NetworkFaults(Base):
    """Each lasts for a while and is then over."""

    async def silence(self, dice: Random) -> bool:
        """Nothing comes through between a program and an API server."""
        replica, plane = dice.choice(self.replicas), dice.choice(self.planes)
        both = ((replica.name, plane.name), (plane.name, replica.name))
        return await self._links(dice, both, "silence")

    async def one_way_silence(self, dice: Random) -> bool:
        """Nothing comes through in one direction alone."""
        replica, plane = dice.choice(self.replicas), dice.choice(self.planes)
        way = (replica.name, plane.name)
        return await self._links(dice, (way if dice.random() < 0.5 else way[::-1],), "silence")

    async def _links(self, dice: Random, ways: tuple[tuple[str, str], ...], what: str) -> bool:
        network = self.simulation.network
        found = [network.weather.link(*way) for way in ways]
        if any(link.silent for link in found):
            return False
        self.say(f"{what} {ways[0][0]} > {ways[0][1]}")
        for link in found:
            link.silent = True
        await asyncio.sleep(dice.choice((3.0, 20.0, 70.0)))
        for link in found:
            link.silent = False
        network.changed()
        return True

    async def refused(self, dice: Random) -> bool:
        """New connections are refused; those that are there go on."""
        replica, plane = dice.choice(self.replicas), dice.choice(self.planes)
        link = self.simulation.network.weather.link(replica.name, plane.name)
        link.refused = True
        self.say(f"refuse connections {replica.name} > {plane.name}")
        await asyncio.sleep(dice.choice((3.0, 30.0)))
        link.refused = False
        return True

    async def slow_way(self, dice: Random) -> bool:
        """Each message takes seconds."""
        replica, plane = dice.choice(self.replicas), dice.choice(self.planes)
        link: Link = self.simulation.network.weather.link(plane.name, replica.name)
        link.slow = dice.choice((0.3, 2.0))
        self.say(f"slow {plane.name} > {replica.name}")
        await asyncio.sleep(dice.choice((10.0, 60.0)))
        link.slow = 0.0
        return True

    async def resets(self, dice: Random) -> bool:
        """Some connections break, in the middle of whatever is on them."""
        open_ = list(self.simulation.network.connections.values())
        if not open_:
            return False
        some = dice.sample(open_, k=min(len(open_), dice.randint(1, 6)))
        self.say(f"reset {len(some)} connections")
        for connection in some:
            connection.reset()
        return True

    async def hold_watch(self, dice: Random) -> bool:
        """One watch falls far behind the others."""
        watches = [
            one
            for one in self.simulation.network.connections.values()
            if "watch=true" in one.about and not one.held
        ]
        if not watches:
            return False
        connection = dice.choice(watches)
        self.say(f"hold back {connection.about[:80]}")
        connection.hold()
        await asyncio.sleep(dice.choice((1.0, 10.0, 25.0)))
        connection.release()
        return True

    async def behind(self, dice: Random) -> bool:
        """What is seen of one kind stays behind while things go on; then it comes, or is gone."""
        resource = dice.choice(self.resources) if dice.random() < 0.5 else self.resources[0]
        watches = [
            one
            for one in self.simulation.network.connections.values()
            if "watch=true" in one.about and f"/{resource}?" in one.about and not one.held
        ]
        if not watches:
            return False
        server = dice.choice(watches).server.process
        held = [one for one in watches if one.server.process is server]
        plane = next((known for known in self.planes if known.process is server), None)
        if plane is None:
            return False
        self.say(f"hold back {len(held)} watches of {resource} at {plane.name}")
        for connection in held:
            connection.hold()
        with self.focused(dice):
            await self.operate(dice, dice.randint(2, 5), dice.choice((0.2, 2.0, 8.0)))
        if plane.up and dice.random() < 0.6:
            self.say(f"what {plane.name} had to tell of {resource} is gone")
            plane.sandbox.faults.compact()
            for connection in held:
                connection.reset()
        for connection in held:
            connection.release()
        return True

    async def gap(self, dice: Random) -> bool:
        """Something changes while nobody looks, and then history is gone."""
        plane = dice.choice(self.planes)
        if not plane.up:
            return False
        self.say(f"gap at {plane.name}")
        faults = plane.sandbox.faults
        for replica in self.replicas:
            self.simulation.network.weather.link(replica.name, plane.name).refused = True
        faults.drop_watches()
        await asyncio.sleep(0.1)
        with self.focused(dice):
            await self.operate(dice, dice.randint(1, 4), 0.0)
        if plane.up:
            plane.sandbox.faults.compact()
        for replica in self.replicas:
            self.simulation.network.weather.link(replica.name, plane.name).refused = False
        return True

    async def lost_answers(self, dice: Random) -> bool:
        """The next writes of a program are done, and their answers are lost."""
        replica = self._someone(dice)
        if replica is None:
            return False
        left = [dice.choice((1, 1, 3))]

        def listen(connection: Any, end: Any, piece: bytes) -> None:
            mine = end.process is not None and end.process is replica.process
            if left[0] and mine and piece[:4] in WRITING and LEASE not in piece[:200]:
                left[0] -= 1
                # The request still arrives, for this end breaks only after it was sent.
                delay = self.simulation.network.weather.most + 0.001
                self.simulation.loop.call_later(delay, connection.reset)

        hooks = self.simulation.network.on_send
        hooks.append(listen)
        self.say(f"lose answers to {replica.name}")
        try:
            with self.focused(dice, replica.home):
                await self.operate(dice, 3, 0.5)
            await asyncio.sleep(10.0)
        finally:
            hooks.remove(listen)
        return left[0] == 0
