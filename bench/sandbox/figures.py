"""Figures of the sandbox's benchmark, and their rows: medians of all rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.rows import MIB, Row, milliseconds


AIM_READY = 8.0
AIM_MEMORY = 0.2
AIM_WRITES = 1.0
CONNECTIONS = 16
WATCHES = 10


class Phase(NamedTuple):
    """Speed of one phase of the load, and its cost."""

    per_second: float
    cpu: float
    """Seconds of the server's CPU per operation."""


class Figures(NamedTuple):
    """One server, one round; bytes and seconds."""

    ready: float
    resident: int
    writes: Phase
    reads: Phase
    events: Phase
    """The same as reads for a server that has no watches."""


Rounds = dict[str, list[Figures]]
"""Figures of each server: "real", "data" and "memory" (the sandbox in either mode), "bare"."""


def rows(rounds: Rounds) -> Iterator[Row]:
    """Print ratios with their aims, and the numbers that they are made of."""

    def median(of: Callable[[Figures], float]) -> dict[str, float]:
        return {name: statistics.median(map(of, one)) for name, one in rounds.items()}

    yield from _ready(median(lambda one: one.ready))
    yield from _memory(median(lambda one: one.resident / MIB))
    yield from _writes(
        median(lambda one: one.writes.per_second), median(lambda one: one.writes.cpu)
    )
    reads = median(lambda one: one.reads.per_second)
    yield _of_real("reads", "reads", reads["data"] / reads["real"])
    yield _speed("reads_per_second", "reads of one object", reads)
    events = median(lambda one: one.events.per_second)
    del events["bare"]
    note = f"{WATCHES} watches of what {CONNECTIONS} connections write"
    yield _of_real("watch", "watch events", events["data"] / events["real"], note=note)
    yield _speed("events_per_second", "watch events", events)


def _ready(seconds: dict[str, float]) -> Iterator[Row]:
    title = "from exec to the first authorized list"
    yield Row(
        "sandbox_ready",
        "Sandbox: ready sooner than kube-apiserver with etcd",
        seconds["real"] / seconds["data"],
        aim=AIM_READY,
        smaller_is_better=False,
        note=title,
    )
    yield milliseconds(
        "sandbox_ready_ms",
        f"Sandbox: {title}",
        seconds["data"],
        note=f"kube-apiserver {seconds['real'] * 1000:,.0f} ms, "
        f"bare aiohttp {seconds['bare'] * 1000:,.0f} ms",
    )


def _memory(size: dict[str, float]) -> Iterator[Row]:
    title = "Sandbox: resident memory after the load"
    yield Row(
        "sandbox_memory",
        f"{title}, of kube-apiserver's with etcd",
        size["data"] / size["real"],
        aim=AIM_MEMORY,
        note=f"in memory mode {size['memory'] / size['real']:.2f}",
    )
    yield Row(
        "sandbox_memory_mib",
        title,
        size["data"],
        "MiB",
        note=f"kube-apiserver with etcd {size['real']:.0f} MiB, "
        f"bare aiohttp {size['bare']:.0f} MiB",
    )


def _writes(speed: dict[str, float], cpu: dict[str, float]) -> Iterator[Row]:
    durable = (
        "SQLite in WAL mode with synchronous=FULL: like etcd it answers after fsync, and "
        "a power failure loses nothing that was answered"
    )
    lost = "nothing survives the process"
    data, memory = (speed[name] / speed["real"] for name in ("data", "memory"))
    yield _of_real("writes", "writes, durable,", data, AIM_WRITES, durable)
    yield _of_real("writes_memory", "writes, in memory,", memory, note=lost)
    yield Row(
        "sandbox_writes_cpu",
        "Sandbox: CPU of a write, durable, against kube-apiserver with etcd",
        cpu["data"] / cpu["real"],
        note=f"{cpu['data'] * 1e6:,.0f} us against {cpu['real'] * 1e6:,.0f} us",
    )
    yield _speed("writes_per_second", "writes, durable", speed)


def _of_real(key: str, title: str, value: float, aim: float | None = None, note: str = "") -> Row:
    """Compare a speed with kube-apiserver's."""
    title = f"Sandbox: {title} against kube-apiserver with etcd"
    return Row(f"sandbox_{key}", title, value, aim=aim, smaller_is_better=False, note=note)


def _speed(key: str, title: str, speed: dict[str, float]) -> Row:
    note = f"kube-apiserver {speed['real']:,.0f}, in memory mode {speed['memory']:,.0f}"
    if "bare" in speed:
        note += f", bare aiohttp {speed['bare']:,.0f}"
    title = f"Sandbox: {title}"
    return Row(f"sandbox_{key}", title, speed["data"], "per second", note=note)
