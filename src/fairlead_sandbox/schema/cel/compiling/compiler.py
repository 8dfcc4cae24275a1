"""The state of compiling one expression, and the step from an expression to its arguments.

``expressions`` passes in the function for each kind of expression, so that this module depends on
none of them and each of them can compile its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fairlead_sandbox.schema.cel.compiling.parts import Frame, Part, Scope
from fairlead_sandbox.schema.cel.costs import Size, scalar_size
from fairlead_sandbox.schema.cel.declarations import Declaration
from fairlead_sandbox.schema.cel.syntax import Issue, Node
from fairlead_sandbox.schema.cel.types import DYN, ERROR, Type, Unifier
from fairlead_sandbox.schema.cel.values import CelError


class Compiler:
    """Compiles one expression.

    ``kinds`` compiles an expression of each kind, ``root`` declares the schema that paths of
    variables lead into, ``slots`` is the number of variables in an evaluation. ``issues`` are the
    errors, ``late`` those that are reported only without other errors, ``mixed`` allows lists of
    several types.
    """

    def __init__(self, kinds: Mapping[str, Compile], root: Declaration, slots: int) -> None:
        self.unifier = Unifier()
        self.issues: list[Issue] = []
        self.late: list[Issue] = []
        self.slots = slots
        self.types: dict[int, Type] = {}
        self.mixed = False
        self._kinds = kinds
        self._root = root

    def part(self, node: Node, scope: Scope) -> Part:
        """Compile one expression, with its names looked up in ``scope``."""
        part = self._kinds[node.kind](self, node, scope)
        if part.size is None:
            part.size = self.size_at(part.type, part.path)
        # By id, because the hash of a node walks its whole subtree. compile_rule keeps the tree
        # alive.
        self.types[id(node)] = part.type
        return part

    def filled(self, type_: Type) -> Type:
        """Return the type with its known type parameters filled in."""
        return self.unifier.filled(type_)

    def size_at(self, type_: Type, path: tuple[str, ...] | None) -> Size | None:
        """Return the largest size of a value at a path of the schema, or of its type."""
        if path:
            declared = self._root.at(path[1:])
            if declared is not None:
                return Size(0, declared.most)
        return scalar_size(self.filled(type_))

    def issue(self, message: str, node: Node) -> Part:
        """Report an error and return a part of type error, so that more errors are found."""
        self.issues.append(Issue(message, node.position))
        return Part(node, ERROR, _nothing)

    def wants(self, part: Part, type_: Type) -> None:
        """Report an error unless the part has the type."""
        if not self.unifier.accept([part.type], [type_]):
            shown = self.unifier.filled(part.type, free=DYN)
            self.issue(f"expected type '{type_}' but found '{shown}'", part.node)

    def new_slot(self) -> int:
        """Return the index of one more variable."""
        self.slots += 1
        return self.slots - 1


def _nothing(frame: Frame) -> Any:
    raise CelError("no such overload")


Compile: TypeAlias = Callable[[Compiler, Node, Scope], Part]
"""Compiles one expression, with its names looked up in the scope."""
