"""``python -m hack.releasing``, which ``hack/release`` starts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hack.image.building import ROOT
from hack.image.debian import UnavailableError
from hack.image.python import BuildError
from hack.releasing.checking import RefusedError, check
from hack.releasing.making import make
from hack.releasing.pushing import push


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="hack/release",
        description="Makes a release of the commit that is checked out.",
    )
    parser.add_argument(
        "--push", metavar="REGISTRY", help="put image and chart there; default: nowhere"
    )
    parser.add_argument(
        "--unsigned", action="store_true", help="leave the chart without signature"
    )
    parser.add_argument("--output-dir", type=Path, default=ROOT / "dist", help="default: dist")
    asked = parser.parse_args()
    try:
        release = check(ROOT)
        made = make(ROOT, release, asked.output_dir, sign=not asked.unsigned)
        for file in sorted(made.folder.iterdir()):
            print(f"{file.stat().st_size:>12,}  {file}")
        print(f"image {made.record['image']}")
        if asked.push:
            pushed = push(made, asked.push)
            print(f"pushed {pushed.image}@{made.record['image']}\npushed {pushed.chart}")
    except (RefusedError, UnavailableError, BuildError) as error:
        sys.exit(f"release: {error}")


_main()
