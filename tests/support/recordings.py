"""Recorded exchanges of a front door, and how answers are held against them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec


_FOLDER = Path(__file__).parents[1] / "integration" / "portal" / "recorded"
ORIGINALS = ("kubectl-bind-cli", "Go-http-client/1.1")
"""What the original's command line calls itself; the latter where it signs in."""


class Asked(msgspec.Struct, frozen=True):
    """A recorded request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Answered(msgspec.Struct, frozen=True):
    """A recorded answer."""

    status: int
    headers: dict[str, str]
    location: dict[str, str] | None
    body: Any


class Exchange(msgspec.Struct, frozen=True):
    """A line of a recording."""

    by: str
    request: Asked
    answer: Answered

    @property
    def name(self) -> str:
        """For the id of a test."""
        return f"{self.request.method}-{self.request.path}-{self.answer.status}"

    @property
    def original(self) -> bool:
        """Whether the original's command line has asked."""
        return self.request.headers.get("User-Agent") in ORIGINALS


def recording(name: str) -> list[Exchange]:
    """The exchanges of a file."""
    lines = (_FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Exchange) for line in lines]


def filled(value: Any, known: Mapping[str, str]) -> Any:
    """A recorded value with these in the place of placeholders."""
    text = json.dumps(value)
    for placeholder, stands_for in known.items():
        text = text.replace(placeholder, json.dumps(stands_for)[1:-1])
    return json.loads(text)


def lacking(expected: Any, found: Any, where: str = "") -> Iterator[str]:
    """The fields of a recorded value that another one has not, or of another type.

    What is there besides is no matter: readers ignore what they do not know.
    """
    match expected, found:
        case dict(), dict():
            for name, value in expected.items():
                place = f"{where}.{name}".removeprefix(".")
                if name not in found:
                    yield place
                else:
                    yield from lacking(value, found[name], place)
        case list(), list():
            if len(expected) > len(found):
                yield f"{where}[]"
            for one, other in zip(expected, found, strict=False):
                yield from lacking(one, other, f"{where}[]")
        case _:
            if type(expected) is not type(found) or (
                isinstance(expected, str | int)
                and not (isinstance(expected, str) and "<" in expected)
                and expected != found
            ):
                yield f"{where}: {found!r}"
