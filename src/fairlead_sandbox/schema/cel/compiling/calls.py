"""Calls of functions: choice of overloads, cost, and the function that makes the call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead_sandbox.schema.cel.compiling.compiler import Compiler
from fairlead_sandbox.schema.cel.compiling.literals import InstantiationError, check_literals
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Part, Run
from fairlead_sandbox.schema.cel.costs import (
    EQUALITY,
    ONE,
    PER_EXPRESSION,
    Estimate,
    EstimatedCall,
    Size,
    capped,
)
from fairlead_sandbox.schema.cel.library import FUNCTIONS, Overload
from fairlead_sandbox.schema.cel.syntax import Node
from fairlead_sandbox.schema.cel.types import BOOL, DYN, Type
from fairlead_sandbox.schema.cel.values import KINDS, CelError, CostError, frozen
from fairlead_sandbox.schema.effort import Effort


_FOLDED = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int"} | {"string", "timestamp", "type", "uint"}
)
"""Conversions that are evaluated at compile time if their argument is constant."""


def constant(part: Part) -> Any:
    """Return the value of a constant part."""
    return part.run(Frame([], Effort()))


def invoke(
    compiler: Compiler, node: Node, name: str, parts: list[Part], *, method: bool = False
) -> Part:
    """Compile a call with the overloads that accept the arguments."""
    fitting, gives = resolve(compiler, FUNCTIONS[name], parts, method=method)
    if not fitting:
        return no_overload(compiler, node, name, parts, method=method)
    if name == "@in" and _is_written_down(parts[1]):
        return _member(compiler, node, fitting, parts)
    check_literals(compiler, name, parts, method=method)
    estimate = _estimate(compiler, fitting, parts)
    cost = capped(sum(part.cost for part in parts) + estimate.cost)
    part = Part(node, gives, _caller(compiler, fitting, parts), cost, estimate.size)
    if name == "dyn":
        part.size, part.entry = parts[0].size, parts[0].entry
    if name == "_+_" and parts[0].entry and parts[1].entry:
        part.entry = parts[0].entry.union(parts[1].entry)
    # Not after an error, because a part with an error has no value.
    folds = name in _FOLDED and parts[0].constant and not (compiler.issues or compiler.late)
    return folded(part) if folds else part


def _is_written_down(part: Part) -> bool:
    """Whether the part is a list literal of constant scalars."""
    if not part.constant or part.node.kind != "list":
        return False
    return not any(isinstance(value, list | dict) for value in constant(part))


def _member(
    compiler: Compiler, node: Node, fitting: Sequence[Overload], parts: Sequence[Part]
) -> Part:
    """Compile ``value in [literals]`` as a lookup in a set, which costs nothing."""
    estimate = capped(_estimate(compiler, fitting, parts).cost + parts[0].cost + parts[1].cost)
    constants = frozenset(frozen(value) for value in constant(parts[1]))
    item = parts[0].run
    if not constants:
        return Part(node, BOOL, lambda _: False, estimate)
    return Part(node, BOOL, lambda frame: frozen(item(frame)) in constants, estimate)


def folded(part: Part) -> Part:
    """Return the constant part with its value computed once.

    Raises:
        InstantiationError: the evaluation always fails.
    """
    try:
        value = constant(part)
    except CelError as error:
        raise InstantiationError(str(error)) from None
    part.run, part.constant = (lambda _: value), True
    return part


def resolve(
    compiler: Compiler, overloads: Sequence[Overload], parts: Sequence[Part], *, method: bool
) -> tuple[list[Overload], Type]:
    """Return the overloads that accept these parts, and the type of the call's result."""
    given = [part.type for part in parts]
    fitting: list[Overload] = []
    gives = DYN
    for overload in overloads:
        if overload.signature.method is not method or len(overload.signature.takes) != len(given):
            continue
        result, *takes = compiler.unifier.renamed(
            [overload.signature.gives, *overload.signature.takes]
        )
        if not compiler.unifier.accept(given, takes):
            continue
        type_ = compiler.filled(result)
        # By the CEL specification a call has type dyn if overloads with different results fit.
        gives = type_ if not fitting or gives == type_ else DYN
        fitting.append(overload)
    return fitting, gives


def no_overload(
    compiler: Compiler, node: Node, name: str, parts: Sequence[Part], *, method: bool = False
) -> Part:
    """Report that no overload accepts arguments of these types."""
    shown = [str(compiler.unifier.filled(part.type, free=DYN)) for part in parts]
    inner = ", ".join(shown[1:] if method else shown)
    applied = f"{shown[0]}.({inner})" if method else f"({inner})"
    return compiler.issue(f"found no matching overload for '{name}' applied to '{applied}'", node)


def _estimate(
    compiler: Compiler, overloads: Sequence[Overload], parts: Sequence[Part]
) -> Estimate:
    """Return the highest estimate of the overloads."""
    call = EstimatedCall(parts, compiler.size_at)
    estimates = [one.price.estimate(call) for one in overloads]
    sizes = [one.size for one in estimates if one.size is not None]
    return Estimate(max(one.cost for one in estimates), union(sizes))


def _caller(compiler: Compiler, overloads: Sequence[Overload], parts: Sequence[Part]) -> Run:
    kinds = {compiler.filled(part.type).kind for part in parts}
    runs = [part.run for part in parts]
    if len(overloads) == 1 or not kinds & {"dyn", "param", "error"}:
        return _direct(overloads[0], runs)

    def run(frame: Frame) -> Any:
        values = [one(frame) for one in runs]
        for overload in overloads:
            if all(map(_fits, overload.signature.takes, values)):
                return _charged(frame, overload, values)
        frame.cost += 1
        raise CelError("no such overload")

    return run


def _fits(type_: Type, value: Any) -> bool:
    kind = KINDS.get(type(value))
    return type_.kind in {"dyn", "param"} or kind in {type_.kind, type_.name}


def _direct(overload: Overload, runs: Sequence[Run]) -> Run:
    """Return the call of one overload; the common forms are spelled out for speed."""
    call = overload.run
    if overload.price is EQUALITY:
        return _comparison(overload, *runs)
    if overload.price is not ONE or overload.counted or overload.steps or len(runs) not in {1, 2}:
        return lambda frame: _charged(frame, overload, [run(frame) for run in runs])
    if len(runs) == 1:
        (only,) = runs

        def unary(frame: Frame) -> Any:
            value = only(frame)
            frame.cost += 1
            try:
                return call(value)
            except (TypeError, AttributeError):
                raise CelError("no such overload") from None

        return unary
    first, second = runs

    def binary(frame: Frame) -> Any:
        left, right = first(frame), second(frame)
        frame.cost += 1
        try:
            return call(left, right)
        except (TypeError, AttributeError):
            raise CelError("no such overload") from None

    return binary


_AT_ONCE = frozenset({int, float, bool, type(None)})
"""Types whose ``==`` costs 1."""


def _comparison(overload: Overload, left: Run, right: Run) -> Run:
    """Return the call of ``==`` or ``!=``, with a fast path for strings and scalars."""
    is_equal = overload.signature.name == "_==_"

    def run(frame: Frame) -> Any:
        first, other = left(frame), right(frame)
        kind = type(first)
        if kind is type(other):
            if kind is str:
                # CEL charges a comparison of strings 0.1 per character, rounded up
                # (costs.EQUALITY).
                frame.cost += -(-min(len(first), len(other)) // 10)
                return (first == other) is is_equal
            if kind in _AT_ONCE:
                frame.cost += 1
                return (first == other) is is_equal
        return _charged(frame, overload, [first, other])

    return run


def _charged(frame: Frame, overload: Overload, values: list[Any]) -> Any:
    """Charge a call's cost, then make the call."""
    frame.cost += overload.price.actual(values)
    if frame.cost > PER_EXPRESSION:
        raise CostError
    if overload.steps:
        frame.effort.spend(overload.steps)
    try:
        if overload.counted:
            return overload.run(frame.effort, *values)
        return overload.run(*values)
    except (TypeError, AttributeError):
        # An argument of type dyn may be of a type that this overload does not accept.
        raise CelError("no such overload") from None


def union(sizes: Sequence[Size]) -> Size | None:
    """Return the size that covers all sizes; None for none."""
    joined = None
    for size in sizes:
        joined = size if joined is None else joined.union(size)
    return joined
