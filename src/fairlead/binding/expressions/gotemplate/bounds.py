"""How much a template may do: it is a tenant's, and has to end."""

from __future__ import annotations

from fairlead.binding.expressions.gotemplate.nodes import TemplateError


SOURCE = 128 * 1024
"""Characters of a template."""
NESTING = 50
"""Parentheses within one another: each level takes a few frames of Python's stack."""
DEPTH = 1_000
"""Templates that call one another."""
STEPS = 100_000
"""Actions, commands, arguments and turns of ``range``."""
OUTPUT = 1024 * 1024
"""Bytes of what is rendered: a Secret holds no more."""
WORK = 4 * 1024 * 1024
"""Bytes of strings and members of lists that functions and comparisons go through."""
ESCAPING = 4
"""What a character costs that is looked at by itself, for ``js`` and ``%q``."""


class BoundError(TemplateError):
    """A bound; the text names it."""


class Budget:
    """What is left of the bounds of one rendering."""

    def __init__(self) -> None:
        self.steps = STEPS
        self.output = OUTPUT
        self.work = WORK

    def step(self) -> None:
        """One step.

        Raises:
            BoundError: it was one too many.
        """
        self.steps -= 1
        if self.steps < 0:
            raise BoundError(f"template takes more than {STEPS} steps")

    def write(self, size: int) -> None:
        """Bytes of output.

        Raises:
            BoundError: they are too many.
        """
        self.output -= size
        if self.output < 0:
            raise BoundError(f"template renders more than {OUTPUT} bytes")

    def spend(self, size: int) -> None:
        """Bytes that a function goes through.

        Raises:
            BoundError: they are too many.
        """
        self.work -= size
        if self.work < 0:
            raise BoundError(f"functions of the template go through more than {WORK} bytes")
