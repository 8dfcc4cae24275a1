"""Commands name a kind in full where two API groups have it: kubectl would pick either."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
import yaml
from tests.support.image import ROOT


def _groups() -> dict[str, set[str]]:
    """The API groups of each name by which kubectl takes a kind of ours."""
    groups = defaultdict(set)
    for path in (ROOT / "config" / "crd").glob("*.yaml"):
        spec = yaml.safe_load(path.read_text())["spec"]
        names = spec["names"]
        for name in (names["plural"], names["singular"], *names.get("shortNames", ())):
            groups[name].add(spec["group"])
    return groups


AMBIGUOUS = sorted(name for name, groups in _groups().items() if len(groups) > 1)
COMMAND = re.compile(r"(?:kubectl|\{kubectl\})([^\n`|]*)")
NAME = re.compile(rf"(?<![\w.-])(?:{'|'.join(AMBIGUOUS)})(?![\w.-])")


def ambiguous(text: str) -> list[str]:
    """The kubectl commands in a text that name a kind of two groups by its name alone."""
    return [match[0] for match in COMMAND.finditer(text) if NAME.search(match[1])]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kubectl -n shop wait servicebinding/shop", True),
        ("kubectl get postgresaccesses,servicebindings", True),
        ("kubectl get servicebindings.servicebinding.io", False),
        ("kubectl delete deployment servicebinding-controller-manager", False),
        ("fairlead binding explain servicebinding/web", False),
    ],
)
def test_a_name_without_a_group_is_seen(text: str, told: bool) -> None:
    assert bool(ambiguous(text)) is told


def test_commands_of_pages_and_programs_name_the_group() -> None:
    folders = [ROOT / name for name in ("docs", "examples", "charts", "src")]
    files = [*ROOT.glob("[!C]*.md"), *(path for folder in folders for path in folder.rglob("*"))]
    texts = [path for path in files if path.suffix in {".md", ".py", ".txt", ".html", ".yaml"}]
    assert len(texts) > 500
    found = {path: ambiguous(path.read_text()) for path in texts}
    assert {path: commands for path, commands in found.items() if commands} == {}
