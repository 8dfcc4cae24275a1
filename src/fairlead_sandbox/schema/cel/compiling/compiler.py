"""The state of compiling one expression, and the way from one expression to those in it.

How an expression of each kind is compiled is handed in (``expressions``), so that each of those
modules may ask for the parts of its expression, and this one needs none of them.
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

    ``kinds`` compiles an expression of each kind; ``root`` declares what the paths of variables
    lead to; ``slots`` is how many variables an evaluation keeps; ``issues`` are what is wrong,
    ``late`` what is only looked for if nothing else is; ``mixed`` allows lists of several types.
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
        """One expression, its names looked up in ``scope``."""
        found = self._kinds[node.kind](self, node, scope)
        if found.size is None:
            found.size = self.size_at(found.type, found.path)
        self.types[id(node)] = found.type
        return found

    def known(self, type_: Type) -> Type:
        """The type with all that is known of its parameters."""
        return self.unifier.known(type_)

    def size_at(self, type_: Type, path: tuple[str, ...] | None) -> Size | None:
        """How large a value at a path of the schema may get, or any of its type."""
        if path:
            declared = self._root.at(path[1:])
            if declared is not None:
                return Size(0, declared.most)
        return scalar_size(self.known(type_))

    def issue(self, message: str, node: Node) -> Part:
        """Something is wrong; the rest is compiled to find more of it."""
        self.issues.append(Issue(message, node.position))
        return Part(node, ERROR, _nothing)

    def wants(self, part: Part, type_: Type) -> None:
        """The part has to be of a type."""
        if not self.unifier.accept([part.type], [type_]):
            shown = self.unifier.known(part.type, free=DYN)
            self.issue(f"expected type '{type_}' but found '{shown}'", part.node)

    def new_slot(self) -> int:
        """A place for one more variable."""
        self.slots += 1
        return self.slots - 1


def _nothing(frame: Frame) -> Any:
    raise CelError("no such overload")


Compile: TypeAlias = Callable[[Compiler, Node, Scope], Part]
"""A function that compiles one expression, its names looked up in the scope."""
