"""A rule, compiled to be run for one object after another."""

from __future__ import annotations

from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.compiling import (
    Frame,
    InstantiationError,
    Run,
    Variable,
    compiler,
    unpaid,
)
from fairlead_sandbox.schema.cel.costs import PER_EXPRESSION
from fairlead_sandbox.schema.cel.declarations import MAX_REQUEST, Declaration
from fairlead_sandbox.schema.cel.syntax import CompileError, Node, parse
from fairlead_sandbox.schema.cel.types import optional_of
from fairlead_sandbox.schema.cel.values import NONE, CelError, CostError, Optional
from fairlead_sandbox.schema.effort import Effort


class Evaluation(NamedTuple):
    """The value of an evaluation or its failure, and its cost."""

    value: Any
    cost: int
    error: CelError | CostError | None = None


_START = 15
"""Steps that every evaluation takes, however little it does."""


class Program(NamedTuple):
    """A compiled expression.

    ``cost`` is the worst of one evaluation, ``cardinality`` how many of its values fit into one
    request, ``transition`` whether it speaks of ``oldSelf``; ``optional`` whether that may be
    missing; ``steps`` are what an evaluation takes at least.
    """

    code: Run
    slots: int
    cost: int
    cardinality: int
    transition: bool
    optional: bool
    steps: int

    def run(self, value: Any, old: Any, effort: Effort) -> Evaluation:
        """Evaluate the expression.

        Args:
            value: ``self``, in values of CEL.
            old: ``oldSelf``; None when there is none.
            effort: what the check of the object has left.

        Raises:
            ExhaustedError: nothing is left.
        """
        effort.spend(self.steps)
        before = old
        if self.optional:
            before = NONE if old is None else Optional(there=True, value=old)
        variables = [None] * self.slots
        variables[:2] = [value, before]
        frame = Frame(variables, effort)
        try:
            found = self.code(frame)
        except (CelError, CostError) as error:
            return Evaluation(None, frame.cost, error)
        # The cheap steps only count; what they came to in the end is compared here.
        if frame.cost > PER_EXPRESSION:
            return Evaluation(None, frame.cost, CostError())
        return Evaluation(found, frame.cost)


def compile_rule(
    text: str, declared: Declaration, *, gives: str = "bool", optional: bool = False
) -> Program:
    """A rule, or the expression of a message, as a program.

    Args:
        text: the expression.
        declared: what the schema declares of ``self``.
        gives: the kind of value that it has to give.
        optional: whether ``oldSelf`` may be missing.

    Raises:
        CompileError: it is no CEL, or wrong for the schema; the text is Kubernetes'.
    """
    tree = parse(text)
    walk = compiler(declared, slots=2)
    old = optional_of(declared.type) if optional else declared.type
    scope = {
        "self": Variable(0, declared.type, ("self",)),
        "oldSelf": Variable(1, old, ("oldSelf",)),
    }
    try:
        part = walk.part(tree, scope)
    except InstantiationError as error:
        raise CompileError.plain(f"program instantiation failed: {error}") from None
    if walk.issues or walk.late:
        raise CompileError(text, walk.issues or walk.late)
    if walk.known(part.type).kind != gives:
        raise CompileError.plain(_WRONG[gives])
    return Program(
        part.run,
        walk.slots,
        part.cost,
        MAX_REQUEST // (declared.least + 1),
        _mentions(tree, "oldSelf"),
        optional,
        _START + unpaid(tree),
    )


_WRONG = {
    "bool": "cel expression must evaluate to a bool",
    "string": "messageExpression must evaluate to a string",
}


def _mentions(node: Node, name: str) -> bool:
    if node.kind == "ident" and node.name == name:
        return True
    return any(_mentions(arg, name) for arg in node.args)
