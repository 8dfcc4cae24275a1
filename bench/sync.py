"""The konnector against a bare loader that makes the same writes, on two planes of either kind.

``BENCH_OBJECTS=1000`` measures with so many objects alone, ``BENCH_PLANES=sandbox`` on planes of
this kind alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.realplane import missing_assets

from bench.inflight import Latencies, latencies
from bench.pair import Pair, Program, pair
from bench.restart import Restart, restart
from bench.rows import Row, emit
from bench.syncload import LOADED, Bare, Crossing, side
from bench.syncrows import rows
from fairlead.process import cancel_on, run


SIZES = (1000, 10_000)
CONNECTIONS = (4, 8, 16, 32)
TUNING = 200
"""Objects with which the best number of connections is found, and with which all get warm."""
TURN = 2000
"""Objects after which the other one's turn comes; those of before stay."""
LEAST_SECONDS = 40.0
"""Rounds are repeated until they have taken as long, for what is soon over says little of itself:
the median counts."""


class Figures(NamedTuple):
    """One pair of planes, one number of objects."""

    objects: int
    rounds: int
    connections: int
    bare: float
    """Seconds of the bare loader."""
    seconds: float
    cpu: float
    """Seconds of the konnector's CPU."""
    memory: float
    """Bytes that the konnector's memory has grown by."""
    latencies: Latencies | None
    restart: Restart | None


async def measure(pair: Pair, objects: int, connections: int, *, last: bool) -> Figures:
    """Bare loader and konnector take turns on the same servers.

    The first number of objects has no number of ``connections`` yet (0): the best is looked for,
    and latencies are measured. A restart is measured with the ``last``.
    """
    konnector = pair.konnector
    async with side(pair.loaders[0]) as consumer, side(pair.loaders[1]) as provider:
        bare = Bare(consumer, provider)
        await bare.run("warm", range(TUNING), max(CONNECTIONS))
        best = connections or await _best(bare)
        crossing = Crossing(consumer, provider, best)
        # The provider's namespaces and the connections of workers are made once, not per object.
        await Crossing(consumer, provider, max(CONNECTIONS)).run("warm", TUNING)
        resident = await konnector.resident_at_rest()
        found = [await _round(konnector, bare, crossing, 0, objects)]
        # The others would find memory that the first has left.
        memory = await konnector.resident_at_rest() - resident
        while sum(one.bare + one.seconds for one in found) < LEAST_SECONDS:
            found.append(await _round(konnector, bare, crossing, len(found), objects))
        count = len(found)
        typical = sorted(found, key=_ratio)[(count - 1) // 2]
        return Figures(
            objects,
            count,
            best,
            typical.bare,
            typical.seconds,
            typical.cpu,
            memory,
            None if connections else await latencies(bare, crossing, objects, best),
            await restart(pair, count * objects + TUNING) if last else None,
        )


class Round(NamedTuple):
    """Seconds of bare loader and konnector, and of the konnector's CPU."""

    bare: float
    seconds: float
    cpu: float


def _ratio(one: Round) -> float:
    return one.bare / one.seconds


async def _round(
    konnector: Program, bare: Bare, crossing: Crossing, number: int, objects: int
) -> Round:
    """Both take turns, for a machine is not as fast at any time.

    Of each turn half of the bare load comes before the konnector's objects, and half after.
    """
    limit, seconds, cpu = 0.0, 0.0, 0.0
    for first in range(number * objects, (number + 1) * objects, TURN):
        end = min(first + TURN, (number + 1) * objects)
        half = (first + end) // 2
        limit += await bare.run(LOADED, range(first, half), crossing.connections)
        before = konnector.cpu()
        seconds += await crossing.run(f"widget-{first}", end - first)
        cpu += konnector.cpu() - before
        limit += await bare.run(LOADED, range(half, end), crossing.connections)
    return Round(limit, seconds, cpu)


async def _best(bare: Bare) -> int:
    """The number of connections with which the bare loader is fastest."""
    found = {
        connections: await bare.run(f"tune-{connections}", range(TUNING), connections)
        for connections in CONNECTIONS
    }
    return min(found, key=lambda connections: found[connections])


def _wanted() -> tuple[list[str], list[int]]:
    kinds = [os.environ["BENCH_PLANES"]] if "BENCH_PLANES" in os.environ else ["sandbox", "real"]
    missing = missing_assets()
    if "real" in kinds and missing:
        print(f"bench: real planes left out: {missing}", file=sys.stderr)
        kinds.remove("real")
    sizes = [int(os.environ["BENCH_OBJECTS"])] if "BENCH_OBJECTS" in os.environ else list(SIZES)
    return kinds, sizes


async def compare() -> list[Row]:
    kinds, sizes = _wanted()
    found: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path(__file__).parent) as folder:
        for kind in kinds:
            figures: list[Figures] = []
            for objects in sizes:
                connections = figures[0].connections if figures else 0
                async with pair(kind, Path(folder)) as planes:
                    one = await measure(planes, objects, connections, last=objects == sizes[-1])
                figures.append(one)
                print(f"bench: {kind} {'; '.join(_line(one))}", file=sys.stderr, flush=True)
            found += rows(kind, figures)
    return found


def _line(one: Figures) -> Iterator[str]:
    yield f"{one.objects:,} objects {one.seconds:.2f} s, bare {one.bare:.2f} s"
    yield f"{one.connections} connections"
    yield f"CPU {one.cpu:.2f} s, memory {one.memory / 1024 / one.objects:.1f} KiB per object"
    if one.latencies is not None:
        for name, value in one.latencies._asdict().items():
            p50, p99, alone = (1000 * seconds for seconds in value)
            yield f"{name} {p50:.0f}/{p99:.0f}/{alone:.1f} ms"
    if one.restart is not None:
        yield f"restart {one.restart}"


async def main(stop: asyncio.Event) -> None:
    emit(await cancel_on(stop, compare()))


if __name__ == "__main__":
    run(main)
