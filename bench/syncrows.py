"""What is printed of the konnector's benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.rows import Row


if TYPE_CHECKING:
    from bench.inflight import Latency
    from bench.restart import Restart
    from bench.sync import Figures


AIM_THROUGHPUT = 0.85
AIM_ECHO = 5.0
AIM_MEMORY_KIB = 10.0
AIM_GROWTH = 1.25
"""How much more an object may cost among ten times as many, where growth is linear."""

_TITLES = {"real": "kube-apiserver", "sandbox": "sandbox"}


def rows(kind: str, figures: list[Figures]) -> list[Row]:
    """The figures of one kind of planes, by growing numbers of objects."""
    found = [row for one in figures for row in _size(kind, one)]
    if len(figures) > 1:
        found += _growth(kind, figures[0], figures[-1])
    for one in figures:
        if one.latencies is not None:
            spec, status, spec_echo, status_echo = one.latencies
            found += _latency(kind, "spec", spec, spec_echo)
            found += _latency(kind, "status", status, status_echo)
        if one.restart is not None:
            found += _restart(kind, one.objects, one.restart)
    return found


def _size(kind: str, one: Figures) -> list[Row]:
    key = f"sync_{kind}_{one.objects}"
    title = f"Sync, {_TITLES[kind]}, {one.objects:,} objects"
    return [
        Row(
            f"{key}_of_bare",
            f"{title}: throughput of the bare loader's",
            one.bare / one.seconds,
            aim=AIM_THROUGHPUT,
            smaller_is_better=False,
            note=f"{one.objects / one.seconds:,.0f} objects/s against "
            f"{one.objects / one.bare:,.0f} with {one.connections} connections{_median(one)}",
        ),
        Row(
            f"{key}_seconds",
            f"{title}: until everything has crossed",
            one.seconds,
            "s",
            note=f"bare loader {one.bare:.2f} s",
        ),
        Row(
            f"{key}_cpu",
            f"{title}: the konnector's CPU per 1,000 objects",
            1000 * one.cpu / one.objects,
            "s",
        ),
        Row(
            f"{key}_memory_kib",
            f"{title}: the konnector's memory per object",
            one.memory / 1024 / one.objects,
            "KiB",
            AIM_MEMORY_KIB,
            note=f"{1000 * one.memory / one.objects / (1 << 20):.1f} MiB per 1,000",
        ),
    ]


def _median(one: Figures) -> str:
    return f"; median of {one.rounds} rounds" if one.rounds > 1 else ""


def _growth(kind: str, few: Figures, many: Figures) -> list[Row]:
    """What one object costs among many, of what it costs among few."""
    return [
        Row(
            f"sync_{kind}_growth_{name}",
            f"Sync, {_TITLES[kind]}: {title} of an object among {many.objects:,}, "
            f"of that among {few.objects:,}",
            (large / many.objects) / (small / few.objects),
            aim=AIM_GROWTH,
            note=note,
        )
        for name, title, small, large, note in (
            ("time", "time", few.seconds, many.seconds, _bare_growth(few, many)),
            ("cpu", "CPU", few.cpu, many.cpu, ""),
            ("memory", "memory", few.memory, many.memory, ""),
        )
    ]


def _bare_growth(few: Figures, many: Figures) -> str:
    return f"bare loader {(many.bare / many.objects) / (few.bare / few.objects):.2f}"


def _latency(kind: str, name: str, ours: Latency, echo: Latency) -> list[Row]:
    key = f"sync_{kind}_{name}"
    title = f"Sync, {_TITLES[kind]}: a {name} change"
    loaded = f"{title} among 1,000 others under way"
    return [
        Row(f"{key}_echo", f"{loaded}, p50 of the bare echo's", ours.p50 / echo.p50, aim=AIM_ECHO),
        _milliseconds(f"{key}_p50_ms", f"{loaded}, p50", ours.p50, echo.p50),
        _milliseconds(f"{key}_p99_ms", f"{loaded}, p99", ours.p99, echo.p99),
        Row(
            f"{key}_alone_echo",
            f"{title} alone, p50 of the bare echo's",
            ours.alone / echo.alone,
            aim=AIM_ECHO,
        ),
        _milliseconds(f"{key}_alone_ms", f"{title} alone, p50", ours.alone, echo.alone),
    ]


def _milliseconds(key: str, title: str, ours: float, echo: float) -> Row:
    return Row(key, title, ours * 1000, "ms", note=f"bare echo {echo * 1000:,.1f} ms")


def _restart(kind: str, objects: int, one: Restart) -> list[Row]:
    key = f"sync_{kind}_restart"
    title = f"Sync, {_TITLES[kind]}: restart with {objects:,} objects in sync"
    return [
        Row(
            f"{key}_seconds",
            f"{title}, until all are compared",
            one.seconds,
            "s",
            note=f"{one.resident / (1 << 20):.0f} MiB resident then",
        ),
        Row(
            f"{key}_writes",
            f"{title}, objects written",
            one.changed,
            "objects",
            0.0,
            note=f"{one.writes:.0f} requests other than GET, heartbeats included",
        ),
    ]
