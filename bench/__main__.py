"""Run every benchmark in a process of its own and write bench/results.md and results.json."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bench.rows import Row, parse, table, write


BENCHMARKS = ("ingest", "memory", "controller", "sandbox")


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
    if not sys.argv[1:] and not failed:
        write(Path(__file__).parent, rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
