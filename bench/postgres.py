"""The PostgresAccess operator against a bare script and the seed's loop, on one PostgreSQL.

``BENCH_ACCESSES=100`` measures with so many accesses alone.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
from prometheus_client.parser import text_string_to_metric_families
from tests.support.postgres import Hanging

from bench.pair import Program
from bench.postgresbare import PREFIX, SEED, Cost, Script, bare_look, seed_loop, seed_roles
from bench.postgresload import OURS, Users
from bench.postgresplace import SERVER, Place, Server, place, profile
from bench.postgresrows import rows
from bench.rows import Row, emit
from bench.syncload import CREATE, Side, Write, each, side
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.postgres.database.connections.startup import APPLICATION
from fairlead.process import cancel_on, run


SIZES = (10, 100, 1000, 5000)
CONNECTIONS = (8, 16, 32)
TUNING = 60
"""Accesses with which the best number of connections is found, and with which all get warm."""
REPEATED = 100
"""Up to so many accesses the first convergence is measured three times: the median counts."""
SEEDS = 100
"""Up to so many accesses the seed's loop is measured; it grows with their square."""
CHANGES = 20
CYCLES = 2
HANGING = 40
HEALTHY = 7
"""Accesses that are made one after the other, alone and beside those that hang."""
ALIGNMENT_SECONDS = 0.25
_CYCLE_SECONDS = 120.0


class Convergence(NamedTuple):
    """From the first access created until all are ready."""

    seconds: float
    cpu: float
    """Seconds of the operator's CPU."""
    statements: float
    logins: float
    wal: int
    rows: int
    """Of catalogs, that were written."""
    requests: float
    """Of the operator to the API server, watches too."""
    bare: Cost
    """Of the script, before and after."""
    bare_wal: int
    bare_rows: int

    @property
    def ratio(self) -> float:
        return self.seconds / self.bare.seconds


class Steady(NamedTuple):
    """A cycle in which nothing differs."""

    seconds: float
    cpu: float
    statements: int
    connections: int
    wal: int
    writes: float
    """Requests to the API server other than GET."""
    look: float
    """Seconds of the bare look."""


class Latency(NamedTuple):
    """Seconds of changes, and of the bare echo's."""

    ours: list[float]
    echo: list[float]


class Hung(NamedTuple):
    """Median seconds until an access is ready, alone and beside servers that hang."""

    alone: float
    beside: float


class Figures(NamedTuple):
    """One number of accesses."""

    accesses: int
    connections: int
    first: Convergence
    rounds: int
    memory: float
    """Bytes that the operator's memory has grown by."""
    steady: Steady
    seed: Cost | None
    latency: Latency | None
    hung: Hung | None


class Half(NamedTuple):
    """What the bare script has done."""

    cost: Cost
    wal: int
    rows: int


class Bench:
    """All that is measured in one place."""

    def __init__(self, found: Place, loading: Side, connections: int) -> None:
        self._place = found
        self._operator: Program = found.operator
        self._server: Server = found.server
        self._side = loading
        self.connections = connections
        self._users = Users(loading, connections)
        self._script = Script(loading, found.server, connections)

    async def tune(self) -> None:
        """Find the number of connections with which the script is fastest."""
        await self._script.run("warm", range(TUNING))
        found = {}
        for connections in CONNECTIONS:
            script = Script(self._side, self._server, connections)
            cost = await script.run(f"tune-{connections}", range(TUNING))
            found[connections] = cost.seconds
        self.connections = min(found, key=lambda connections: found[connections])
        self._users = Users(self._side, self.connections)
        self._script = Script(self._side, self._server, self.connections)

    async def measure(self, accesses: int, *, last: bool) -> Figures:
        """Everything; what takes long, or needs no growing number, with the ``last`` alone."""
        await self._warm_up()
        resident = await self._operator.resident_at_rest()
        rounds = [await self._converge(0, accesses)]
        memory = await self._operator.resident_at_rest() - resident
        steady = await self._steady()
        latency = await self._changes(accesses) if last else None
        seed = None
        if accesses <= SEEDS:
            rounds += [await self._converge(number, accesses) for number in (1, 2)]
            seed = await seed_loop(self._server, await seed_roles(self._server, accesses))
        hung = await self._hang() if last else None
        typical = sorted(rounds, key=lambda one: one.ratio)[(len(rounds) - 1) // 2]
        return Figures(
            accesses,
            self.connections,
            typical._replace(rows=rounds[0].rows, bare_rows=rounds[0].bare_rows),
            len(rounds),
            memory,
            steady,
            seed,
            latency,
            hung,
        )

    async def _warm_up(self) -> None:
        """Connections, sessions and code are there before anything is measured."""
        await self._users.create("warm", range(TUNING))
        await self._users.delete("warm", range(TUNING))
        await self._script.run("warm-up", range(TUNING))

    async def _converge(self, number: int, accesses: int) -> Convergence:
        """Half of the bare script before and half after: a machine is not as fast at any time."""
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
            # Sessions that are kept tell the server's statistics what they did when they are next
            # used.
            await self._cycle()
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
        wal, written = await self._server.wal(), await self._server.written(PREFIX)
        cost = await self._script.run(name, numbers)
        return Half(
            cost,
            await self._server.wal() - wal,
            await self._server.written(PREFIX) - written,
        )

    async def _steady(self) -> Steady:
        """The best of a few cycles: what is done besides once a minute is not of the cycle."""
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
        """One after the other, each of another access, and the bare echo in turns with them."""
        ours, echo = [], []
        half = accesses // 2
        for number in range(min(CHANGES, half)):
            ours.append(await self._users.change(f"access-0-{number}", number, "UPDATE"))
            name = f"{PREFIX}-before-0-{number}"
            echo.append(await self._script.change(name, number, "UPDATE"))
        return Latency(ours, echo)

    async def _hang(self) -> Hung:
        """Half of them accept a connection and say nothing, half hang when a login went well."""
        alone = [await self._users.create("alone", [number]) for number in range(HEALTHY)]
        embedded = self._server.embedded
        async with AsyncExitStack() as stack:
            for late in (False, True):
                hanging = await stack.enter_async_context(Hanging(embedded, after_login=late))
                names = [f"hung-{late}-{number}".lower() for number in range(HANGING // 2)]
                for name in names:
                    body = profile(name, embedded.host, hanging.port)
                    await self._side.send(_create(body))
                await each(
                    self.connections,
                    [self._users.creation(name, number) for number, name in enumerate(names)],
                )
                await hanging.holds(len(names))
            beside = [await self._users.create("beside", [number]) for number in range(HEALTHY)]
        return Hung(statistics.median(alone), statistics.median(beside))

    async def _metrics(self) -> Numbers:
        return Numbers.of(await self._operator.metrics())


def _create(body: JSON) -> Write:
    return Write("POST", POSTGRESSERVERS.path(), msgspec.json.encode(body), CREATE)


class Numbers(NamedTuple):
    """What the operator tells of itself."""

    statements: float
    logins: float
    cycles: float
    seconds: float
    requests: float
    writes: float

    @classmethod
    def of(cls, text: str) -> Numbers:
        """From a scrape."""
        owner = {"owner": f"PostgresServer {SERVER}"}
        found: dict[str, float] = {}
        requests = writes = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "rest_client_requests_total":
                    requests += sample.value
                    writes += sample.value * (sample.labels["method"] != "GET")
                elif sample.labels == owner:
                    found[sample.name.removeprefix("fairlead_postgres_")] = sample.value
        return cls(
            statements=found.get("statements_total", 0.0),
            logins=found.get("logins_total", 0.0),
            cycles=found.get("cycle_seconds_count", 0.0),
            seconds=found.get("cycle_seconds_sum", 0.0),
            requests=requests,
            writes=writes,
        )


async def measure(folder: Path, accesses: int, connections: int, *, last: bool) -> Figures:
    """One number of accesses, in a place of its own."""
    async with place(folder, OURS, PREFIX, SEED) as found, side(found.loader) as loading:
        bench = Bench(found, loading, connections)
        if not connections:
            await bench.tune()
        return await bench.measure(accesses, last=last)


def _wanted() -> list[int]:
    return [int(os.environ["BENCH_ACCESSES"])] if "BENCH_ACCESSES" in os.environ else list(SIZES)


async def compare() -> list[Row]:
    figures: list[Figures] = []
    sizes = _wanted()
    special = 1000 if 1000 in sizes else sizes[-1]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path(__file__).parent) as folder:
        for accesses in sizes:
            connections = figures[0].connections if figures else 0
            one = await measure(Path(folder), accesses, connections, last=accesses == special)
            figures.append(one)
            print(f"bench: {one}", file=sys.stderr, flush=True)
    return rows(figures)


async def main(stop: asyncio.Event) -> None:
    emit(await cancel_on(stop, compare()))


if __name__ == "__main__":
    run(main)
