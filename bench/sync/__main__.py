"""The konnector against a bare loader that makes the same writes, on two planes of either kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.support.realplane import missing_assets

from bench.processes import Program
from bench.rows import KIB, Row, report, say
from bench.sizes import OBJECTS, PLANES, ROUNDS_SECONDS, SYNC_CONNECTIONS
from bench.sync.bare import LOADED, Bare
from bench.sync.figures import Figures, rows
from bench.sync.inflight import latencies
from bench.sync.load import Crossing
from bench.sync.pair import Pair, pair
from bench.sync.restart import restart


TUNING = 200
"""Objects with which the best number of connections is found, and with which all get warm."""
TURN = 2000
"""Objects after which the other one's turn comes; those of before stay."""


async def measure(pair: Pair, objects: int, connections: int, *, last: bool) -> Figures:
    """Let bare loader and konnector take turns on the same servers.

    The first number of objects has no number of ``connections`` yet (0): the best is looked for,
    and latencies are measured. A restart is measured with the ``last``.
    """
    consumer, provider, konnector = pair
    bare = Bare(consumer, provider)
    await bare.run("warm", range(TUNING), max(SYNC_CONNECTIONS))
    best = connections or await _best(bare)
    crossing = Crossing(consumer, provider, best)
    # The provider's namespaces and the connections of workers are made once, not per object.
    await Crossing(consumer, provider, max(SYNC_CONNECTIONS)).run("warm", TUNING)
    resident = await konnector.resident_at_rest()
    found = [await _round(konnector, bare, crossing, 0, objects)]
    # The others would find memory that the first has left.
    memory = await konnector.resident_at_rest() - resident
    while sum(one.bare + one.seconds for one in found) < ROUNDS_SECONDS:
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
        None if connections else await latencies(pair, crossing, objects),
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
    """Let both take turns, for a machine is not as fast at any time.

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
    """Find the number of connections with which the bare loader is fastest."""
    found = {
        connections: await bare.run(f"tune-{connections}", range(TUNING), connections)
        for connections in SYNC_CONNECTIONS
    }
    return min(found, key=lambda connections: found[connections])


async def compare() -> list[Row]:
    """Measure all sizes on both kinds of planes, or on the chosen one."""
    found: list[Row] = []
    for kind in PLANES:
        if kind == "real" and (missing := missing_assets()):
            say(f"real planes left out: {missing}")
            continue
        figures: list[Figures] = []
        for objects in OBJECTS:
            connections = figures[0].connections if figures else 0
            async with pair(kind) as planes:
                one = await measure(planes, objects, connections, last=objects == OBJECTS[-1])
            figures.append(one)
            say(f"{kind} {'; '.join(_line(one))}")
        found += rows(kind, figures)
    return found


def _line(one: Figures) -> Iterator[str]:
    yield f"{one.objects:,} objects {one.seconds:.2f} s, bare {one.bare:.2f} s"
    yield f"{one.connections} connections"
    yield f"CPU {one.cpu:.2f} s, memory {one.memory / KIB / one.objects:.1f} KiB per object"
    if one.latencies is not None:
        for name, value in one.latencies._asdict().items():
            p50, p99, alone = (1000 * seconds for seconds in value)
            yield f"{name} {p50:.0f}/{p99:.0f}/{alone:.1f} ms"
    if one.restart is not None:
        yield f"restart {one.restart}"


if __name__ == "__main__":
    report(compare)
