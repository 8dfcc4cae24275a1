"""Memory and CPU of each program with many objects, and how soon another replica goes on.

1,000 and 10,000 objects are on a real control plane where KUBEBUILDER_ASSETS has one, more are on
a sandbox. One world is measured after the other, and none for longer than it may take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeVar

from tests.support.realplane import missing_assets

from bench.footprint.accesses import accesses
from bench.footprint.consumers import consumers
from bench.footprint.crossing import crossing
from bench.footprint.figures import Footprint, Memory, Taken, rows
from bench.footprint.projections import projections
from bench.footprint.replicas import Replicas
from bench.footprint.world import REAL, Kind, World
from bench.processes import Program
from bench.rows import Row, report, say
from bench.sizes import CHANGED, FOOTPRINTS, PARTS, PAUSE_SECONDS, PLANES


T = TypeVar("T")

FIGURE_SECONDS = 600.0
"""The longest time that one figure may take; a world that takes longer is left out."""


_ATTEMPTS = 3


class Part(NamedTuple):
    """A world, what its objects are, and the programs whose work changes of them are."""

    world: Kind
    of: str
    works: frozenset[str]


PARTS_BY_NAME: Mapping[str, Part] = {
    "crossing": Part(crossing, "objects", frozenset({"konnector", "serve"})),
    "consumers": Part(consumers, "namespaces", frozenset({"provider"})),
    "postgres": Part(accesses, "accesses", frozenset({"postgres"})),
    "binding": Part(projections, "bindings", frozenset({"binding"})),
}


class _Before(NamedTuple):
    """A program with all objects, before a leader is killed."""

    leader: Memory
    standby: Memory | None


async def measure(part: Part, kind: str, objects: int) -> list[Footprint]:
    """Measure all programs of a world with so many objects."""
    async with part.world(kind) as world:
        await asyncio.sleep(PAUSE_SECONDS)
        empty = {one.name: one.leader.resident() for one in world.replicas}
        await _bounded(world.load(objects))
        await _tended(world)
        await asyncio.sleep(PAUSE_SECONDS)
        before = {one.name: _before(one) for one in world.replicas}
        changes, cpu = await _changed(world, objects)
        taken = {
            one.name: await _bounded(_take_over(one, world))
            for one in world.replicas
            if one.name in world.probes
        }
    return [
        Footprint(
            one.name,
            part.of,
            kind,
            objects,
            empty[one.name],
            *before[one.name],
            changes,
            cpu[one.name] if one.name in part.works else 0.0,
            taken.get(one.name),
        )
        for one in world.replicas
    ]


async def _changed(world: World, objects: int) -> tuple[int, dict[str, float]]:
    """Make changes; their number, and the leaders' seconds of CPU by program."""
    for _ in range(_ATTEMPTS):
        cpu = {one.name: one.leader.cpu() for one in world.replicas}
        changes = await _bounded(world.change(min(CHANGED, objects)))
        await asyncio.sleep(PAUSE_SECONDS)
        if not await _tended(world):
            return changes, {one.name: one.leader.cpu() - cpu[one.name] for one in world.replicas}
    raise TimeoutError("no leader lasts as long as the changes")


async def _tended(world: World) -> bool:
    """Start what has ended; whether some program has another leader for that."""
    return any([await one.tend() for one in world.replicas])


def _before(one: Replicas) -> _Before:
    return _Before(_memory(one.leader), _memory(one.standby) if one.standby else None)


def _memory(program: Program) -> Memory:
    return Memory(program.resident(), program.peak())


async def _take_over(one: Replicas, world: World) -> Taken:
    """Kill the leader, ask for something at once, and start another replica."""
    begun = await one.kill_leader()
    await world.probes[one.name]()
    seconds = time.monotonic() - begun
    started = await one.replace()
    await asyncio.sleep(PAUSE_SECONDS)
    return Taken(seconds, _memory(one.leader), _memory(started))


async def _bounded(work: Awaitable[T]) -> T:
    async with asyncio.timeout(FIGURE_SECONDS):
        return await work


async def _in_time(part: Part, kind: str, objects: int) -> list[Footprint]:
    """Measure a world; [] when it takes too long."""
    try:
        return await measure(part, kind, objects)
    except TimeoutError:
        say(f"left out: {objects:,} {part.of} take longer than {FIGURE_SECONDS:.0f} s")
        return []


async def compare() -> list[Row]:
    """Measure all worlds, or the chosen ones, with growing numbers of objects."""
    found: list[Footprint] = []
    missing = missing_assets()
    for objects in FOOTPRINTS:
        kind = "sandbox" if missing or objects > REAL or "real" not in PLANES else "real"
        for name, part in PARTS_BY_NAME.items():
            if PARTS and name not in PARTS:
                continue
            say(f"sizes: {objects:,} {part.of}, {kind}")
            for made in await _in_time(part, kind, objects):
                for row in rows([made]):
                    say(f"{row.title} {row.value:.2f} {row.unit}  {row.note}")
                found.append(made)
    return list(rows(found))


if __name__ == "__main__":
    report(compare)
