"""The golden statuses of kbind v2's kinds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec


_FILE = Path(__file__).parents[1] / "golden" / "kbind.jsonl"


class _Input(msgspec.Struct):
    kind: str


class _Expect(msgspec.Struct):
    conditions: list[tuple[str, str, str]]


class _Line(msgspec.Struct):
    id: str
    input: _Input
    expect: _Expect


class GoldenStatus(msgspec.Struct, frozen=True):
    """Kind of an object in one of its states, and its conditions as type, status and reason."""

    kind: str
    conditions: list[tuple[str, str, str]]


@cache
def golden_statuses() -> dict[str, GoldenStatus]:
    """Return the statuses by the names of their states."""
    lines = msgspec.json.Decoder(_Line).decode_lines(_FILE.read_bytes())
    return {line.id: GoldenStatus(line.input.kind, line.expect.conditions) for line in lines}
