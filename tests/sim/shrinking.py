"""Making a plan short that breaks a sentence: steps are left out, by halves, then one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from tests.sim.plans import Plan, Step


Fails = Callable[[Plan], bool]
"""Whether a plan still breaks a sentence."""


def shrink(plan: Plan, fails: Fails, *, most: int = 200) -> Plan:
    """The shortest plan that is found with so many runs and that still fails."""
    search = _Search(fails, most)
    plan = search.steps(plan)
    # A quiet network and tasks in their usual order, where the failure does not need them.
    for calm in ({"splits": 0.0}, {"reordering": 0.0}, {"delay": 0.002}, {"tail": 1.0}):
        plan = search.better(plan, msgspec.structs.replace(plan, **calm))
    return search.moments(plan)


class _Search:
    def __init__(self, fails: Fails, left: int) -> None:
        self._fails = fails
        self._left = left

    def better(self, plan: Plan, other: Plan) -> Plan:
        """The other plan if it fails, too."""
        if other == plan or self._left <= 0:
            return plan
        self._left -= 1
        return other if self._fails(other) else plan

    def steps(self, plan: Plan) -> Plan:
        """Leave out as many steps as can be."""
        size = max(1, len(plan.steps) // 2)
        while True:
            before = len(plan.steps)
            at = 0
            while at < len(plan.steps):
                kept = plan.steps[:at] + plan.steps[at + size :]
                shorter = self.better(plan, _with(plan, kept))
                # What was left out makes room: the next part begins at the same place.
                at += size if shorter is plan else 0
                plan = shorter
            if size > 1:
                size //= 2
            elif len(plan.steps) == before or self._left <= 0:
                return plan

    def moments(self, plan: Plan) -> Plan:
        """Have what is left begin at once, and pauses end early."""
        for at in range(len(plan.steps)):
            earlier = plan.steps[at - 1].at if at else 0.0
            gap = plan.steps[at].at - earlier
            for pause in (0.0, 1.0, 5.0):
                if pause >= gap:
                    break
                moved = _with(plan, _earlier(plan.steps, at, gap - pause))
                found = self.better(plan, moved)
                if found is moved:
                    plan = found
                    break
        return plan


def _with(plan: Plan, steps: Iterable[Step]) -> Plan:
    return msgspec.structs.replace(plan, steps=tuple(steps))


def _earlier(steps: tuple[Step, ...], first: int, by: float) -> list[Step]:
    return [
        msgspec.structs.replace(step, at=round(step.at - by, 3)) if number >= first else step
        for number, step in enumerate(steps)
    ]
