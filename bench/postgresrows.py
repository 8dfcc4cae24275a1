"""What is printed of the benchmark of the PostgresAccess operator."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench.postgresplace import DATABASES
from bench.rows import Row


if TYPE_CHECKING:
    from bench.postgres import Figures, Hung, Latency


AIM_FIRST = 1.5
AIM_CPU_MS = 8.0
AIM_STATEMENTS = 6 + 3 * DATABASES
AIM_CYCLE_SECONDS = 0.5
"""At 1,000 accesses."""
AIM_SEED = 500.0
"""At 100 accesses: with fewer of them the loop, which grows with their square, is soon done."""
AIM_CHANGE_MS = 300.0
AIM_MEMORY_KIB = 12.0
AIM_GROWTH = 1.25
"""How much more an access may cost among five times as many, where growth is linear."""
AIM_HUNG = 1.5


def rows(figures: list[Figures]) -> list[Row]:
    """The figures, by growing numbers of accesses."""
    found = [row for one in figures for row in (*_first(one), *_steady(one))]
    found += _growth(figures)
    for one in figures:
        if one.latency is not None:
            found += _changes(one.accesses, one.latency)
        if one.hung is not None:
            found += _hung(one.hung)
    return found


def _first(one: Figures) -> Iterator[Row]:
    key, count, first = f"postgres_{one.accesses}_first", one.accesses, one.first
    title = f"First convergence, {count:,} accesses"
    median = f"; median of {one.rounds}" if one.rounds > 1 else ""
    yield Row(
        f"{key}_of_bare",
        f"{title}: time of the bare script's",
        first.ratio,
        aim=AIM_FIRST,
        note=f"{first.seconds:.2f} s against {first.bare.seconds:.2f} s with {one.connections} "
        f"connections to the API server{median}",
    )
    yield Row(
        f"{key}_cpu_ms",
        f"{title}: our CPU per access",
        1000 * first.cpu / count,
        "ms",
        AIM_CPU_MS if count >= 100 else None,
    )
    yield Row(
        f"{key}_statements",
        f"{title}: statements per access",
        first.statements / count,
        "",
        note=f"bare script {first.bare.statements / count:.1f}; {first.logins:.0f} new connections"
        f" in all, bare script {first.bare.connections}",
    )
    yield Row(
        f"{key}_requests",
        f"{title}: requests to the API server per access",
        first.requests / count,
        "",
        note="bare script 3; an Event is told besides",
    )
    yield Row(
        f"{key}_wal",
        f"{title}: WAL per access",
        first.wal / 1024 / count,
        "KiB",
        note=f"bare script {first.bare_wal / 1024 / count:.1f}",
    )
    yield Row(
        f"{key}_rows",
        f"{title}: rows of catalogs written per access",
        first.rows / count,
        "",
        note=f"bare script {first.bare_rows / count:.1f}",
    )
    if count >= 1000:
        yield Row(
            f"{key}_memory_kib",
            f"{title}: our memory per access",
            one.memory / 1024 / count,
            "KiB",
            AIM_MEMORY_KIB,
        )


def _steady(one: Figures) -> Iterator[Row]:
    key, steady = f"postgres_{one.accesses}_steady", one.steady
    title = f"Steady cycle, {one.accesses:,} accesses"
    yield Row(
        f"{key}_statements",
        f"{title}: statements",
        steady.statements,
        "",
        AIM_STATEMENTS,
        note=f"{DATABASES} databases; counted in the server's log",
    )
    yield Row(f"{key}_connections", f"{title}: new connections", steady.connections, "", 0.0)
    yield Row(
        f"{key}_written",
        f"{title}: WAL and requests other than GET",
        steady.wal + steady.writes,
        "",
        0.0,
        note=f"{steady.wal:,} bytes, {steady.writes:.0f} requests",
    )
    yield Row(
        f"{key}_seconds",
        f"{title}: time",
        steady.seconds,
        "s",
        AIM_CYCLE_SECONDS if one.accesses == 1000 else None,
        note=f"{1000 * steady.cpu:.0f} ms of our CPU, in 10 s",
    )
    yield Row(
        f"{key}_of_look",
        f"{title}: time of a bare look at the same catalogs",
        steady.seconds / steady.look,
        note=f"which takes {1000 * steady.look:.1f} ms, and compares nothing",
    )
    if one.seed is not None:
        yield Row(
            f"{key}_of_seed",
            f"{title}: the seed's loop as drawn takes",
            one.seed.seconds / steady.seconds,
            "times as long",
            AIM_SEED if one.accesses == 100 else None,
            smaller_is_better=False,
            note=f"{one.seed.seconds:.1f} s, {one.seed.statements:,} statements, "
            f"{one.seed.connections} connections",
        )


def _growth(figures: list[Figures]) -> Iterator[Row]:
    """What an access costs among many, of what it costs among 1,000."""
    sized = {one.accesses: one for one in figures}
    if not sized.keys() >= {1000, 5000}:
        return
    few, many = sized[1000], sized[5000]
    bare = (many.first.bare.seconds / 5) / few.first.bare.seconds
    for name, title, small, large, note in (
        ("first", "first convergence", few.first.seconds, many.first.seconds, f"bare {bare:.2f}"),
        ("cpu", "CPU of the first convergence", few.first.cpu, many.first.cpu, ""),
        ("steady", "a steady cycle", few.steady.seconds, many.steady.seconds, ""),
        ("memory", "memory", few.memory, many.memory, ""),
    ):
        yield Row(
            f"postgres_growth_{name}",
            f"Growth: {title}, an access among 5,000 of one among 1,000",
            large / 5 / small,
            aim=AIM_GROWTH,
            note=note,
        )


def _changes(accesses: int, latency: Latency) -> Iterator[Row]:
    key, title = "postgres_change", f"One change among {accesses:,}, until it is Ready"
    ours, echo = statistics.median(latency.ours), statistics.median(latency.echo)
    yield Row(
        f"{key}_ms",
        f"{title}, p50",
        1000 * ours,
        "ms",
        AIM_CHANGE_MS,
        note=f"worst of {len(latency.ours)}: {1000 * max(latency.ours):.0f} ms",
    )
    yield Row(
        f"{key}_of_echo",
        f"{title}, p50 of the bare echo's",
        ours / echo,
        note=f"bare echo {1000 * echo:.1f} ms",
    )


def _hung(hung: Hung) -> Iterator[Row]:
    yield Row(
        "postgres_hung",
        "A healthy server's access beside 40 on servers that hang, of alone",
        hung.beside / hung.alone,
        aim=AIM_HUNG,
        note=f"{1000 * hung.beside:.0f} ms against {1000 * hung.alone:.0f} ms",
    )
