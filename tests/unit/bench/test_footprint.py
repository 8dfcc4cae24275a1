"""What programs need: the rows of it, and who leads among replicas."""

from __future__ import annotations

import time
from typing import Any, cast

from bench.footprint import Footprint, Memory, Replicas, Taken, rows
from bench.rows import MIB


LED = Footprint(
    "konnector",
    "objects",
    "real",
    1000,
    50 * MIB,
    Memory(70 * MIB, 75 * MIB),
    Memory(55 * MIB, 56 * MIB),
    1000,
    2.5,
    Taken(16.5, Memory(65 * MIB, 90 * MIB), Memory(54 * MIB, 80 * MIB)),
)
SHARED = LED._replace(program="serve", standby=None, cpu=0.0, taken=None)


def test_the_most_memory_is_that_of_any_replica() -> None:
    assert LED.peak == 90 * MIB
    assert SHARED.peak == 75 * MIB


def test_rows_tell_what_there_is_to_tell() -> None:
    told = {row.key: row.value for row in rows([SHARED, LED])}
    assert told == {
        "sizes_konnector_objects_real_1000_rest_mib": 70.0,
        "sizes_konnector_objects_real_1000_peak_mib": 90.0,
        "sizes_konnector_objects_real_1000_cpu": 2.5,
        "sizes_konnector_objects_real_1000_failover_seconds": 16.5,
        "sizes_serve_objects_real_1000_rest_mib": 70.0,
        "sizes_serve_objects_real_1000_peak_mib": 75.0,
    }


class Fake:
    """A process."""

    def __init__(self) -> None:
        self.is_running = True
        self.done: list[str] = []

    async def kill(self) -> None:
        self.is_running = False
        self.done.append("kill")

    async def start(self) -> None:
        self.is_running = True
        self.done.append("start")


def replicas(*programs: Fake) -> Any:
    return Replicas("konnector", cast("Any", programs), leads=False)


async def test_the_one_that_stands_by_leads_after_the_leader_is_killed() -> None:
    one, two = Fake(), Fake()
    pair = replicas(one, two)
    begun = await pair.kill_leader()
    assert begun <= time.monotonic()
    assert pair.leader is two
    assert await pair.replace() is one
    assert (one.done, two.done) == (["kill", "start"], [])


async def test_whatever_has_ended_by_itself_is_started() -> None:
    one, two = Fake(), Fake()
    pair = replicas(one, two)
    assert not await pair.tend()
    two.is_running = False
    assert not await pair.tend()
    assert pair.leader is one
    one.is_running = False
    assert await pair.tend()
    assert pair.leader is two
    assert (one.done, two.done) == (["start"], ["start"])
