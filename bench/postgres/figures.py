"""Figures of the benchmark of the PostgresAccess operator, and their rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from bench.postgres.bare import Cost
from bench.postgres.place import DATABASES, INTERVAL_SECONDS
from bench.rows import (
    KIB,
    Row,
    against,
    growth,
    kibibytes,
    median_of,
    milliseconds,
    of_echo,
    ratio,
)


AIM_FIRST = 1.5
AIM_CPU_MS = 8.0
AIM_STATEMENTS = 6 + 3 * DATABASES
AIM_CYCLE_SECONDS = 0.5
"""Bound at 1,000 accesses."""
AIM_SEED = 500.0
"""Bound at 100 accesses: with fewer of them the loop, which grows with their square, is soon
done."""
AIM_CHANGE_MS = 300.0
AIM_MEMORY_KIB = 12.0
AIM_HUNG = 1.5


class Convergence(NamedTuple):
    """From the first access created until all are ready."""

    seconds: float
    cpu: float
    """Seconds of the operator's CPU."""
    statements: float
    logins: float
    wal: int
    rows: int
    """Rows of catalogs that were written."""
    requests: float
    """Requests of the operator to the API server, watches too."""
    bare: Cost
    """Cost of the script, before and after."""
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


def rows(figures: list[Figures]) -> Iterator[Row]:
    """Print the figures, by growing numbers of accesses."""
    for one in figures:
        yield from _first(one)
        yield from _steady(one)
    sized = {one.accesses: one for one in figures}
    if sized.keys() >= {1000, 5000}:
        yield from _growth(sized[1000], sized[5000])
    for one in figures:
        if one.latency is not None:
            yield from _changes(one.accesses, one.latency)
        if one.hung is not None:
            yield from _hung(one.hung)


def _first(one: Figures) -> Iterator[Row]:
    key, count, first = f"postgres_{one.accesses}_first", one.accesses, one.first
    title = f"First convergence, {count:,} accesses"
    yield Row(
        f"{key}_of_bare",
        f"{title}: time of the bare script's",
        first.ratio,
        aim=AIM_FIRST,
        note=f"{against(first.seconds, first.bare.seconds)} with {one.connections} connections "
        f"to the API server{median_of(one.rounds)}",
    )
    yield milliseconds(
        f"{key}_cpu_ms",
        f"{title}: our CPU per access",
        first.cpu / count,
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
    yield kibibytes(
        f"{key}_wal",
        f"{title}: WAL per access",
        first.wal / count,
        note=f"bare script {first.bare_wal / KIB / count:.1f}",
    )
    yield Row(
        f"{key}_rows",
        f"{title}: rows of catalogs written per access",
        first.rows / count,
        "",
        note=f"bare script {first.bare_rows / count:.1f}",
    )
    if count >= 1000:
        memory = f"{title}: our memory per access"
        yield kibibytes(f"{key}_memory_kib", memory, one.memory / count, AIM_MEMORY_KIB)


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
        note=f"{1000 * steady.cpu:.0f} ms of our CPU, in {INTERVAL_SECONDS} s",
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


def _growth(few: Figures, many: Figures) -> Iterator[Row]:
    bare = (many.first.bare.seconds / many.accesses) / (few.first.bare.seconds / few.accesses)
    for name, title, small, large, note in (
        ("first", "first convergence", few.first.seconds, many.first.seconds, f"bare {bare:.2f}"),
        ("cpu", "CPU of the first convergence", few.first.cpu, many.first.cpu, ""),
        ("steady", "a steady cycle", few.steady.seconds, many.steady.seconds, ""),
        ("memory", "memory", few.memory, many.memory, ""),
    ):
        yield growth(
            f"postgres_growth_{name}",
            f"Growth: {title}, an access among 5,000 of one among 1,000",
            (small, few.accesses),
            (large, many.accesses),
            note,
        )


def _changes(accesses: int, latency: Latency) -> Iterator[Row]:
    key, title = "postgres_change", f"One change among {accesses:,}, until it is Ready"
    ours, echo = statistics.median(latency.ours), statistics.median(latency.echo)
    worst = f"worst of {len(latency.ours)}: {1000 * max(latency.ours):.0f} ms"
    yield milliseconds(f"{key}_ms", f"{title}, p50", ours, AIM_CHANGE_MS, worst)
    yield of_echo(f"{key}_of_echo", title, ours, echo)


def _hung(hung: Hung) -> Iterator[Row]:
    title = "A healthy server's access beside 40 on servers that hang, of alone"
    yield ratio("postgres_hung", title, hung.beside, hung.alone, AIM_HUNG)
