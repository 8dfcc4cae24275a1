"""The sandbox against kube-apiserver with etcd, in rounds that take turns."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from tests.support.realplane import missing_assets

from bench import planes
from bench.rows import MIB, Row, report, say
from bench.sandbox.figures import Figures, Rounds, rows
from bench.sandbox.load import measure
from bench.sizes import SANDBOX_ROUNDS


NEEDED = ("etcd", "kube-apiserver")
STARTS = 3
"""Starts of each server in a round, of which the median counts."""


async def one_round(folder: Path) -> dict[str, Figures]:
    """Load every server, one after the other, alone on the machine."""
    return {
        "real": await loaded(lambda: planes.kube_apiserver(folder), measure),
        "data": await loaded(lambda: planes.sandbox(folder, "--data"), measure),
        "memory": await loaded(lambda: planes.sandbox(folder), measure),
        "bare": await loaded(lambda: bare(folder), partial(measure, bare=True)),
    }


async def loaded(
    start: Callable[[], AbstractAsyncContextManager[planes.Plane]],
    load: Callable[[planes.Plane], Awaitable[Figures]],
) -> Figures:
    """Load a server, and find how soon it is ready in the middle of some starts."""
    ready = []
    for _ in range(STARTS - 1):
        async with start() as plane:
            ready.append(plane.ready)
    async with start() as plane:
        figures = await load(plane)
    return figures._replace(ready=statistics.median([*ready, figures.ready]))


def bare(folder: Path) -> AbstractAsyncContextManager[planes.Plane]:
    """Run the limit: :mod:`bench.sandbox.bare`."""
    return planes.program(folder, sys.executable, "-m", "bench.sandbox.bare", "{}")


async def compare() -> list[Row]:
    """Measure all rounds; whatever ends them, no server is left behind."""
    if missing := missing_assets(NEEDED):
        say(f"sandbox left out: {missing}")
        return []
    rounds: Rounds = {}
    with planes.scratch() as folder:
        for _ in range(SANDBOX_ROUNDS):
            for name, figures in (await one_round(folder)).items():
                rounds.setdefault(name, []).append(figures)
                say(f"{name:6} {_line(figures)}")
    return list(rows(rounds))


def _line(one: Figures) -> str:
    return (
        f"ready {one.ready:.2f} s, {one.resident / MIB:.0f} MiB, "
        f"writes {one.writes.per_second:,.0f}/s ({one.writes.cpu * 1e6:.0f} us CPU), "
        f"reads {one.reads.per_second:,.0f}/s ({one.reads.cpu * 1e6:.0f} us), "
        f"events {one.events.per_second:,.0f}/s ({one.events.cpu * 1e6:.0f} us)"
    )


if __name__ == "__main__":
    report(compare)
