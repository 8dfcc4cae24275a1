"""Processes that die, stand still, or lose their power."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from tests.sim.breaking import LEASE, WRITING, Base


class ProcessFaults(Base):
    """Each lasts for a while and is then over."""

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
        replica = self._someone(dice)
        if replica is None:
            return False
        process = replica.process
        assert process is not None
        self.say(f"freeze {replica.name}")
        process.freeze()
        await asyncio.sleep(dice.choice((2.0, 12.0, 20.0, 40.0)))
        self.say(f"thaw {replica.name}")
        process.thaw()
        return True

    async def torn(self, dice: Random) -> bool:
        """A replica dies or stands still between two of its writes, and meanwhile things go on."""
        replica = self._someone(dice)
        if replica is None:
            return False
        process, left = replica.process, dice.randint(1, 5)
        assert process is not None
        freezes, when = dice.random() < 0.3, dice.choice(("before", "under way", "answered"))
        torn = asyncio.Event()
        due: list[asyncio.TimerHandle] = []

        def tear() -> None:
            if process.alive and not torn.is_set():
                self.say(f"{replica.name} {'freezes' if freezes else 'dies'}: write {when}")
                torn.set()
                if freezes:
                    process.freeze()
                elif replica.process is process:
                    replica.kill()

        def listen(_: Any, end: Any, piece: bytes) -> None:
            nonlocal left
            if end.process is not process or piece[:4] not in WRITING or LEASE in piece[:200]:
                return
            left -= 1
            if left == 0:
                network = self.simulation.network
                most = network.weather.most
                # What is under way when a process dies never arrives.
                if when == "before" and not freezes:
                    tear()
                else:
                    later = most + 0.001 if when == "under way" else 2 * most + 0.004
                    due.append(self.simulation.loop.call_later(later, tear))

        hooks = self.simulation.network.on_send
        hooks.append(listen)
        try:
            with self.focused(dice, replica.home):
                await self.operate(dice, 2, 0.5)
                await asyncio.wait_for(torn.wait(), 20.0)
                await self.operate(dice, dice.randint(1, 3), 1.0)
        except TimeoutError:
            return False
        finally:
            hooks.remove(listen)
            # Nobody puts right what tears after this step is over.
            for timer in due:
                timer.cancel()
            if torn.is_set():
                await asyncio.sleep(dice.choice((0.1, 3.0, 25.0)))
                if process.alive:
                    process.thaw()
                replica.start()
        return True

    async def power_loss(self, dice: Random) -> bool:
        """A machine is gone without a word, and there again after a while."""
        replica = self._someone(dice)
        if replica is None:
            return False
        network = self.simulation.network
        links = [
            network.weather.link(*way)
            for plane in self.planes
            for way in ((replica.name, plane.name), (plane.name, replica.name))
        ]
        if any(link.silent for link in links):
            return False
        self.say(f"{replica.name} loses its power")
        for link in links:
            link.silent = True
        replica.kill()
        await asyncio.sleep(dice.choice((5.0, 30.0, 60.0)))
        for link in links:
            link.silent = False
        network.changed()
        replica.start()
        return True
