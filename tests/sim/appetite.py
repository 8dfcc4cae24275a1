"""What programs take: requests for one object, and tasks and watches at rest."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Any

from tests.sim.network import Connection
from tests.sim.programs import Replica
from tests.sim.simulation import Simulation


WINDOW = 120.0
"""Seconds within which requests are counted: the first tries of a back-off come together."""
MOST = 120
"""Requests of one replica for one object within the window."""
MORE = 3
"""Tasks and watches that one may have more, for those that begin anew at that very moment."""

_REQUEST = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) ([^? ]+)(\?\S*)? HTTP/1.1\r\n")


class Appetite:
    """Counts the requests of replicas, and what they hold."""

    def __init__(self, simulation: Simulation, replicas: Iterable[Replica]) -> None:
        self._simulation = simulation
        self._replicas = list(replicas)
        self._sent: dict[tuple[str, bytes, bytes], deque[float]] = {}
        self._rested: dict[str, tuple[int, int]] = {}
        simulation.network.on_send.append(self._count)

    def _count(self, connection: Connection, end: Any, piece: bytes) -> None:
        found = _REQUEST.match(piece)
        if found is None or end.process is None or end.process.name == "driver":
            return
        now = self._simulation.loop.time()
        which = (end.process.name, found[1], found[2])
        times = self._sent.setdefault(which, deque())
        times.append(now)
        while times[0] < now - WINDOW:
            times.popleft()
        figures = self._simulation.figures
        figures["busiest"] = max(figures.get("busiest", 0.0), len(times))
        if len(times) > MOST:
            self._simulation.violated(
                f"{which[0]} sends {which[1].decode()} {which[2].decode()} {len(times)} times in "
                f"{WINDOW:.0f} s"
            )

    def held(self) -> dict[str, tuple[int, int]]:
        """Tasks and watches by program and cluster: which of its replicas leads may change."""
        found: dict[str, tuple[int, int]] = {}
        for replica in self._replicas:
            process = replica.process
            if process is None:
                continue
            tasks = len(self._simulation.loop.tasks_of(process))
            watches = sum(
                connection.client.process is process and "watch=true" in connection.about
                for connection in self._simulation.network.connections.values()
            )
            name = f"{replica.program.name} of {replica.home.name}"
            known = found.get(name, (0, 0))
            found[name] = (known[0] + tasks, known[1] + watches)
        return found

    def rest(self) -> None:
        """Remember what is held now, with everything at rest."""
        self._rested = self.held()

    def grown(self) -> list[str]:
        """Who holds more than at rest before."""
        found = []
        for name, (tasks, watches) in self.held().items():
            before = self._rested[name]
            if tasks > before[0] + MORE or watches > before[1] + MORE:
                found.append(
                    f"{name} has {tasks} tasks and {watches} watches, at the beginning it had "
                    f"{before[0]} and {before[1]}"
                )
        return found
