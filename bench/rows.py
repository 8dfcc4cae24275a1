"""What a benchmark measured: one number a row, flat in JSON, a table in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec


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


def write(folder: Path, rows: list[Row]) -> None:
    """results.md for people, results.json for machines."""
    flat = {row.key: round(row.value, 3) for row in rows}
    (folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(flat)) + b"\n")
    (folder / "results.md").write_text(
        "# Benchmark results\n\nRatios compare CPU time or size within one run; the sandbox's "
        "compare time on the clock,\nmedians of rounds in which the servers take turns.\n\n"
        + table(rows)
    )
