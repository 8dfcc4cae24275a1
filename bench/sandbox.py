"""The sandbox against kube-apiserver with etcd, in rounds that take turns; medians count."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.support.realplane import missing_assets

from bench import planes
from bench.load import CONNECTIONS, WATCHES, Figures, measure, measure_bare
from bench.rows import Row, emit
from fairlead.process import cancel_on, run


ROUNDS = 3
STARTS = 3
AIM_READY = 8.0
AIM_MEMORY = 0.2
AIM_WRITES = 1.0
MIB = 1 << 20

Rounds = dict[str, list[Figures]]


async def one_round(folder: Path) -> dict[str, Figures]:
    """Every server, one after the other, alone on the machine."""
    return {
        "real": await loaded(lambda: planes.kube_apiserver(folder), measure),
        "data": await loaded(lambda: planes.sandbox(folder, "--data"), measure),
        "memory": await loaded(lambda: planes.sandbox(folder), measure),
        "bare": await loaded(lambda: planes.bare(folder), measure_bare),
    }


async def loaded(
    start: Callable[[], AbstractAsyncContextManager[planes.Plane]],
    load: Callable[[planes.Plane], Awaitable[Figures]],
) -> Figures:
    """What a server does under load, and how soon it is ready in the middle of some starts."""
    ready = []
    for _ in range(STARTS - 1):
        async with start() as plane:
            ready.append(plane.ready)
    async with start() as plane:
        figures = await load(plane)
    return figures._replace(ready=statistics.median([*ready, figures.ready]))


def median(rounds: Rounds, of: Callable[[Figures], float]) -> dict[str, float]:
    """A figure of every server."""
    return {name: statistics.median(map(of, one)) for name, one in rounds.items()}


def rows(rounds: Rounds) -> list[Row]:
    """Ratios with their aims, then the numbers that they are made of."""
    return [*_ready(rounds), *_memory(rounds), *_writes(rounds), *_reads(rounds), *_watch(rounds)]


def _ready(rounds: Rounds) -> list[Row]:
    seconds = median(rounds, lambda one: one.ready)
    return [
        Row(
            "sandbox_ready",
            "Sandbox: ready sooner than kube-apiserver with etcd",
            seconds["real"] / seconds["data"],
            aim=AIM_READY,
            smaller_is_better=False,
            note="from exec to the first authorized list",
        ),
        Row(
            "sandbox_ready_ms",
            "Sandbox: from exec to the first authorized list",
            seconds["data"] * 1000,
            "ms",
            note=f"kube-apiserver {seconds['real'] * 1000:,.0f} ms, "
            f"bare aiohttp {seconds['bare'] * 1000:,.0f} ms",
        ),
    ]


def _memory(rounds: Rounds) -> list[Row]:
    size = {name: value / MIB for name, value in median(rounds, lambda one: one.resident).items()}
    return [
        Row(
            "sandbox_memory",
            "Sandbox: resident memory after the load, of kube-apiserver's with etcd",
            size["data"] / size["real"],
            aim=AIM_MEMORY,
            note=f"in memory mode {size['memory'] / size['real']:.2f}",
        ),
        Row(
            "sandbox_memory_mib",
            "Sandbox: resident memory after the load",
            size["data"],
            "MiB",
            note=f"kube-apiserver with etcd {size['real']:.0f} MiB, "
            f"bare aiohttp {size['bare']:.0f} MiB",
        ),
    ]


def _writes(rounds: Rounds) -> list[Row]:
    speed = median(rounds, lambda one: one.writes.per_second)
    cpu = median(rounds, lambda one: one.writes.cpu)
    return [
        Row(
            "sandbox_writes",
            "Sandbox: writes, durable, against kube-apiserver with etcd",
            speed["data"] / speed["real"],
            aim=AIM_WRITES,
            smaller_is_better=False,
            note="SQLite in WAL mode with synchronous=FULL: like etcd it answers after fsync, and "
            "a power failure loses nothing that was answered",
        ),
        Row(
            "sandbox_writes_memory",
            "Sandbox: writes, in memory, against kube-apiserver with etcd",
            speed["memory"] / speed["real"],
            smaller_is_better=False,
            note="nothing survives the process",
        ),
        Row(
            "sandbox_writes_cpu",
            "Sandbox: CPU of a write, durable, against kube-apiserver with etcd",
            cpu["data"] / cpu["real"],
            note=f"{cpu['data'] * 1e6:,.0f} us against {cpu['real'] * 1e6:,.0f} us",
        ),
        _speed("sandbox_writes_per_second", "writes, durable", speed),
    ]


def _reads(rounds: Rounds) -> list[Row]:
    speed = median(rounds, lambda one: one.reads.per_second)
    return [
        Row(
            "sandbox_reads",
            "Sandbox: reads against kube-apiserver with etcd",
            speed["data"] / speed["real"],
        ),
        _speed("sandbox_reads_per_second", "reads of one object", speed),
    ]


def _watch(rounds: Rounds) -> list[Row]:
    speed = median(rounds, lambda one: one.events.per_second)
    del speed["bare"]
    return [
        Row(
            "sandbox_watch",
            "Sandbox: watch events against kube-apiserver with etcd",
            speed["data"] / speed["real"],
            note=f"{WATCHES} watches of what {CONNECTIONS} connections write",
        ),
        _speed("sandbox_events_per_second", "watch events", speed),
    ]


def _speed(key: str, title: str, speed: dict[str, float]) -> Row:
    note = f"kube-apiserver {speed['real']:,.0f}, in memory mode {speed['memory']:,.0f}"
    if "bare" in speed:
        note += f", bare aiohttp {speed['bare']:,.0f}"
    return Row(key, f"Sandbox: {title}", speed["data"], "per second", note=note)


async def main(stop: asyncio.Event) -> None:
    missing = missing_assets(planes.NEEDED)
    if missing:
        print(f"bench: sandbox left out: {missing}", file=sys.stderr)
        emit([])
        return
    emit(rows(await cancel_on(stop, compare())))


async def compare() -> Rounds:
    """All rounds; whatever ends them, no server is left behind."""
    rounds: Rounds = {}
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path(__file__).parent) as folder:
        for _ in range(ROUNDS):
            for name, figures in (await one_round(Path(folder))).items():
                rounds.setdefault(name, []).append(figures)
                print(f"bench: {name:6} {_line(figures)}", file=sys.stderr, flush=True)
    return rounds


def _line(one: Figures) -> str:
    return (
        f"ready {one.ready:.2f} s, {one.resident / MIB:.0f} MiB, "
        f"writes {one.writes.per_second:,.0f}/s ({one.writes.cpu * 1e6:.0f} us CPU), "
        f"reads {one.reads.per_second:,.0f}/s ({one.reads.cpu * 1e6:.0f} us), "
        f"events {one.events.per_second:,.0f}/s ({one.events.cpu * 1e6:.0f} us)"
    )


if __name__ == "__main__":
    run(main)
