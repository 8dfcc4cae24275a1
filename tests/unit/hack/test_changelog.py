"""The changelog: by version and section, an entry a line."""

from __future__ import annotations

import re

import pytest
from tests.support.image import ROOT


SECTIONS = ["Upgrade steps", "Added", "Changed", "Fixed", "Security"]
LONGEST = 220
"""Characters that an entry may have."""
VERSIONS = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]


def named(version: str) -> str:
    return version.split(maxsplit=1)[0]


@pytest.mark.parametrize("version", VERSIONS, ids=named)
def test_a_version_has_the_sections_in_order(version: str) -> None:
    found = re.findall(r"^### (.*)$", version, re.MULTILINE)
    assert found == [section for section in SECTIONS if section in found]
    assert found


@pytest.mark.parametrize("version", VERSIONS, ids=named)
def test_an_entry_is_one_short_line(version: str) -> None:
    entries = [line for line in version.partition("\n### ")[2].splitlines() if line]
    strange = [line for line in entries if not line.startswith(("- ", "#", *SECTIONS))]
    assert strange == []
    assert [line for line in entries if len(line) > LONGEST] == []


def test_the_newest_version_stands_first_and_each_once() -> None:
    numbers = [
        tuple(map(int, number))
        for number in re.findall(
            r"^(\d+)\.(\d+)\.(\d+)",
            "\n".join(named(version) for version in VERSIONS),
            re.MULTILINE,
        )
    ]
    assert numbers == sorted(set(numbers), reverse=True)
