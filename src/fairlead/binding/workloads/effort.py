"""How much one run over a binding may go through of workloads: anyone may note much on theirs."""

from __future__ import annotations

from fairlead.api.jsonpath import Budget, BudgetExhausted
from fairlead.binding.expressions.fixedpath import ProjectionError


MOST_STEPS = 3_000_000
"""Values, items and containers that one run over a binding goes through: less than a second."""


class TooMuchEffortError(ProjectionError):
    """There is more to go through than one binding may take."""


class Effort:
    """What one run over a binding may go through of its workloads and of their records."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.budget = Budget(
            steps,
            "the workloads of the binding, their containers and what is noted on them are more "
            "than one binding can go through: have it select fewer of them, or look for "
            "annotations projection.servicebinding.io/… that no binding has written",
        )

    def spend(self, steps: int) -> None:
        """Go through so much.

        Raises:
            TooMuchEffortError: it is too much.
        """
        try:
            self.budget.spend(steps)
        except BudgetExhausted as error:
            raise TooMuchEffortError(str(error)) from None
