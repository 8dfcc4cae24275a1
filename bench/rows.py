"""What a benchmark measured: one number a row, flat in JSON, a table in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec


MAIN = "main"
SYNC = "sync"
"""The konnector's section; its keys begin with this and an underscore."""

POSTGRES = "postgres"
"""The section of the PostgresAccess operator; so do its keys."""

BINDING = "binding"
"""The section of the binding controllers; so do its keys."""

SECTIONS = (SYNC, POSTGRES, BINDING)
"""Those that are written by a benchmark of their own."""

_HEADINGS = {MAIN: "make bench", **{name: f"make bench-{name}" for name in SECTIONS}}
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


def emit(rows: Iterable[Row]) -> None:
    """Hand the rows of one benchmark to the process that started it."""
    sys.stdout.write(msgspec.json.encode(list(rows)).decode() + "\n")


def parse(text: str) -> list[Row]:
    """The rows that a benchmark printed last."""
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
    """results.md for people, results.json for machines; the other sections stay as they are."""
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
    """The sections of a results.md that was written before."""
    names = {heading: name for name, heading in _HEADINGS.items()}
    found = (part.partition("\n\n") for part in text.split("## ")[1:])
    return {
        names[heading]: body.strip("\n") + "\n" for heading, _, body in found if heading in names
    }
