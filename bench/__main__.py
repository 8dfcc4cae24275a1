"""Run benchmarks, each in a process of its own, and write bench/results.md and results.json.

Without a name those of ``make bench`` run; the konnector's, which take longer, are called
``sync``, those of the PostgresAccess operator ``postgres``, those of the binding controllers
``binding``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bench.rows import SECTIONS, Row, parse, table, write


BENCHMARKS = ("ingest", "memory", "controller", "sandbox")
PARTIAL = (
    "BENCH_OBJECTS",
    "BENCH_PLANES",
    "BENCH_ACCESSES",
    "BENCH_BINDINGS",
    "BENCH_PARTS",
)
"""Whoever sets one of these measures a part, whose results are not kept."""


def main() -> int:
    wanted = sys.argv[1:] or [name for name in BENCHMARKS if find_spec(f"bench.{name}")]
    rows: list[Row] = []
    failed = False
    for name in wanted:
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{name}"], stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            print(f"bench: {name} failed with exit code {done.returncode}", file=sys.stderr)
            failed = True
            continue
        rows += parse(done.stdout)
    print(table(rows), end="")
    if (
        sys.argv[1:] in ([], *([name] for name in SECTIONS))
        and not failed
        and not any(map(os.environ.get, PARTIAL))
    ):
        write(Path(__file__).parent, rows, *sys.argv[1:])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
