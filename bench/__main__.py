"""Run benchmarks, each in a process of its own, and print their table.

Without a name those of ``make bench`` run; the konnector's is called ``sync``, that of the
PostgresAccess operator ``postgres``, that of the binding controllers ``binding``, that of the
front door ``serve``; ``sizes`` measures what each program needs. The long form writes results.md
and results.json: see :mod:`bench.sizes`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.rows import SECTIONS, SIZES, Row, parse, say, table, write
from bench.sizes import KEPT


MODULES = {
    "ingest": "bench.runtime.ingest",
    "memory": "bench.runtime.memory",
    "controller": "bench.runtime.controller",
    "sandbox": "bench.sandbox",
    **{name: f"bench.{name}" for name in SECTIONS},
    SIZES: "bench.footprint",
}
"""Benchmarks by name; whichever has no section of its own is one of ``make bench``."""


def main() -> int:
    chosen = sys.argv[1:]
    if unknown := [name for name in chosen if name not in MODULES]:
        say(f"there is no {', '.join(unknown)}, only {', '.join(MODULES)}")
        return 2
    rows: list[Row] = []
    failed = False
    for name in chosen or [name for name in MODULES if name not in SECTIONS]:
        say(f"{name} ...")
        command = [sys.executable, "-m", MODULES[name]]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            say(f"{name} failed with exit code {done.returncode}")
            failed = True
            continue
        rows += parse(done.stdout)
    print(table(rows), end="")
    if not KEPT:
        say("results are kept by BENCH_LONG=1 alone, when no size or part is chosen")
    elif chosen in ([], *([name] for name in SECTIONS)) and not failed:
        write(Path(__file__).parent, rows, *chosen)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
