"""The map of docs/architecture.md: its rows are short, and all that they name is there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest


ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "fairlead"
LONGEST = 450
"""Three lines of 150 characters."""
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLES = [line for line in TEXT.splitlines() if line.startswith("|")]
MAP = [
    line
    for line in TEXT.partition("## Where to change what")[2].splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| subject "))
]


@pytest.mark.parametrize("row", TABLES)
def test_no_cell_is_longer_than_three_lines(row: str) -> None:
    assert max(map(len, re.split(r"(?<!\\)\|", row))) <= LONGEST


@pytest.mark.parametrize("row", MAP)
def test_what_a_row_names_is_there(row: str) -> None:
    folder, texts = SOURCE, list[str]()
    names = re.findall(r"`([^`]+)`", row.split("|")[2])
    for name in names:
        if not re.fullmatch(r"[\w/.-]+(\.\w+|/[\w-]+)", name):
            continue
        places = [base / name for base in (SOURCE, ROOT, folder)]
        place = next((place for place in places if place.exists()), None)
        # Each package has its own.
        if place is None and name in {"manifests.py", "metrics.py"}:
            continue
        assert place is not None, name
        if "/" in name:
            folder = place if place.is_dir() else place.parent
        files = [place] if place.is_file() else list(place.rglob("*.py"))
        texts += [file.read_text(encoding="utf-8") for file in files]
    for name in names:
        if re.fullmatch(r"\w+", name) and not PurePosixPath(SOURCE / name).suffix:
            known = (SOURCE / name).exists() or any(re.search(rf"\b{name}\b", t) for t in texts)
            assert known, name
