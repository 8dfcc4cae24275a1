"""The simulator finds what is planted into the product, with the short plans that are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).parents[3]


def test_planted_faults_are_found() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "tests.sim", "find", "--kept"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
