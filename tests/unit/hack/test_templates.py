"""Templates of issues and changes: GitHub and GitLab have the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.image import ROOT


ISSUES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))


@pytest.mark.parametrize("path", ISSUES, ids=lambda path: path.stem)
def test_an_issue_is_asked_for_in_the_same_words(path: Path) -> None:
    _, header, text = path.read_text().split("---\n", 2)
    assert {"name", "about", "labels"} <= {line.partition(":")[0] for line in header.splitlines()}
    assert (ROOT / ".gitlab" / "issue_templates" / path.name).read_text() == text.lstrip("\n")


def test_a_change_is_asked_about_in_the_same_words() -> None:
    github = ROOT / ".github" / "pull_request_template.md"
    gitlab = ROOT / ".gitlab" / "merge_request_templates" / "default.md"
    assert github.read_text() == gitlab.read_text()
