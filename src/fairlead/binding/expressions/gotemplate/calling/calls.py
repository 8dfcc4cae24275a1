"""What functions are: what they take, and how they say that it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from fairlead.api.golang.text import go_json
from fairlead.binding.expressions.gotemplate.bounds import Budget


Kind = Literal["value", "any", "string"]
"""How an argument comes: as it is found; as a plain value, None for none; as a string alone."""


class CallError(ValueError):
    """Arguments that do not fit; the text is Go's."""


class Callee(msgspec.Struct, frozen=True):
    """A function: the kinds of its arguments, and of any number that may follow."""

    run: Callable[..., Any]
    fixed: tuple[Kind, ...] = ()
    more: Kind | None = None
    counts: bool = False
    """Whether it is given the budget first, to spend what it writes before it writes it."""

    def fits(self, count: int) -> str:
        """What is wrong with so many arguments, "" when nothing is."""
        wanted = len(self.fixed)
        if self.more is None:
            return f"want {wanted} got {count}" if count != wanted else ""
        return f"want at least {wanted} got {count}" if count < wanted else ""

    def kind(self, place: int) -> Kind:
        """The kind of an argument."""
        return self.fixed[place] if place < len(self.fixed) else self.more or "any"


def of_string(run: Callable[[str], str]) -> Callee:
    """A function from a string to a string."""
    return Callee(run, ("string",))


def _json(budget: Budget, value: Any) -> str:
    if isinstance(value, complex):
        raise CallError("json: unsupported type: complex128")
    text = go_json(value)
    budget.spend(len(text))
    return text


JSON = Callee(_json, ("any",), counts=True)
"""The function ``json`` of mappings."""
