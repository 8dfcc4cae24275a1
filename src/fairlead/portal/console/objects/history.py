"""Transitions of conditions that this process saw, for the last changed objects."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from fairlead.api.conditions import Condition
from fairlead.api.reasons.verdict import conditions_of, short
from fairlead.api.timestamps import now
from fairlead.portal.model.timeline import Transition
from fairlead.runtime import Delta


MOST_OBJECTS = 5000
"""Largest number of objects with a history; those that changed longest ago are dropped."""
MOST_TURNS = 30
"""Largest number of kept transitions per object."""


class History:
    """Records transitions of conditions; each replica has its own."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, deque[Transition]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._turns)

    def heard(self, delta: Delta) -> None:
        """Record the transitions of a change, and drop the history of a deleted object."""
        if delta.new is None:
            if delta.old is not None:
                self._turns.pop(delta.old.meta.uid, None)
            return
        # An object that this process sees for the first time: its conditions are no transitions.
        if delta.old is None:
            return
        if turns := turned(conditions_of(delta.old), conditions_of(delta.new), at=now()):
            self._note(delta.new.meta.uid, turns)

    def of(self, uid: str) -> tuple[Transition, ...]:
        """Return an object's transitions, the newest first."""
        return tuple(reversed(self._turns.get(uid, ())))

    def _note(self, uid: str, turns: Iterable[Transition]) -> None:
        self._turns.setdefault(uid, deque(maxlen=MOST_TURNS)).extend(turns)
        self._turns.move_to_end(uid)
        if len(self._turns) > MOST_OBJECTS:
            self._turns.popitem(last=False)


def turned(old: Sequence[Condition], new: Sequence[Condition], *, at: str) -> list[Transition]:
    """Return the transitions in status or reason; ``at`` is used for conditions without a time."""
    before = {one.type: one for one in old}
    turns: list[Transition] = []
    for one in new:
        was = before.get(one.type)
        if was is not None and (was.status, was.reason) == (one.status, one.reason):
            continue
        turns.append(
            Transition(
                short(one.type),
                one.status,
                short(one.reason),
                short(one.message),
                short(one.last_transition_time) or at,
                was.status if was is not None else "",
            )
        )
    return turns
