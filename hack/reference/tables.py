"""Markdown that all pages of the reference have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


ROOT = Path(__file__).parent.parent.parent


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a cell is one line, and a bar in it does not end it."""
    lines = [head, ["---"] * len(head), *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def code(text: object) -> str:
    """Text as it stands in a file or on a command line."""
    # A backtick within is fenced by two.
    return f"`` {text} ``" if "`" in str(text) else f"`{text}`"


def words(text: str) -> str:
    """Text of a description, of which Markdown and HTML take nothing for their own."""
    parts = re.split(r"(``?)(.+?)\1", text)
    # Between each two stretches of plain text are the fence and the code.
    plain = [re.sub(r"([\\*_<>\[\]])", r"\\\1", part) for part in parts[::3]]
    fenced = [code(part) for part in parts[2::3]]
    return "".join(
        part + (fenced[number] if number < len(fenced) else "")
        for number, part in enumerate(plain)
    )


def sentence(text: str) -> str:
    """Text with a full stop at its end."""
    return text if not text or text[-1] in ".:!?" else f"{text}."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
