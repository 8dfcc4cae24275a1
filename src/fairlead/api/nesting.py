"""Access to members of JSON that is nested too deeply for the decoder.

An API server stores objects of up to 10,000 levels from any user who may write one: in fields
without a schema, and in ``metadata.managedFields`` of every kind. msgspec's decoder ends at some
1,000 levels, so that one such object would make a whole list unreadable. The functions here split
the text at its outermost levels, in one pass over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec


# A string is one token, so that brackets and commas in it do not count.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]')


class NestedTooDeeply(msgspec.ValidationError):
    """A JSON text is nested more deeply than the decoder can read."""

    def __init__(self) -> None:
        super().__init__("it is nested too deeply to be read; remove what is below")


class Member(NamedTuple):
    """Position of a value in a list or an object; ``name`` is quoted, "" in a list."""

    name: bytes
    begin: int
    end: int

    def of(self, text: bytes) -> bytes:
        """Return the text of the value."""
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
                    # An empty list or object has no value at its end.
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
    for member in members(text):
        if member.name == b'"%s"' % path[0]:
            value = without(member.of(text), *path[1:]) if path[1:] else b"[]"
            return text[: member.begin] + value + text[member.end :]
    return text
