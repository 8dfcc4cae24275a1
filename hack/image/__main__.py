"""Builds the image of this tree: ``python -m hack.image``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hack.image.building import ROOT, build
from hack.image.debian import Apt, UnavailableError
from hack.image.keeping import cache
from hack.image.python import BuildError


_CONTENT = ("pyproject.toml", "README.md", "LICENSE", "requirements", "src", "hack/image")
"""What the image depends on."""


def _git(*arguments: str) -> str:
    """What git says; "" without git, or outside of a repository."""
    if not shutil.which("git"):
        return ""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m hack.image",
        description="Builds an OCI image without a daemon and without a base image.",
    )
    parser.add_argument("--output-dir", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument(
        "--name", default="fairlead", help="repository, without a tag; default: fairlead"
    )
    parser.add_argument(
        "--fetch-only", action="store_true", help="fetch Debian's packages, and build nothing"
    )
    asked = parser.parse_args()
    try:
        if asked.fetch_only:
            Apt(cache() / "apt").packages()
            return
        _build(asked.output_dir, asked.name)
    except (UnavailableError, BuildError) as error:
        sys.exit(f"image: {error}")


def _build(folder: Path, name: str) -> None:
    revision = _git("rev-parse", "HEAD")
    if revision and _git("status", "--porcelain", "--", *_CONTENT):
        revision += "-dirty"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)
    built = build(ROOT, folder, name=name, revision=revision, epoch=epoch)
    for file in (built.archive, built.bill, built.licences):
        print(f"{file.stat().st_size:>12,}  {os.path.relpath(file)}")
    print(built.digest)


_main()
