"""Removal of control characters from printed texts, of which strangers choose parts.

The module imports little, since every command needs it for its errors.
"""

from __future__ import annotations

import os
import sys

import click


def open_streams() -> None:
    """Put the null device in the place of standard streams that are closed.

    A file or a socket would get their numbers otherwise, and the event loop ends a process whose
    sockets have these.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one: those below it are open.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode))


def printable(text: str) -> str:
    """Return the text with ``?`` for characters that move the cursor or turn the direction."""
    return "".join(char if char.isprintable() else "?" for char in text)


def plain(text: str) -> str:
    """Return one printable line, with one blank between words."""
    return " ".join(printable(" ".join(text.split())).split())


def say(line: str) -> None:
    """Print the progress of a command on standard error."""
    click.echo(printable(line), err=True)


def to_json(document: object) -> str:
    """Format a document as readable JSON, with all unprintable characters escaped."""
    # Imported here: the import takes its time.
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    """Return a character of a JSON string by its UTF-16 code units."""
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
