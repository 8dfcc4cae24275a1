"""Text that has to fit: how wide it is, where it may break, and what of it is shown."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import combining, east_asian_width


MOST_SHOWN: Final = 1000
"""Characters of a text that are told at all, where whole texts stand."""

_ODD: Final = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
"""Control characters, those that turn the direction of writing, and halves of characters."""
_HARMFUL: Final = re.compile(f"[\x00-\x1f{_ODD}]+")
_ILLEGIBLE: Final = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f{_ODD}]")
_PLACES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[-._/:, ])(?=[^-._/:, ])")
"""Where a line may end: after a mark, and within words that are written as one."""

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
"""Widths of characters in ems, in the broadest font that browsers choose by themselves."""


def harmless(text: str) -> str:
    """A text without what would change other text."""
    return _HARMFUL.sub(" ", text)


def legible(text: str) -> str:
    """A text of several lines in which what would change other text is seen to stand."""
    return _ILLEGIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def plain(text: str, most: int = MOST_SHOWN) -> str:
    """A harmless text of one line, at most so long."""
    return harmless(text if len(text) <= most else text[: most - 1] + "…")


def width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is at most, in the unit of ``size``, in the fonts that browsers choose."""
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
    """As much of a text as fits, with an ellipsis where that is not all."""
    text = plain(text)
    if width(text, size, bold=bold) <= room:
        return text
    return text[: _fitting(text, room - width("…", size, bold=bold), size, bold)].rstrip() + "…"


def lines(text: str, room: float, size: float, *, bold: bool = False) -> list[str]:
    """A text on one line or on two; of one that is longer, its beginning and its end."""
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
    """How many characters from the beginning fit."""
    used = 0.0
    for number, character in enumerate(text):
        used += width(character, size, bold=bold)
        if used > room:
            return number
    return len(text)
