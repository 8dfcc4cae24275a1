"""Operators and calls, checked by the types of their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fairlead.sandbox.schema.cel.equality import equal
from fairlead.sandbox.schema.cel.errors import CelError, CompileError
from fairlead.sandbox.schema.cel.functions import Function, kind_of
from fairlead.sandbox.schema.cel.syntax import Node
from fairlead.sandbox.schema.cel.types import BOOL, DYN, NULL, Type


Env = Mapping[str, Any]
Run = Callable[[Env], Any]


class Typed(NamedTuple):
    """A compiled expression and the type of what it gives."""

    type: Type
    run: Run


def overloaded(node: Node, args: list[Typed], overloads: list[Function]) -> Typed:
    """A call of whichever overload fits; of those that may, the one that fits when it runs."""
    fitting = [one for one in overloads if _fits(one.takes, [arg.type.kind for arg in args])]
    if not fitting:
        raise no_overload(node.name, args, node)
    runs = [arg.run for arg in args]
    if len(fitting) == 1 and all(arg.type.kind != "dyn" for arg in args):
        call = fitting[0].run
        return Typed(fitting[0].gives, lambda env: call(*[run(env) for run in runs]))

    def dispatch(env: Env) -> Any:
        values = [run(env) for run in runs]
        kinds = [kind_of(value) for value in values]
        for one in fitting:
            if _fits(one.takes, kinds):
                return one.run(*values)
        raise CelError("no such overload")

    return Typed(_common(fitting), dispatch)


def _common(functions: list[Function]) -> Type:
    kinds = {one.gives.kind for one in functions}
    return functions[0].gives if len(kinds) == 1 else DYN


def _fits(takes: tuple[str, ...], kinds: list[str]) -> bool:
    if len(takes) != len(kinds):
        return False
    return all(
        kind in {want, "dyn"} or want == "dyn" or (want == "map" and kind == "object")
        for want, kind in zip(takes, kinds, strict=True)
    )


def no_overload(name: str, args: list[Typed], node: Node) -> CompileError:
    """What to say when nothing takes arguments of these types."""
    kinds = ", ".join(arg.type.kind for arg in args)
    return CompileError(
        f"found no matching overload for '{name}' applied to '({kinds})'", node.position
    )


def _equality(node: Node, args: list[Typed]) -> Typed:
    left, right = args
    kinds = {left.type.kind, right.type.kind}
    if len(kinds) > 1 and not kinds & {"dyn", "null"} and kinds != {"map", "object"}:
        raise no_overload(f"_{node.name}_", args, node)
    if "null" in kinds and kinds & {"string", "int", "double", "bool"}:
        raise no_overload(f"_{node.name}_", args, node)
    type_, wanted = left.type, node.name == "=="
    return Typed(BOOL, lambda env: equal(left.run(env), right.run(env), type_) is wanted)


def _membership(node: Node, args: list[Typed]) -> Typed:
    item, container = args
    if container.type.kind not in {"list", "map", "dyn"}:
        raise no_overload("@in", args, node)
    inner = container.type.items if container.type.kind == "list" else DYN
    if {item.type.kind, inner.kind} - {"dyn"} and "dyn" not in {item.type.kind, inner.kind}:
        _equality(node._replace(name="=="), [item, Typed(inner, container.run)])

    def run(env: Env) -> Any:
        value, values = item.run(env), container.run(env)
        if isinstance(values, dict):
            return value in values
        return any(equal(value, other, item.type) for other in values)

    return Typed(BOOL, run)


def _logic(node: Node, args: list[Typed]) -> Typed:
    """``&&`` and ``||``: an error on one side gives way to a decisive other side."""
    for arg in args:
        if arg.type.kind not in {"bool", "dyn"}:
            raise no_overload(f"_{node.name}_", args, node)
    left, right = (arg.run for arg in args)
    decisive = node.name == "||"

    def run(env: Env) -> Any:
        try:
            if left(env) is decisive:
                return decisive
        except CelError:
            if right(env) is decisive:
                return decisive
            raise
        return right(env)

    return Typed(BOOL, run)


def _ternary(node: Node, args: list[Typed]) -> Typed:
    condition, then, other = args
    if condition.type.kind not in {"bool", "dyn"}:
        raise no_overload("_?_:_", args, node)
    kinds = {then.type.kind, other.type.kind} - {"dyn", NULL.kind}
    if len(kinds) > 1:
        raise no_overload("_?_:_", args, node)
    same = then.type.kind == other.type.kind
    return Typed(
        then.type if same else DYN,
        lambda env: then.run(env) if condition.run(env) is True else other.run(env),
    )


SPECIAL: Mapping[str, Callable[[Node, list[Typed]], Typed]] = {
    "==": _equality,
    "!=": _equality,
    "in": _membership,
    "&&": _logic,
    "||": _logic,
    "?:": _ternary,
}
"""Operators whose operands are not all evaluated, or whose types have rules of their own."""
