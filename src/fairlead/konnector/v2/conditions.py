"""Conditions of an object of kbind v2, changed one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from fairlead.api.conditions import set_condition
from fairlead.api.kbind import ReportedCondition


class ReportedConditions:
    """The conditions of an object; each change keeps the time of a status that stays.

    Args:
        stored: the conditions in its status.
        generation: generation of the object that is reported on.
        now: the time of changes, in RFC 3339.
    """

    def __init__(self, stored: Iterable[ReportedCondition], generation: int, now: str) -> None:
        self.all = list(stored)
        self._generation = generation
        self._now = now

    def has(self, type_: str) -> bool:
        """Whether there is a condition of a type."""
        return any(condition.type == type_ for condition in self.all)

    def set(self, type_: str, status: Literal["True", "False"], reason: str, message: str) -> None:
        """Set the condition of a type."""
        condition = ReportedCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_transition_time="",
            observed_generation=self._generation,
        )
        self.all = set_condition(self.all, condition, now=self._now)

    def remove(self, type_: str) -> None:
        """Remove the condition of a type, if there is one."""
        self.all = [condition for condition in self.all if condition.type != type_]
