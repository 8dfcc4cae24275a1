"""Looks at the pages that were built: where links lead, and what a browser would ask of whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit


_LOADED = {
    ("audio", "src"),
    ("embed", "src"),
    ("iframe", "src"),
    ("img", "src"),
    ("img", "srcset"),
    ("input", "src"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("track", "src"),
    ("video", "poster"),
    ("video", "src"),
    ("image", "href"),
    ("use", "href"),
}
_STYLED = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
_ABOUT = "canonical", "alternate", "license", "author"
"""Relations of a ``link`` that no browser loads."""


class Reference(NamedTuple):
    """An address in a page; loaded when the page is shown, or followed when it is clicked."""

    address: str
    loaded: bool


class Page(HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.references: list[Reference] = []
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of what a tag names."""
        values = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "style" in values:
            self._styled(values["style"])
        for name, value in values.items():
            if tag == "a" and name == "href":
                self.references.append(Reference(value, loaded=False))
            elif (tag, name) in _LOADED and not (tag == "link" and values.get("rel") in _ABOUT):
                # A set of sources has a size or a density behind each address.
                parts = value.split(",") if name == "srcset" else [value]
                self.references += [Reference(part.split()[0], True) for part in parts if part]

    def handle_data(self, data: str) -> None:
        """Take note of what a style sheet in the page names."""
        if self._style:
            self._styled(data)

    def _styled(self, text: str) -> None:
        self.references += [Reference(address, True) for address in styled(text)]


def styled(text: str) -> list[str]:
    """The addresses that a style sheet has loaded."""
    return [first or second for first, second in _STYLED.findall(text)]


def problems(site: Path) -> Iterator[str]:
    """What is wrong with a built site, one line each."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for reference in page.references:
            problem = _problem(site, pages, path, reference)
            if problem:
                yield f"{path.relative_to(site)}: {reference.address}: {problem}"
    for path in sorted(site.rglob("*.css")):
        for address in styled(path.read_text()):
            if foreign(address):
                yield f"{path.relative_to(site)}: {address}: loaded from another host"


def foreign(address: str) -> bool:
    """Whether an address names a host."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in {"http", "https"}


def _problem(site: Path, pages: dict[Path, Page], path: Path, reference: Reference) -> str | None:
    address, anchor = urldefrag(reference.address)
    if foreign(address):
        return "loaded from another host" if reference.loaded else None
    if urlsplit(address).scheme:
        return None
    if address.startswith("/"):
        # The error page alone may: it is shown at any address.
        return None if path.name == "404.html" else "leads to the host's root"
    target = (path.parent / unquote(address)).resolve() if address else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file() or not target.is_relative_to(site.resolve()):
        return "is not in the site"
    if anchor and target in pages and unquote(anchor) not in pages[target].anchors:
        return "has no such anchor"
    return None
