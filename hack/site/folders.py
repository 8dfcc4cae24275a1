"""The pages of a folder, in their order, and lists of them in a page."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


INDEX = "index.md"
_LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")
_LIST = re.compile(r"^<!-- pages: ([a-z/-]+/) -->$", re.MULTILINE)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def filled(nav: Iterable[Any], docs: Path) -> list[Any]:
    """The navigation with pages in place of folders; what has no pages is left out."""
    result: list[Any] = []
    for entry in nav:
        if not isinstance(entry, Mapping):
            result.append(entry)
            continue
        ((title, value),) = entry.items()
        if isinstance(value, list):
            value = filled(value, docs)
        elif isinstance(value, str) and value.endswith("/"):
            value = pages(docs, value)
        if value:
            result.append({title: value})
    return result


def pages(docs: Path, folder: str) -> list[str]:
    """The pages of a folder: its index, what the index links in that order, the rest by name."""
    # GitHub shows README.md with a folder, and MkDocs takes it for the index too.
    found = sorted(path.name for path in (docs / folder).glob("*.md"))
    index = next((name for name in (INDEX, "README.md") if name in found), None)
    ordered: list[str] = []
    if index:
        text = (docs / folder / index).read_text()
        ordered = [index, *(name for name in _LINK.findall(text) if name in found)]
    return [folder + name for name in dict.fromkeys([*ordered, *found])]


def listed(markdown: str, page: str, docs: Path) -> str:
    """The text of a page with a list of links in place of ``<!-- pages: FOLDER/ -->``."""

    def links(match: re.Match[str]) -> str:
        folder = match.group(1)
        rows = [
            f"- [{_title(docs / path)}]({posixpath.relpath(path, posixpath.dirname(page) or '.')})"
            for path in pages(docs, folder)
            if path not in {page, folder + INDEX}
        ]
        return "\n".join(rows)

    return _LIST.sub(links, markdown)


def _title(path: Path) -> str:
    match = _TITLE.search(path.read_text())
    return match.group(1) if match else path.stem
