"""JSON that is nested deeper than a decoder goes.

An API server stores objects of up to 10,000 levels, from any user with the right to write one: in
fields without a schema, and for every kind in ``metadata.managedFields``. A decoder ends at some
1,000 levels and refuses the whole list for that one object. Then the text is cut at its outermost
levels, in one pass over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]')


class NestedTooDeeply(msgspec.ValidationError):
    """A text is nested deeper than can be read."""

    def __init__(self) -> None:
        super().__init__("it is nested too deeply to be read; take away what is below")


class Member(NamedTuple):
    """A value in a list or an object: its name with quotes, "" in a list, and where it stands."""

    name: bytes
    begin: int
    end: int

    def of(self, text: bytes) -> bytes:
        """Return the value's own text."""
        return text[self.begin : self.end]


def members(text: bytes) -> Iterator[Member]:
    """Yield the values of the list or object in a text, in their order."""
    level, name, begin = 0, b"", 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case b"{" | b"[":
                level += 1
                if level == 1:
                    begin = token.end()
            case b"}" | b"]":
                level -= 1
                if level == 0:
                    if text[begin : token.start()].strip():
                        yield Member(name, begin, token.start())
                    return
            case b":" if level == 1:
                name, begin = text[begin : token.start()].strip(), token.end()
            case b"," if level == 1:
                yield Member(name, begin, token.start())
                name, begin = b"", token.end()


def member(text: bytes, name: bytes) -> bytes:
    """Return the text of an object's value, empty if it is missing."""
    return next((one.of(text) for one in members(text) if one.name == b'"%s"' % name), b"")


def without(text: bytes, *path: bytes) -> bytes:
    """Return the text with an empty list in place of the one at a path, if there is one."""
    for one in members(text):
        if one.name == b'"%s"' % path[0]:
            value = without(one.of(text), *path[1:]) if path[1:] else b"[]"
            return text[: one.begin] + value + text[one.end :]
    return text
