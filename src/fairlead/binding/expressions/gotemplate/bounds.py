"""Bounds of templates, which tenants write."""

from __future__ import annotations

from fairlead.binding.expressions.gotemplate.nodes import TemplateError


SOURCE = 128 * 1024
"""Longest template, or all mappings of a binding together, in characters."""
NESTING = 50
"""Deepest nesting of parentheses: each level takes a few frames of Python's stack."""
DEPTH = 1_000
"""Deepest nesting of template calls."""
STEPS = 100_000
"""Largest number of actions, commands, arguments and iterations of ``range``."""
OUTPUT = 1024 * 1024
"""Largest output, in bytes: a Secret holds no more."""
WORK = 4 * 1024 * 1024
"""Largest number of bytes and members that functions and comparisons process."""
ESCAPING = 4
"""Cost of a character that is processed one by one, for ``js`` and ``%q``, in bytes."""


class BoundError(TemplateError):
    """A bound is exceeded; the text names it."""


class RenderingBudget:
    """The remaining budget of one rendering, or of several that share it."""

    def __init__(self) -> None:
        self.steps = STEPS
        self.output = OUTPUT
        self.work = WORK

    def allow(self, steps: int) -> None:
        """Add steps to the budget."""
        self.steps += steps

    def step(self) -> None:
        """Subtract a step.

        Raises:
            BoundError: no step was left.
        """
        self.steps -= 1
        if self.steps < 0:
            raise BoundError(f"templates take more than {STEPS} steps")

    def write(self, size: int) -> None:
        """Subtract bytes of output.

        Raises:
            BoundError: too few were left.
        """
        self.output -= size
        if self.output < 0:
            raise BoundError(f"templates render more than {OUTPUT} bytes")

    def spend(self, size: int) -> None:
        """Subtract bytes that a function processes.

        Raises:
            BoundError: too few were left.
        """
        self.work -= size
        if self.work < 0:
            raise BoundError(f"functions of templates go through more than {WORK} bytes")
