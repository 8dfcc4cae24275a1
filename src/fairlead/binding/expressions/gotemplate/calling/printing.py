"""``print`` and ``println``: values as Go's ``%v`` shows them, with its rule for spaces."""

from __future__ import annotations

from typing import Any

from fairlead.api.golang.text import go_text
from fairlead.api.golang.values import joined
from fairlead.binding.expressions.gotemplate.bounds import RenderingBudget


def printed(budget: RenderingBudget, *values: Any) -> str:
    """Print values, with a space between two if neither is a string."""
    parts: list[str] = []
    for place, value in enumerate(values):
        if place and not isinstance(value, str) and not isinstance(values[place - 1], str):
            parts.append(" ")
        parts.append(_shown(budget, value))
    return joined(parts)


def printed_line(budget: RenderingBudget, *values: Any) -> str:
    """Print values with spaces between them, and a newline."""
    return joined([" ".join(_shown(budget, value) for value in values), "\n"])


def _shown(budget: RenderingBudget, value: Any) -> str:
    text = go_text(value)
    budget.spend(len(text) + 1)
    return text
