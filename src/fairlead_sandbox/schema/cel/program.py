"""Compiled rules, which can be evaluated for any number of objects."""

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
    """The value of an evaluation, or its failure, and its cost."""

    value: Any
    cost: int
    error: CelError | CostError | None = None


_START = 15
"""Steps of effort that every evaluation takes at least."""


class Program(NamedTuple):
    """A compiled expression.

    ``cost`` is the worst cost of one evaluation, ``cardinality`` how many values of ``self`` fit
    into one request. ``transition`` is whether the expression uses ``oldSelf``, ``optional``
    whether ``oldSelf`` may be missing. ``steps`` is the least effort of an evaluation.
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
            old: ``oldSelf``; None if there is none.
            effort: the remaining effort for the object.

        Raises:
            ExhaustedError: the effort is spent.
        """
        effort.spend(self.steps)
        before = old
        if self.optional:
            before = NONE if old is None else Optional(there=True, value=old)
        variables = [None] * self.slots
        # Slots 0 and 1 are self and oldSelf; the variables of loops follow.
        variables[:2] = [value, before]
        frame = Frame(variables, effort)
        try:
            result = self.code(frame)
        except (CelError, CostError) as error:
            return Evaluation(None, frame.cost, error)
        # Cheap steps add to the cost without a check, so the sum is checked at the end.
        if frame.cost > PER_EXPRESSION:
            return Evaluation(None, frame.cost, CostError())
        return Evaluation(result, frame.cost)


def compile_rule(
    text: str, declared: Declaration, *, gives: str = "bool", optional: bool = False
) -> Program:
    """Return the program of a rule, or of the expression of its message.

    Args:
        text: the expression.
        declared: the declaration of ``self`` from the schema.
        gives: the kind of value that the expression must have.
        optional: whether ``oldSelf`` may be missing.

    Raises:
        CompileError: the expression is no CEL or does not fit the schema; the text is Kubernetes'.
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
    if walk.filled(part.type).kind != gives:
        raise CompileError.plain(_WRONG[gives])
    return Program(
        part.run,
        walk.slots,
        part.cost,
        # Each value in a request takes its shortest JSON text and a comma.
        MAX_REQUEST // (declared.least + 1),
        _mentions(tree, "oldSelf"),
        optional,
        _START + unpaid(tree),
    )


_WRONG = {
    "bool": "cel expression must evaluate to a bool",
    "string": "messageExpression must evaluate to a string",
}
"""Messages for an expression whose result has the wrong type, by the required type."""


def _mentions(node: Node, name: str) -> bool:
    if node.kind == "ident" and node.name == name:
        return True
    return any(_mentions(arg, name) for arg in node.args)
