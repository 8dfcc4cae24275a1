"""Compiled expressions, and what an evaluation of them needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.costs import UNKNOWN, Entry, Size
from fairlead_sandbox.schema.cel.syntax import Node
from fairlead_sandbox.schema.cel.types import Type
from fairlead_sandbox.schema.effort import Effort


class Frame:
    """The state of one evaluation: its variables, and what it has cost so far."""

    __slots__ = ("cost", "effort", "vars")

    def __init__(self, variables: list[Any], effort: Effort) -> None:
        self.vars = variables
        self.cost = 0
        self.effort = effort


Run = Callable[[Frame], Any]


@dataclass(slots=True)
class Part:
    """A compiled expression, as a part of a larger one.

    ``cost`` is the worst there is, ``size`` the value's if it can be told, ``entry`` that of what
    is in a list or map which the rule itself makes; ``path`` leads to its declaration. A
    ``constant`` has one value in every evaluation. An ``attribute`` only looks something up;
    ``lead`` is what Kubernetes forgets to count of it when it is a branch of ``?:``.
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
        """The size, or that it is unknown."""
        return self.size or UNKNOWN


def unpaid(node: Node) -> int:
    """The steps of an expression's evaluation that cost nothing: literals, ``&&``, ``has()``."""
    return _idle(node) // 2


def _idle(node: Node) -> int:
    own = node.kind not in {"ident", "select"} and (node.kind != "call" or node.name in _FREE)
    return own + sum(map(_idle, node.args))


_FREE = frozenset({"_&&_", "_||_", "_?_:_", "@in", "or", "orValue"})


class Variable(NamedTuple):
    """A name in scope: where its value is kept, its type, and how large it is."""

    slot: int
    type: Type
    path: tuple[str, ...] | None = None
    size: Size | None = None
    entry: Entry | None = None


Scope = Mapping[str, Variable]
