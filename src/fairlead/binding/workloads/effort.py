"""The budget of a pass for reading workloads, whose annotations any editor can make large."""

from __future__ import annotations

from fairlead.api.jsonpath import Budget, BudgetExhausted
from fairlead.binding.expressions.fixedpath import ProjectionError


MOST_STEPS = 3_000_000
"""Largest number of values, items and containers per pass: less than a second of work."""


class TooMuchEffortError(ProjectionError):
    """The budget of a binding is exceeded."""


class BindingEffort:
    """The budget of a pass for its workloads and their records."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.budget = Budget(
            steps,
            "the workloads of the binding, with their containers and annotations, are too many "
            "for one binding: have it select fewer of them, or look for annotations "
            "projection.servicebinding.io/… that no binding wrote",
        )

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget.

        Raises:
            TooMuchEffortError: the budget is exceeded.
        """
        try:
            self.budget.spend(steps)
        except BudgetExhausted as error:
            raise TooMuchEffortError(str(error)) from None
