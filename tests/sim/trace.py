"""What happened in a simulation: a checksum of all of it, and a table when it is asked for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple


class Line(NamedTuple):
    """One line of the table: simulated seconds, who, to whom, and what."""

    time: float
    source: str
    target: str
    text: str


class Trace:
    """Notes messages, faults and steps; ``keeping`` is whether their text is kept."""

    def __init__(self, clock: Callable[[], float], *, keeping: bool) -> None:
        self.keeping = keeping
        self.lines: list[Line] = []
        self.messages = 0
        self._clock = clock
        self._hash = hashlib.blake2b(digest_size=8)

    def checksum(self) -> str:
        """The same for two runs in which the same happened."""
        return self._hash.hexdigest()

    def message(self, connection: Any, source: str, target: str, data: bytes) -> None:
        """Note a piece that was delivered."""
        self.messages += 1
        self._hash.update(f"{self._clock():.9f} {connection.number} ".encode())
        self._hash.update(data)
        if self.keeping:
            for text in _summaries(connection, data):
                self.lines.append(Line(self._clock(), source, target, text))

    def broken(self, connection: Any, source: str, target: str) -> None:
        """Note a connection that was reset."""
        self.note(source, target, f"reset ({connection.about})")

    def note(self, source: str, target: str, text: str) -> None:
        """Note a step, a fault or a violation."""
        self._hash.update(f"{self._clock():.9f} {source} {target} {text}".encode())
        if self.keeping:
            self.lines.append(Line(self._clock(), source, target, text))

    def line(self, source: str, text: str) -> Line:
        """A line about now."""
        return Line(self._clock(), source, "", text)

    def table(self) -> str:
        """The lines as a table, without Leases, heartbeats and bookmarks."""
        lines = [line for line in self.lines if not _AT_REST.search(line.text)]
        if not lines:
            return ""
        wide = max(len(f"{line.source} > {line.target}") for line in lines)
        return "\n".join(f"{line.time:10.3f}  {_way(line):<{wide}}  {line.text}" for line in lines)


_REQUEST = re.compile(rb"^(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1.1\r\n")
_ANSWER = re.compile(rb"^HTTP/1.1 (\d+)")
_EVENT = re.compile(
    rb'\{"type":"([A-Z]+)","object":\{(?:(?!\{"type":).)*?"kind":"(\w+)"', re.DOTALL
)
_NAME = re.compile(rb'"name":"([^"]*)"')
_REASON = re.compile(rb'"reason":"(\w+)"')
_AT_REST = re.compile(r"/leases/|BOOKMARK|clusterbindings/cluster/status")
_COMMON = re.compile(r"/apis?/|fieldManager=[\w-]+&?|allowWatchBookmarks=true&|[?&]$")
_WIDE = 110


def _way(line: Line) -> str:
    return f"{line.source} > {line.target}" if line.target else line.source


def _short(request: str) -> str:
    """A request without what all have."""
    return _COMMON.sub("", request)[:_WIDE]


def _summaries(connection: Any, data: bytes) -> list[str]:
    found = _REQUEST.match(data)
    if found:
        return [_short(f"{found[1].decode()} {found[2].decode()}")]
    found = _ANSWER.match(data)
    if found:
        reason = _REASON.search(data) if found[1] >= b"400" else None
        more = f" {reason[1].decode()}" if reason else ""
        return [f"{found[1].decode()}{more} to {_short(connection.about)}"]
    events = []
    for event in _EVENT.finditer(data):
        name = _NAME.search(data, event.end() - len(event[0]))
        said = name[1].decode() if name else ""
        events.append(f"event {event[1].decode()} {event[2].decode()} {said}")
    return events
