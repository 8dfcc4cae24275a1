"""Diagrams: Mermaid's script, as published, on the pages that have one.

The theme would load it from another host if the page did not bring it.
"""

from __future__ import annotations

import gzip
from pathlib import Path


SCRIPT = "assets/mermaid.tiny.js"
"""Where the site has the script."""

VENDORED = Path(__file__).parent / "vendor" / "mermaid.tiny.js.gz"
_DIAGRAM = 'class="mermaid"'


def script() -> str:
    """Mermaid's script."""
    return gzip.decompress(VENDORED.read_bytes()).decode()


def drawn(page: str, root: str) -> str:
    """The page with the script if it has a diagram; ``root`` leads to the site's root."""
    if _DIAGRAM not in page:
        return page
    head, end, tail = page.rpartition("</body>")
    # Before the theme's own, which asks whether it is there.
    place = head.find("<script src=")
    tag = f'<script src="{root}{SCRIPT}"></script>'
    return head[:place] + tag + head[place:] + end + tail
