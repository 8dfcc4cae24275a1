"""The commands that the documents name exist, with the options that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fairlead.cli import main


ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    path
    for folder, pattern in (
        (ROOT, "*.md"),
        (ROOT / "docs", "*.md"),
        (ROOT / "docs" / "reference", "*.md"),
        (ROOT / "examples", "**/*.md"),
    )
    for path in folder.glob(pattern)
    # It tells of what was, too.
    if path.name != "CHANGELOG.md"
)
NAMED = re.compile(r"`(?:kubectl )?(fairlead [^`]+)`|^(?:    )?(fairlead [^|\n]+)", re.MULTILINE)


def named() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for one in NAMED.finditer(path.read_text().replace("\\\n", " ")):
            yield path.name, " ".join((one[1] or one[2]).partition("#")[0].split())


@pytest.mark.parametrize(
    ("file", "text"), [pytest.param(*one, id=" ".join(one)) for one in sorted(set(named()))]
)
def test_a_command_of_the_documents_exists_with_its_options(file: str, text: str) -> None:
    command, words = _resolved(text.split()[1:])
    ours = words[: words.index("--")] if "--" in words else words
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    for word in ours:
        if word.startswith("-"):
            assert word.partition("=")[0].rstrip(",;") in known, f"{file}: {text}"
    if isinstance(command, click.Group) and words:
        assert words[0].startswith(("-", "...")), f"{file}: no command {words[0]} in {text}"


LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def links() -> Iterator[tuple[Path, str]]:
    for path in [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "bench" / "results.md"]:
        for target in LINK.findall(path.read_text()):
            yield path, target


@pytest.mark.parametrize(
    ("path", "target"),
    [pytest.param(*one, id=f"{one[0].name} {one[1]}") for one in sorted(set(links()))],
)
def test_a_link_of_the_documents_leads_somewhere(path: Path, target: str) -> None:
    name, _, anchor = target.partition("#")
    there = path.parent / name if name else path
    assert there.exists()
    if anchor and there.suffix == ".md":
        assert anchor in {_anchor(one) for one in HEADING.findall(there.read_text())}


def _anchor(heading: str) -> str:
    """What GitHub calls a heading in links."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = main
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words
