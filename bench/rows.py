"""Rows of all benchmarks: one number each, flat in JSON, a table in Markdown."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.process import cancel_on, run


MAIN = "main"
SYNC = "sync"
"""The konnector's section; its keys begin with this and an underscore."""

POSTGRES = "postgres"
"""The section of the PostgresAccess operator; so do its keys."""

BINDING = "binding"
"""The section of the binding controllers; so do its keys."""

SERVE = "serve"
"""The section of the front door; so do its keys."""

SIZES = "sizes"
"""The section of what each program needs; so do its keys."""

SECTIONS = (SYNC, POSTGRES, BINDING, SERVE, SIZES)
"""Sections that are written by a benchmark of their own."""

_HEADINGS = {
    MAIN: "make bench",
    **{name: f"make bench-{name}" for name in SECTIONS if name != SIZES},
    SIZES: "make sizes",
}
_ABOUT = {
    MAIN: (
        "Ratios compare CPU time or size within one run; the sandbox's compare time on the clock,"
        "\nmedians of rounds in which the servers take turns."
    ),
    SYNC: (
        "The konnector between two planes of one kind, against a bare loader that makes the same "
        "six writes\nper object on the same servers in the same run. Changes among others under "
        "way wait in line; so does\nthe bare echo beside them, a write and a watch of one server "
        "with as many under way."
    ),
    POSTGRES: (
        "The PostgresAccess operator on one PostgreSQL and one sandbox, against a bare script "
        "that comes to the same\nend with the least statements and requests, in the same run; "
        "users' own requests to create the accesses are\nin the time of both. The seed's loop "
        "sets every password anew for each access, and asks no API server here."
    ),
    BINDING: (
        "The binding controllers against a bare loader that makes the same writes, users' own "
        "among them, on the same\nserver in the same run, over 16 connections. It reads nothing."
    ),
    SERVE: (
        "The front door against a bare aiohttp handler that answers bodies of the same size, over "
        "16 connections, in\nturns; and a bind for a new cluster against the API calls that both "
        "programs make for it, made one after the other by\na bare client on the same server in "
        "the same run."
    ),
    SIZES: (
        "What each program needs, in two replicas as its Deployment has them, with the flags of "
        "its manifests: memory of\nthe leader at rest, the most that any replica has ever held, "
        "CPU of the leader alone, and the seconds from\nkill -9 of the leader until a change made "
        "then has had its effect. etcd does not wait for the disk."
    ),
}


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
AIM_GROWTH = 1.25
"""Bound of what one may cost among many, of what one costs among few, where growth is linear."""
KIB = 1 << 10
MIB = 1 << 20


def milliseconds(
    key: str, title: str, seconds: float, aim: float | None = None, note: str = ""
) -> Row:
    return Row(key, title, 1000 * seconds, "ms", aim, note=note)


def kibibytes(key: str, title: str, size: float, aim: float | None = None, note: str = "") -> Row:
    return Row(key, title, size / KIB, "KiB", aim, note=note)


def ratio(
    key: str, title: str, ours: float, other: float, aim: float | None = None, of: str = ""
) -> Row:
    """Compare seconds, or seconds ``of`` something, with those without what is measured."""
    note = f"{1000 * ours:.0f} ms{of} against {1000 * other:.0f} ms"
    return Row(key, title, ours / other, aim=aim, note=note)


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
    return Row(key, f"{title}, p50 of the bare echo's", ours / echo, aim=aim, note=beside(echo))


def beside(echo: float) -> str:
    """Tell the seconds of the bare echo."""
    return f"bare echo {1000 * echo:,.1f} ms"


def growth(
    key: str,
    title: str,
    few: tuple[float, int],
    many: tuple[float, int],
    note: str = "",
) -> Row:
    """Compare the cost of one among many with that among few, each by cost and number of all."""
    value = (many[0] / many[1]) / (few[0] / few[1])
    return Row(key, title, value, aim=AIM_GROWTH, note=note)


def median_of(rounds: int) -> str:
    """Tell the number of rounds, as the end of a note."""
    return f"; median of {rounds} rounds" if rounds > 1 else ""


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


def write(folder: Path, rows: list[Row], section: str = MAIN) -> None:
    """Write results.md for people and results.json for machines; other sections stay."""
    numbers, texts = folder / "results.json", folder / "results.md"
    flat = msgspec.json.decode(numbers.read_bytes()) if numbers.exists() else {}
    kept = {key: value for key, value in flat.items() if _section(key) != section}
    new = {row.key: round(row.value, 3) for row in rows}
    both = new | kept if section == MAIN else kept | new
    numbers.write_bytes(msgspec.json.format(msgspec.json.encode(both)) + b"\n")
    sections = _sections(texts.read_text() if texts.exists() else "")
    sections[section] = f"{_ABOUT[section]}\n\n{table(rows)}"
    parts = [f"## {_HEADINGS[name]}\n\n{sections[name]}" for name in _HEADINGS if name in sections]
    texts.write_text("# Benchmark results\n\n" + "\n".join(parts))


def _section(key: str) -> str:
    return next((name for name in SECTIONS if key.startswith(f"{name}_")), MAIN)


def _sections(text: str) -> dict[str, str]:
    """Split a results.md that was written before."""
    names = {heading: name for name, heading in _HEADINGS.items()}
    found = (part.partition("\n\n") for part in text.split("## ")[1:])
    return {
        names[heading]: body.strip("\n") + "\n" for heading, _, body in found if heading in names
    }
