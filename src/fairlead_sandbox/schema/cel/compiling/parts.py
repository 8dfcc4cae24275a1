"""Compiled expressions, and the state of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.costs import UNKNOWN, Entry, Size
from fairlead_sandbox.schema.cel.syntax import Node
from fairlead_sandbox.schema.cel.types import Type
from fairlead_sandbox.schema.effort import Effort


class Frame:
    """The state of one evaluation: its variables, and its cost so far."""

    __slots__ = ("cost", "effort", "vars")

    def __init__(self, variables: list[Any], effort: Effort) -> None:
        self.vars = variables
        self.cost = 0
        self.effort = effort


Run = Callable[[Frame], Any]
"""Evaluates an expression in a frame and adds its cost."""


@dataclass(slots=True)
class Part:
    """A compiled expression.

    ``cost`` is its worst cost and ``size`` the size of its value, if known; ``entry`` has the
    sizes in a list or map that the rule itself makes; ``path`` leads to the declaration in the
    schema. A ``constant`` has the same value in every evaluation. An ``attribute`` only reads a
    variable, field or item; ``lead`` is the cost that Kubernetes leaves out if it is a branch of
    ``?:``.
    """

    node: Node
    type: Type
    run: Run
    cost: int = 0
    size: Size | None = None
    path: tuple[str, ...] | None = None
    entry: Entry | None = None
    constant: bool = False
    attribute: bool = False
    lead: int = 0

    @property
    def sized(self) -> Size:
        """The size, or :data:`UNKNOWN`."""
        return self.size or UNKNOWN


def unpaid(node: Node) -> int:
    """Return the number of an expression's steps without a cost: literals, ``&&``, ``has()``."""
    return _idle(node) // 2


def _idle(node: Node) -> int:
    own = node.kind not in {"ident", "select"} and (node.kind != "call" or node.name in _FREE)
    return own + sum(map(_idle, node.args))


_FREE = frozenset({"_&&_", "_||_", "_?_:_", "@in", "or", "orValue"})
"""Functions whose calls cost nothing themselves."""


class Variable(NamedTuple):
    """A name in scope: its slot in the frame, its type and its size."""

    slot: int
    type: Type
    path: tuple[str, ...] | None = None
    size: Size | None = None
    entry: Entry | None = None


Scope = Mapping[str, Variable]
"""Variables by name."""
