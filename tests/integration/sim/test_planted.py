"""The simulator finds what is planted into the product, with the short plans that are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).parents[3]
FEWEST = 8
"""Faults of which a plan is kept at least."""


def test_planted_faults_are_found() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.sim", "find", "--kept"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    found = [line for line in made.stdout.splitlines() if "no plan is kept" not in line]
    assert len(found) >= FEWEST, made.stdout
