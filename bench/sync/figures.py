"""Figures of the konnector's benchmark, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bench.rows import (
    MIB,
    TITLES,
    Row,
    beside,
    growth,
    kibibytes,
    median_of,
    milliseconds,
    of_echo,
    pace,
)
from bench.sync.inflight import Latencies, Latency
from bench.sync.restart import Restart


AIM_THROUGHPUT = 0.85
AIM_ECHO = 5.0
AIM_MEMORY_KIB = 10.0


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


def rows(kind: str, figures: list[Figures]) -> Iterator[Row]:
    """Print the figures of one kind of planes, by growing numbers of objects."""
    key, title = f"sync_{kind}", f"Sync, {TITLES[kind]}"
    for one in figures:
        yield from _size(f"{key}_{one.objects}", f"{title}, {one.objects:,} objects", one)
    if len(figures) > 1:
        yield from _growth(f"{key}_growth", title, figures[0], figures[-1])
    for one in figures:
        if one.latencies is not None:
            spec, status, spec_echo, status_echo = one.latencies
            yield from _latency(f"{key}_spec", f"{title}: a spec change", spec, spec_echo)
            yield from _latency(f"{key}_status", f"{title}: a status change", status, status_echo)
        if one.restart is not None:
            objects = f"{one.objects:,} objects in sync"
            yield from _restart(f"{key}_restart", f"{title}: restart with {objects}", one.restart)


def _size(key: str, title: str, one: Figures) -> Iterator[Row]:
    yield pace(
        f"{key}_of_bare",
        f"{title}: throughput of the bare loader's",
        one.seconds,
        one.bare,
        AIM_THROUGHPUT,
        f"{one.objects / one.seconds:,.0f} objects/s against {one.objects / one.bare:,.0f} "
        f"with {one.connections} connections{median_of(one.rounds)}",
    )
    yield Row(
        f"{key}_seconds",
        f"{title}: until everything has crossed",
        one.seconds,
        "s",
        note=f"bare loader {one.bare:.2f} s",
    )
    yield Row(
        f"{key}_cpu",
        f"{title}: the konnector's CPU per 1,000 objects",
        1000 * one.cpu / one.objects,
        "s",
    )
    yield kibibytes(
        f"{key}_memory_kib",
        f"{title}: the konnector's memory per object",
        one.memory / one.objects,
        AIM_MEMORY_KIB,
        f"{1000 * one.memory / one.objects / MIB:.1f} MiB per 1,000",
    )


def _growth(key: str, title: str, few: Figures, many: Figures) -> Iterator[Row]:
    bare = (many.bare / many.objects) / (few.bare / few.objects)
    for name, what, small, large, note in (
        ("time", "time", few.seconds, many.seconds, f"bare loader {bare:.2f}"),
        ("cpu", "CPU", few.cpu, many.cpu, ""),
        ("memory", "memory", few.memory, many.memory, ""),
    ):
        yield growth(
            f"{key}_{name}",
            f"{title}: {what} of an object among {many.objects:,}, of that among {few.objects:,}",
            (small, few.objects),
            (large, many.objects),
            note,
        )


def _latency(key: str, title: str, ours: Latency, echo: Latency) -> Iterator[Row]:
    loaded, alone = f"{title} among 1,000 others under way", f"{title} alone"
    yield of_echo(f"{key}_echo", loaded, ours.p50, echo.p50, AIM_ECHO)
    yield milliseconds(f"{key}_p50_ms", f"{loaded}, p50", ours.p50, note=beside(echo.p50))
    yield milliseconds(f"{key}_p99_ms", f"{loaded}, p99", ours.p99, note=beside(echo.p99))
    yield of_echo(f"{key}_alone_echo", alone, ours.alone, echo.alone, AIM_ECHO)
    yield milliseconds(f"{key}_alone_ms", f"{alone}, p50", ours.alone, note=beside(echo.alone))


def _restart(key: str, title: str, one: Restart) -> Iterator[Row]:
    yield Row(
        f"{key}_seconds",
        f"{title}, until all are compared",
        one.seconds,
        "s",
        note=f"{one.resident / MIB:.0f} MiB resident then",
    )
    yield Row(
        f"{key}_writes",
        f"{title}, objects written",
        one.changed,
        "objects",
        0.0,
        note=f"{one.writes:.0f} requests other than GET, heartbeats included",
    )
