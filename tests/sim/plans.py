"""Plans: what is done in a simulation, step by step, each with dice of its own.

A seed makes a plan, and the plan alone decides what happens: shrinking leaves steps out, and those
that are left throw what they threw before.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec


STEPS = (40, 60)
"""How many steps a plan has."""
SECONDS = (0.05, 12.0)
"""How long it may be from one step to the next."""

WORLDS = 4
"""Beginnings that plans have."""


class Step(msgspec.Struct, frozen=True):
    """One step: an operation or a fault by its name, when (simulated seconds), and its dice."""

    kind: str
    at: float
    dice: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps, and what the network and the loop do meanwhile.

    ``delay`` is the most seconds a message takes, ``splits`` the share of messages that arrive in
    two pieces, ``reordering`` the share of the loop's passes in which tasks change their order.
    ``tail`` is how many seconds after the last step those faults are ended that still last.
    ``world`` is the seed of the beginning, which plans share: a world is made once for many.
    """

    scenario: str
    seed: str
    steps: tuple[Step, ...]
    world: int = 0
    tail: float = 1.0
    delay: float = 0.002
    splits: float = 0.0
    reordering: float = 0.0
    options: dict[str, str] = {}


def make_plan(
    scenario: str, seed: str, operations: Mapping[str, float], faults: Mapping[str, float]
) -> Plan:
    """A plan for a seed; operations and faults come with their weights.

    Each plan has half of the kinds of faults: one that happens all the time would hide what
    another shows.
    """
    dice = Random(f"{seed}/{scenario}/plan")
    some = dice.sample(sorted(faults), k=max(1, (len(faults) + 1) // 2))
    steps: list[Step] = []
    moment = 0.0
    share = dice.choice((0.15, 0.3, 0.5))
    for _ in range(dice.randint(*STEPS)):
        # Some steps come at once, others when all is quiet again.
        moment += dice.uniform(*SECONDS) if dice.random() < 0.5 else dice.uniform(0.0, 0.2)
        kinds = {one: faults[one] for one in some} if dice.random() < share else operations
        kind = dice.choices(list(kinds), weights=list(kinds.values()))[0]
        steps.append(Step(kind, round(moment, 3), dice.getrandbits(32)))
    return Plan(
        scenario=scenario,
        seed=seed,
        steps=tuple(steps),
        world=dice.randrange(WORLDS),
        tail=dice.choice((1.0, 1.0, 1.0, 60.0, 600.0)),
        delay=dice.choice((0.002, 0.002, 0.05, 0.5)),
        splits=dice.choice((0.0, 0.0, 0.2)),
        reordering=dice.choice((0.0, 0.0, 0.3)),
    )
