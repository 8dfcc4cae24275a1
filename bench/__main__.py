"""Run benchmarks, each in a process of its own, and print their table.

Without a name the sandbox's runs; ``bench.rows.SECTIONS`` has the others. The long form writes
results.md: see :mod:`bench.sizes`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.rows import SECTIONS, parse, say, table, write
from bench.sizes import KEPT


def main() -> int:
    chosen = sys.argv[1:] or ["sandbox"]
    if unknown := [name for name in chosen if name not in SECTIONS]:
        say(f"there is no {', '.join(unknown)}, only {', '.join(SECTIONS)}")
        return 2
    failed = False
    for name in chosen:
        say(f"{name} ...")
        command = [sys.executable, "-m", SECTIONS[name].module]
        process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if process.returncode:
            say(f"{name} failed with exit code {process.returncode}")
            failed = True
            continue
        rows = parse(process.stdout)
        print(table(rows), end="")
        if KEPT and rows:
            write(Path(__file__).with_name("results.md"), name, rows)
    if not KEPT:
        say("results are kept by BENCH_LONG=1 alone, when no size or part is chosen")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
