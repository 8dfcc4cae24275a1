from __future__ import annotations

from pathlib import Path

from hack.reasons import page


ROOT = Path(__file__).parents[3]


def test_the_page_of_reasons_is_that_of_the_tables() -> None:
    told = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    assert told == page(), "python -m hack.reasons > docs/reasons.md"
