"""Plans that have once broken a sentence, and are run again each time: one JSON file for each."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.sim.plans import Plan


FOLDER = Path(__file__).parent / "kept"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with what it has shown."""

    shows: str
    plan: Plan


def kept() -> dict[str, Kept]:
    """All of them, by the names of their files."""
    return {
        path.stem: msgspec.json.decode(path.read_bytes(), type=Kept)
        for path in sorted(FOLDER.glob("*.json"))
    }


def keep(name: str, plan: Plan, shows: str) -> Path:
    """Write a plan to a file of its own."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    text = msgspec.json.format(msgspec.json.encode(Kept(shows=shows, plan=plan)), indent=1)
    path.write_bytes(text + b"\n")
    return path
