"""Rows of all benchmarks: one number each, and their table in Markdown."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairlead.process import cancel_on, run


class Section(NamedTuple):
    """A benchmark: its module, the command that runs it, and what its rows compare."""

    module: str
    command: str
    text: str


SECTIONS = {
    "sandbox": Section(
        "bench.sandbox",
        "make bench",
        "The sandbox against kube-apiserver with etcd, in rounds that take turns: medians.",
    ),
    "sync": Section(
        "bench.sync",
        "make bench-sync",
        "The konnector between two planes of one kind, against a bare loader that makes the same "
        "six writes\nper object on the same servers in the same run. Changes among others under "
        "way wait in line; so does\nthe bare echo beside them, a write and a watch of one server "
        "with as many under way.",
    ),
    "kbind": Section(
        "bench.kbind",
        "make bench-sync (kbind v2)",
        "The konnector by kbind v2 against itself by v1alpha2 and against the original's, if "
        "KONNECTOR_V2 names that: the\nsame objects between planes of one kind, with a status "
        "each, in the same run, over 16 connections.",
    ),
    "postgres": Section(
        "bench.postgres",
        "make bench-postgres",
        "The PostgresAccess operator on one PostgreSQL and one sandbox, against a bare script "
        "that comes to the same\nend with the least statements and requests, in the same run; "
        "users' own requests to create the accesses are\nin the time of both.",
    ),
    "binding": Section(
        "bench.binding",
        "make bench-binding",
        "The binding controllers against a bare loader that makes the same writes, users' own "
        "among them, on the same\nserver in the same run, over 16 connections. It reads nothing.",
    ),
    "serve": Section(
        "bench.serve",
        "make bench-serve",
        "The front door against a bare aiohttp handler that answers bodies of the same size, over "
        "16 connections, in turns.",
    ),
    "sizes": Section(
        "bench.footprint",
        "make sizes",
        "What each program needs, in two replicas as its Deployment has them, with the flags of "
        "its manifests: memory of\nthe leader at rest, the most that any replica has ever held, "
        "CPU of the leader alone, and the seconds from\nkill -9 of the leader until a change made "
        "then has had its effect. etcd does not wait for the disk.",
    ),
}
"""Benchmarks by name; the keys of their rows begin with it."""


class Row(msgspec.Struct, frozen=True):
    """A number with its unit; ``aim`` is the bound it should keep, None where there is none."""

    key: str
    title: str
    value: float
    unit: str = "x"
    aim: float | None = None
    smaller_is_better: bool = True
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.aim is None:
            return None
        return self.value <= self.aim if self.smaller_is_better else self.value >= self.aim


TITLES = {"real": "kube-apiserver", "sandbox": "sandbox"}
"""Kinds of planes as titles call them."""
KIB = 1 << 10
MIB = 1 << 20


def milliseconds(
    key: str, title: str, seconds: float, aim: float | None = None, note: str = ""
) -> Row:
    return Row(key, title, 1000 * seconds, "ms", aim, note=note)


def kibibytes(key: str, title: str, size: float, aim: float | None = None, note: str = "") -> Row:
    return Row(key, title, size / KIB, "KiB", aim, note=note)


def pace(
    key: str, title: str, ours: float, bare: float, aim: float | None = None, note: str = ""
) -> Row:
    """Compare our speed with the bare loader's, by the seconds of both."""
    note = note or against(ours, bare)
    return Row(key, title, bare / ours, aim=aim, smaller_is_better=False, note=note)


def against(ours: float, bare: float) -> str:
    """Tell the seconds of ours and of the bare loader."""
    return f"{ours:.2f} s against {bare:.2f} s"


def of_echo(key: str, title: str, ours: float, echo: float, aim: float | None = None) -> Row:
    """Compare a median with the bare echo's."""
    note = f"{1000 * ours:,.1f} ms against {1000 * echo:,.1f} ms"
    return Row(key, f"{title}, p50 of the bare echo's", ours / echo, aim=aim, note=note)


def say(text: str) -> None:
    """Tell the user how far it is."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def report(measure: Callable[[], Coroutine[Any, Any, Iterable[Row]]]) -> None:
    """Run a benchmark, and hand its rows to the process that started it."""

    async def main(stop: asyncio.Event) -> Iterable[Row]:
        return await cancel_on(stop, measure())

    emit(run(main))


def emit(rows: Iterable[Row]) -> None:
    """Print the rows of one benchmark."""
    sys.stdout.write(msgspec.json.encode(list(rows)).decode() + "\n")


def parse(text: str) -> list[Row]:
    """Read the rows that a benchmark printed last."""
    return msgspec.json.decode(text.strip().splitlines()[-1], type=list[Row])


def table(rows: Iterable[Row]) -> str:
    lines = ["| what | measured | aim | holds | note |", "|---|---|---|---|---|"]
    for row in rows:
        sign = "<=" if row.smaller_is_better else ">="
        aim = f"{sign} {row.aim:g}" if row.aim is not None else ""
        holds = {True: "yes", False: "**no**", None: ""}[row.holds]
        value = f"{row.value:,.0f}" if row.value >= 1000 else f"{row.value:.2f}"
        lines.append(f"| {row.title} | {value} {row.unit} | {aim} | {holds} | {row.note} |")
    return "\n".join(lines) + "\n"


def write(file: Path, name: str, rows: Iterable[Row]) -> None:
    """Write the section of one benchmark into the file of results; other sections stay."""
    text = file.read_text() if file.exists() else ""
    parts = (part.partition("\n\n") for part in text.split("## ")[1:])
    bodies = {heading: body.strip("\n") + "\n" for heading, _, body in parts}
    bodies[SECTIONS[name].command] = f"{SECTIONS[name].text}\n\n{table(rows)}"
    sections = [
        f"## {one.command}\n\n{bodies[one.command]}"
        for one in SECTIONS.values()
        if one.command in bodies
    ]
    file.write_text("# Benchmark results\n\n" + "\n".join(sections))
