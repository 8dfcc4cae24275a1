"""The same seed does the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[3]


def trace(scenario: str, seed: str, hashes: str) -> str:
    """What a run prints, with the checksum over each message."""
    made = subprocess.run(
        [sys.executable, "-m", "tests.sim", "--scenario", scenario, "--seed", seed, "--trace"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr
    *lines, last = made.stdout.splitlines()
    # How long it took is the machine's.
    return "\n".join([*lines, last.split(" in ")[0], last.split(", ")[-1]])


@pytest.mark.parametrize("scenario", ["kubebind", "operator"])
def test_a_seed_repeats_under_other_hashes(scenario: str) -> None:
    first, second = (trace(scenario, "11", hashes) for hashes in ("1", "2"))
    assert first == second
    assert first.count("\n") > 1000
