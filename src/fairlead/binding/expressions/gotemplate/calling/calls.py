"""The type of functions: their arguments and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from fairlead.api.golang.text import go_json
from fairlead.binding.expressions.gotemplate.bounds import RenderingBudget


Kind = Literal["value", "any", "string"]
"""Form of an argument: as found; as a plain value, None for no value; or only a string."""


class CallError(ValueError):
    """Invalid arguments; the text is Go's."""


class Callee(msgspec.Struct, frozen=True):
    """A function: the kinds of its fixed arguments, and of any further ones."""

    run: Callable[..., Any]
    fixed: tuple[Kind, ...] = ()
    more: Kind | None = None
    counts: bool = False
    """Whether its first argument is the budget, to subtract the output before creating it."""

    def fits(self, count: int) -> str:
        """Return the error for a number of arguments, "" if it is valid."""
        least = len(self.fixed)
        if self.more is None:
            return f"want {least} got {count}" if count != least else ""
        return f"want at least {least} got {count}" if count < least else ""

    def kind(self, place: int) -> Kind:
        """Return the kind of an argument."""
        return self.fixed[place] if place < len(self.fixed) else self.more or "any"


def of_string(run: Callable[[str], str]) -> Callee:
    """Return the callee of a function from a string to a string."""
    return Callee(run, ("string",))


def _json(budget: RenderingBudget, value: Any) -> str:
    # Literals may be complex in templates (1i); encoding/json has no form for these.
    if isinstance(value, complex):
        raise CallError("json: unsupported type: complex128")
    text = go_json(value)
    budget.spend(len(text))
    return text


JSON = Callee(_json, ("any",), counts=True)
"""The function ``json`` of mappings."""
