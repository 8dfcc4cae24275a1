"""Each fault of the original of kbind v2 has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


_TESTS = Path(__file__).parents[3]
_NAMED = re.compile(r"def test_f(\d+)_|\bid=\"F(\d+)-|^\s+\"\"\"F(\d+):", re.MULTILINE)


def _faults() -> set[int]:
    """Return the numbers in names of tests and rows, and at the beginning of docstrings."""
    paths = [
        path
        for folder in ("e2e/kbind", "unit/konnector")
        for path in (_TESTS / folder).rglob("test_*.py")
    ]
    matches = [match for path in paths for match in _NAMED.finditer(path.read_text())]
    return {int(number) for match in matches for number in match.groups() if number}


@pytest.mark.parametrize("number", range(1, 26))
def test_a_fault_has_a_test_of_its_number(number: int) -> None:
    assert number in _faults()
