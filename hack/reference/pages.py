"""All pages of the reference, and what of a folder is not as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hack.reference import alerts, commands, resources, sandbox


BY_HAND = {
    "bindings.md",
    "chart.md",
    "image.md",
    "index.md",
    "kbind.md",
    "postgres-access.md",
    sandbox.PAGE,
    "serve.md",
    "sizes.md",
    "sync.md",
}
"""The pages of the reference that are written by hand."""


def pages() -> dict[str, str]:
    """The pages by their paths below the reference."""
    return resources.pages() | commands.pages() | alerts.pages()


def write(folder: Path) -> None:
    """Write all pages and the tables of the sandbox's, and remove pages that are gone."""
    made = pages()
    for gone in _present(folder) - made.keys():
        (folder / gone).unlink()
    for name, text in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    page = folder / sandbox.PAGE
    if page.exists():
        page.write_text(sandbox.filled(page.read_text()))


def stale(folder: Path) -> Iterator[str]:
    """The paths of pages that are not as the code makes them, missing and left over ones too."""
    made = pages()
    for name in sorted(made.keys() | _present(folder)):
        path = folder / name
        if not path.exists() or path.read_text() != made.get(name):
            yield name
    page = folder / sandbox.PAGE
    if page.exists() and page.read_text() != sandbox.filled(page.read_text()):
        yield sandbox.PAGE


def _present(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    return found - BY_HAND
