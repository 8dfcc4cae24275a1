"""The PostgresAccess operator against a bare script and the seed's loop, on one PostgreSQL."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from tests.support.postgres import Hanging

from bench.postgres.bare import Cost, Script, bare_look, seed_loop, seed_roles
from bench.postgres.figures import Convergence, Figures, Hung, Latency, Steady, rows
from bench.postgres.load import Users
from bench.postgres.place import OURS, SCRIPTS, SERVER, Place, place, profile
from bench.processes import Scrape
from bench.rows import Row, report, say
from bench.sizes import ACCESSES, SEED_ACCESSES
from fairlead.postgres.database.connections.startup import APPLICATION


CONNECTIONS = (8, 16, 32)
"""Numbers of connections of which the bare script takes the best."""
TUNING = 60
"""Accesses with which the best number of connections is found, and with which all get warm."""
REPEATED = 100
"""Accesses up to which the first convergence is measured three times: the median counts."""
CHANGES = 20
CYCLES = 2
HANGING = 40
HEALTHY = 7
"""Accesses that are made one after the other, alone and beside those that hang."""
ALIGNMENT_SECONDS = 0.25
_CYCLE_SECONDS = 120.0


class Half(NamedTuple):
    """Work of the bare script."""

    cost: Cost
    wal: int
    rows: int


class Bench:
    """All that is measured in one place."""

    def __init__(self, place: Place, connections: int) -> None:
        self._side, self._server, self._operator = place
        self._take(connections or max(CONNECTIONS))

    async def tune(self) -> None:
        """Find the number of connections with which the script is fastest."""
        await self._script.run("warm", range(TUNING))
        found = {}
        for connections in CONNECTIONS:
            script = Script(self._side, self._server, connections)
            cost = await script.run(f"tune-{connections}", range(TUNING))
            found[connections] = cost.seconds
        self._take(min(found, key=lambda connections: found[connections]))

    def _take(self, connections: int) -> None:
        self._connections = connections
        self._users = Users(self._side, connections)
        self._script = Script(self._side, self._server, connections)

    async def measure(self, accesses: int, *, last: bool) -> Figures:
        """Measure everything; what needs no growing number, with the ``last`` alone."""
        await self._warm_up()
        resident = await self._operator.resident_at_rest()
        rounds = [await self._converge(0, accesses)]
        memory = await self._operator.resident_at_rest() - resident
        steady = await self._steady()
        latency = await self._changes(accesses) if last else None
        seed = None
        if accesses <= REPEATED:
            rounds += [await self._converge(number, accesses) for number in (1, 2)]
        if accesses <= SEED_ACCESSES:
            seed = await seed_loop(self._server, await seed_roles(self._server, accesses))
        hung = await self._hang() if last else None
        typical = sorted(rounds, key=lambda one: one.ratio)[(len(rounds) - 1) // 2]
        return Figures(
            accesses,
            self._connections,
            typical._replace(rows=rounds[0].rows, bare_rows=rounds[0].bare_rows),
            len(rounds),
            memory,
            steady,
            seed,
            latency,
            hung,
        )

    async def _warm_up(self) -> None:
        """Have connections, sessions and code there before anything is measured."""
        await self._users.create("warm", range(TUNING))
        await self._users.delete("warm", range(TUNING))
        await self._script.run("warm-up", range(TUNING))
        # What its sessions did is told to the server's statistics when they are next used.
        await self._cycle()

    async def _converge(self, number: int, accesses: int) -> Convergence:
        """Run half of the bare script before and half after, as a machine's speed changes."""
        half = accesses // 2
        before = await self._bare(f"before-{number}", range(half))
        metrics, wal = await self._metrics(), await self._server.wal()
        written = await self._server.written(OURS)
        cpu = self._operator.cpu()
        seconds = await self._users.create(f"access-{number}", range(accesses))
        cpu = self._operator.cpu() - cpu
        now = await self._metrics()
        wal = await self._server.wal() - wal
        if number == 0:
            await self._cycle()  # As after the warm-up.
        written = await self._server.written(OURS) - written
        after = await self._bare(f"after-{number}", range(half, accesses))
        return Convergence(
            seconds=seconds,
            cpu=cpu,
            statements=now.statements - metrics.statements,
            logins=now.logins - metrics.logins,
            wal=wal,
            rows=written,
            requests=now.requests - metrics.requests,
            bare=before.cost + after.cost,
            bare_wal=before.wal + after.wal,
            bare_rows=before.rows + after.rows,
        )

    async def _bare(self, name: str, numbers: Sequence[int]) -> Half:
        wal, written = await self._server.wal(), await self._server.written(SCRIPTS)
        cost = await self._script.run(name, numbers)
        return Half(
            cost,
            await self._server.wal() - wal,
            await self._server.written(SCRIPTS) - written,
        )

    async def _steady(self) -> Steady:
        """Find the best of a few cycles, without what is done besides once a minute."""
        await self._cycle()
        await self._server.log_statements(wanted=True)
        found = [await self._one_cycle() for _ in range(CYCLES)]
        await self._server.log_statements(wanted=False)
        best = [min(values) for values in zip(*found, strict=True)]
        return Steady(*best[:-1], look=await bare_look(self._server, OURS))  # type: ignore[misc]

    async def _one_cycle(self) -> Steady:
        log, wal, cpu = self._server.log(), await self._server.wal(), self._operator.cpu()
        before = await self._metrics()
        await self._cycle()
        now = await self._metrics()
        return Steady(
            seconds=(now.seconds - before.seconds) / (now.cycles - before.cycles),
            cpu=self._operator.cpu() - cpu,
            statements=log.statements(APPLICATION),
            connections=log.connections(),
            wal=await self._server.wal() - wal,
            writes=now.writes - before.writes,
            look=0.0,
        )

    async def _cycle(self) -> None:
        """Wait for the end of the next cycle; to ask often would be work for the operator."""
        begun = (await self._metrics()).cycles
        async with asyncio.timeout(_CYCLE_SECONDS):
            while (await self._metrics()).cycles == begun:  # noqa: ASYNC110
                await asyncio.sleep(ALIGNMENT_SECONDS)

    async def _changes(self, accesses: int) -> Latency:
        """Change one access after the other, in turns with the bare echo."""
        ours, echo = [], []
        half = accesses // 2
        for number in range(min(CHANGES, half)):
            ours.append(await self._users.change(f"access-0-{number}", number, "UPDATE"))
            name = f"{SCRIPTS}-before-0-{number}"
            echo.append(await self._script.change(name, number, "UPDATE"))
        return Latency(ours, echo)

    async def _hang(self) -> Hung:
        """Hang: half accept a connection and say nothing, half hang when a login went well."""
        alone = [await self._users.create("alone", [number]) for number in range(HEALTHY)]
        embedded = self._server.embedded
        async with AsyncExitStack() as stack:
            for late in (False, True):
                hanging = await stack.enter_async_context(Hanging(embedded, after_login=late))
                names = [f"hung-{late}-{number}".lower() for number in range(HANGING // 2)]
                for name in names:
                    await self._side.send(profile(name, embedded, hanging.port))
                await self._users.create_at(names)
                await hanging.holds(len(names))
            beside = [await self._users.create("beside", [number]) for number in range(HEALTHY)]
        return Hung(statistics.median(alone), statistics.median(beside))

    async def _metrics(self) -> Numbers:
        return Numbers.of(await self._operator.metrics())


class Numbers(NamedTuple):
    """Numbers that the operator tells of itself."""

    statements: float
    logins: float
    cycles: float
    seconds: float
    requests: float
    writes: float

    @classmethod
    def of(cls, told: Scrape) -> Numbers:
        """Pick them from a scrape."""
        names = ("statements_total", "logins_total", "cycle_seconds_count", "cycle_seconds_sum")
        owner = f"PostgresServer {SERVER}"
        ours = (told.total(f"fairlead_postgres_{name}", owner=owner) for name in names)
        return cls._make([*ours, told.requests, told.writes])


async def compare() -> list[Row]:
    """Measure all sizes, each in a place of its own."""
    figures: list[Figures] = []
    special = 1000 if 1000 in ACCESSES else ACCESSES[-1]
    for accesses in ACCESSES:
        async with place() as found:
            bench = Bench(found, figures[0].connections if figures else 0)
            if not figures:
                await bench.tune()
            one = await bench.measure(accesses, last=accesses == special)
        figures.append(one)
        say(str(one))
    return list(rows(figures))


if __name__ == "__main__":
    report(compare)
