"""What breaks, for every scenario: processes, ways, servers and clocks."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

from tests.sim.network import Link
from tests.sim.planes import Plane
from tests.sim.programs import Replica
from tests.sim.scenarios import Scenario


WRITES = ("create", "update", "patch", "delete")


class Breaking(Scenario):
    """Faults; each lasts for a while and is then over, or :meth:`heal` ends it.

    ``planes`` are the API servers, ``replicas`` all programs' processes.
    """

    faults: ClassVar[dict[str, float]] = {
        "kill": 3.0,
        "kill_all": 1.0,
        "freeze": 3.0,
        "plane_restarts": 2.0,
        "plane_away": 1.0,
        "silence": 2.0,
        "one_way_silence": 1.0,
        "refused": 1.0,
        "resets": 2.0,
        "slow_way": 1.0,
        "hold_watch": 3.0,
        "cut_watches": 2.0,
        "cut_event": 1.0,
        "compact": 2.0,
        "gap": 3.0,
        "errors": 3.0,
        "conflicts": 2.0,
        "busy": 1.0,
        "late_answers": 1.0,
        "lost_answers": 2.0,
        "skew": 1.0,
        "clock_jump": 1.0,
    }

    planes: list[Plane]
    replicas: list[Replica]

    # --- processes

    async def kill(self, dice: Random) -> bool:
        """kill -9, and a kubelet that starts it again."""
        replica = dice.choice(self.replicas)
        if not replica.running:
            return False
        self.say(f"kill {replica.name}")
        replica.kill()
        await asyncio.sleep(dice.choice((0.5, 5.0, 40.0)))
        replica.start()
        return True

    async def kill_all(self, dice: Random) -> bool:
        """All replicas of one program go at once."""
        one = dice.choice(self.replicas)
        mates = [
            mate
            for mate in self.replicas
            if mate.program.name == one.program.name and mate.home is one.home
        ]
        self.say(f"kill {', '.join(mate.name for mate in mates)}")
        for mate in mates:
            mate.kill()
        await asyncio.sleep(dice.choice((1.0, 20.0, 90.0)))
        for mate in mates:
            mate.start()
        return True

    async def freeze(self, dice: Random) -> bool:
        """The process stands still and goes on later; it is most often a leader."""
        leading = [one for one in self.replicas if one.running and self.leads(one)]
        candidates = [one for one in self.replicas if one.running]
        if not candidates:
            return False
        replica = dice.choice(leading if leading and dice.random() < 0.8 else candidates)
        process = replica.process
        assert process is not None
        self.say(f"freeze {replica.name}")
        process.freeze()
        await asyncio.sleep(dice.choice((2.0, 12.0, 20.0, 40.0)))
        self.say(f"thaw {replica.name}")
        process.thaw()
        return True

    def leads(self, replica: Replica) -> bool:
        """Whether its Lease is its own, as the API server has it."""
        raise NotImplementedError

    # --- API servers

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

    # --- the network

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

    # --- what API servers answer

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
        for _ in range(dice.randint(1, 4)):
            kind = dice.choices(list(self.operations), weights=list(self.operations.values()))[0]
            await asyncio.wait_for(self.step(kind, Random(dice.getrandbits(32))), 10.0)
        if plane.up:
            plane.sandbox.faults.compact()
        for replica in self.replicas:
            self.simulation.network.weather.link(replica.name, plane.name).refused = False
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

    async def lost_answers(self, dice: Random) -> bool:
        """The next writes of a program are done, and their answers are lost."""
        replica = dice.choice(self.replicas)
        left = [dice.choice((1, 1, 3))]

        def listen(connection: Any, end: Any, piece: bytes) -> None:
            if left[0] and end.process is replica.process and piece[:4] in _WRITING:
                left[0] -= 1
                # The request still arrives, for this end breaks only after it was sent.
                delay = self.simulation.network.weather.most + 0.001
                self.simulation.loop.call_later(delay, connection.reset)

        hooks = self.simulation.network.on_send
        hooks.append(listen)
        self.say(f"lose answers to {replica.name}")
        await asyncio.sleep(20.0)
        hooks.remove(listen)
        return left[0] == 0

    # --- clocks

    async def skew(self, dice: Random) -> bool:
        """The wall clock of one machine is wrong from now on."""
        replica = dice.choice(self.replicas)
        replica.skew = dice.choice((-300.0, -20.0, 20.0, 300.0))
        if replica.process is not None:
            replica.process.skew = replica.skew
        self.say(f"clock of {replica.name} is {replica.skew:+.0f} s")
        return True

    async def clock_jump(self, dice: Random) -> bool:
        """The wall clock of an API server jumps, and is put right later."""
        plane = dice.choice(self.planes)
        by = dice.choice((-60.0, -5.0, 5.0, 60.0))
        plane.skew = by
        plane.process.skew = by
        self.say(f"clock of {plane.name} is {by:+.0f} s")
        await asyncio.sleep(30.0)
        plane.skew = plane.process.skew = 0.0
        return True

    # --- the end

    async def heal(self) -> None:
        """End everything that lasts."""
        weather = self.simulation.network.weather
        weather.links.clear()
        weather.most, weather.splits = 0.002, 0.0
        for connection in list(self.simulation.network.connections.values()):
            connection.release()
        self.simulation.network.changed()
        for plane in self.planes:
            plane.skew = 0.0
            if not plane.up:
                await plane.restart()
            plane.process.skew = 0.0
            plane.sandbox.faults.clear()
            plane.sandbox.faults.heal()
        for replica in self.replicas:
            replica.skew = 0.0
            if replica.process is not None:
                replica.process.skew = 0.0
                if replica.process.frozen:
                    replica.process.thaw()
            replica.start()

    def say(self, text: str) -> None:
        """Note a fault in the trace."""
        self.simulation.trace.note("fault", "", text)

    def _resource(self, dice: Random) -> str:
        return dice.choice(("*", *self.resources))

    resources: tuple[str, ...] = ()
    """The plurals that faults are aimed at."""


_WRITING = frozenset({b"POST", b"PUT ", b"PATC", b"DELE"})
