"""Looks at a built site: ``python -m hack.site build/site``."""

from __future__ import annotations

import sys
from pathlib import Path

from hack.site.checks import problems


def main(folder: str) -> int:
    """Print what is wrong; the exit code says whether anything is."""
    site = Path(folder).resolve()
    if not (site / "index.html").is_file():
        print(f"{folder} has no index.html: build the site first, by make docs", file=sys.stderr)
        return 1
    found = list(problems(site))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
