"""The same seed does the same in every process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[3]
SECONDS = re.compile(r" in [0-9.]+ s,")


def trace(scenario: str, seed: str, hashes: str) -> str:
    """What a run prints, with the checksum over each message."""
    made = subprocess.run(
        [
            *(sys.executable, "-m", "tests.sim", "--scenario", scenario),
            *("--seed", seed, "--trace", "--no-shrink"),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=False,
    )
    # A broken sentence is another matter; how long it took is the machine's.
    assert made.returncode in {0, 1}, made.stdout[-4000:] + made.stderr
    return SECONDS.sub("", made.stdout)


@pytest.mark.parametrize(
    "scenario",
    ["binding"]
    + [
        pytest.param(it, marks=pytest.mark.extended)
        for it in ("kubebind", "kbindv2", "chain", "operator")
    ],
)
def test_a_seed_repeats_under_other_hashes(scenario: str) -> None:
    first, second = (trace(scenario, "11", hashes) for hashes in ("1", "2"))
    assert first == second
    assert first.count("\n") > 1000
