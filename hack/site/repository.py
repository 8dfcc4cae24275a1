"""Files of the repository that pages link and that are no pages: manifests, rules, dashboards.

A page links them by their place in the repository, so that the link holds where the repository is
read. In the site a file is served below ``repository/``; a folder is named by its path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable


SERVED = "repository"
_LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])+)\]\(((?:\.\./)+[^)\s]*)\)")


def outside(page: str, target: str) -> str | None:
    """The path in the repository that a link of a page of docs leads to; None within docs."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path == "docs" or path.startswith("docs/") else path


def linked(markdown: str, page: str, is_file: Callable[[str], bool]) -> tuple[str, set[str]]:
    """The text of a page with links that hold in the site, and the files that they lead to."""
    files: set[str] = set()
    depth = "../" * page.count("/")

    def replace(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = outside(page, target.partition("#")[0])
        if path is None:
            return match.group()
        if not is_file(path):
            return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}`)"
        files.add(path)
        return f"[{text}]({depth}{SERVED}/{path})"

    return _LINK.sub(replace, markdown), files
