"""Measuring, breaking and cutting of text for the drawing."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import combining, east_asian_width


MOST_SHOWN: Final = 1000
"""Longest shown text, in characters."""

_ODD: Final = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
"""Control characters, marks that change the direction of writing, and surrogates."""
_HARMFUL: Final = re.compile(f"[\x00-\x1f{_ODD}]+")
_ILLEGIBLE: Final = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f{_ODD}]")
_PLACES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[-._/:, ])(?=[^-._/:, ])")
"""Places where a line may end: after punctuation, and inside camel case words."""

_WIDTHS: Final = {
    character: em
    for characters, em in (
        ("iIjl.,:;'|!` ", 0.33),
        ('frt()[]-/\\"', 0.43),
        ("csz_", 0.56),
        ("kvxyJ", 0.61),
        ("GOQNHDU", 0.79),
        ("w", 0.83),
        ("mMW@%&…—", 1.0),
    )
    for character in characters
}
"""Widths of characters in ems, for the widest default font of browsers."""


def harmless(text: str) -> str:
    """Replace characters that could affect other text with blanks."""
    return _HARMFUL.sub(" ", text)


def legible(text: str) -> str:
    """Replace characters that could affect other text with a visible mark; keep lines."""
    return _ILLEGIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """Return a harmless text of one line, cut to a length."""
    return harmless(text if len(text) <= most else text[: most - 1] + "…")


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the largest width of a text in browsers' default fonts, in the unit of ``size``."""
    return sum(map(_em, text)) * size * (1.12 if bold else 1)


def _em(character: str) -> float:
    known = _WIDTHS.get(character)
    if known is not None:
        return known
    if character.isascii():
        return 0.72 if character.isupper() else 0.625
    if combining(character):
        return 0
    return 1.1 if east_asian_width(character) in {"W", "F"} else 0.8


def cut(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Cut a text to a width, with an ellipsis."""
    text = plain(text)
    if width(text, size, bold=bold) <= room:
        return text
    return text[: _fitting(text, room - width("…", size, bold=bold), size, bold)].rstrip() + "…"


def lines(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
    """Break a text into one or two lines; a longer one is cut in the middle."""
    text = plain(text)
    if width(text, size, bold=bold) <= room:
        return [text]
    fits = max(_fitting(text, room, size, bold), 1)
    place = max((one.start() for one in _PLACES.finditer(text[: fits + 1])), default=0) or fits
    first, rest = text[:place].rstrip(), text[place:].lstrip()
    if width(rest, size, bold=bold) <= room:
        return [first, rest] if rest else [first]
    first, rest = text[:fits], text[fits:]
    back = _fitting(rest[::-1], room - width("…", size, bold=bold), size, bold)
    return [first, "…" + rest[len(rest) - back :]]


def _fitting(text: str, room: float, size: float, bold: bool) -> int:
    """Return how many characters from the beginning fit."""
    used = 0.0
    for number, character in enumerate(text):
        used += width(character, size, bold=bold)
        if used > room:
            return number
    return len(text)
