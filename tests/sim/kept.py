"""Plans that have once broken a sentence, and are run again each time: one JSON file for each.

A plan that still breaks it says why in ``broken``: it is reported and fails nothing, nor does its
seed, until the product is mended and the reason is taken out.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.sim.plans import Plan


FOLDER = Path(__file__).parent / "kept"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with what it has shown, and with the reason why it still does; "" if it does not."""

    shows: str
    plan: Plan
    broken: str = ""


def kept() -> dict[str, Kept]:
    """All of them, by the names of their files."""
    return {
        path.stem: msgspec.json.decode(path.read_bytes(), type=Kept)
        for path in sorted(FOLDER.glob("*.json"))
    }


def known_broken() -> dict[tuple[str, str], str]:
    """Names of the kept plans that are known to be broken, by scenario and seed."""
    return {
        (each.plan.scenario, each.plan.seed): name for name, each in kept().items() if each.broken
    }


def keep(name: str, plan: Plan, shows: str, broken: str = "") -> Path:
    """Write a plan to a file of its own."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    made = Kept(shows=shows, plan=plan, broken=broken)
    text = msgspec.json.format(msgspec.json.encode(made), indent=1)
    path.write_bytes(text + b"\n")
    return path
