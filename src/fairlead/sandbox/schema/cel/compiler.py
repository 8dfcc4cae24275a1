"""Trees of CEL to functions, with the types checked against the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fairlead.sandbox.schema.cel.equality import equal
from fairlead.sandbox.schema.cel.errors import CelError, CompileError
from fairlead.sandbox.schema.cel.functions import (
    GLOBALS,
    METHODS,
    OPERATORS,
    Function,
    kind_of,
)
from fairlead.sandbox.schema.cel.macros import MACROS, compile_macro
from fairlead.sandbox.schema.cel.syntax import Node, parse
from fairlead.sandbox.schema.cel.types import BOOL, DYN, NULL, Type, unescape
from fairlead.sandbox.schema.regex import compile_regex


Env = Mapping[str, Any]
Run = Callable[[Env], Any]
Scope = Mapping[str, Type]


class Typed(NamedTuple):
    """A compiled expression and the type of what it gives."""

    type: Type
    run: Run


class Program(NamedTuple):
    """A compiled rule; ``transition`` when it speaks of ``oldSelf``."""

    run: Callable[[Any, Any], Any]
    transition: bool


def compile_rule(text: str, self_type: Type, *, gives: str = "bool") -> Program:
    """A rule as a function of (self, oldSelf).

    Raises:
        CompileError: it is no CEL, outside the subset, wrong for the schema, or does not give
            what it should.
    """
    tree = parse(text)
    typed = compile_node(tree, {"self": self_type, "oldSelf": self_type})
    if typed.type.kind not in {gives, "dyn"}:
        raise CompileError(f"must evaluate to a {gives}, not {typed.type.kind}")
    run = typed.run
    return Program(
        lambda value, old: run({"self": value, "oldSelf": old}), _mentions(tree, "oldSelf")
    )


def _mentions(node: Node, name: str) -> bool:
    if node.kind == "ident" and node.name == name:
        return True
    return any(_mentions(arg, name) for arg in node.args)


def compile_node(node: Node, scope: Scope) -> Typed:
    """One expression, its names resolved in ``scope``."""
    return _KINDS[node.kind](node, scope)


def _compile_literal(node: Node, scope: Scope) -> Typed:
    value = node.value
    return Typed(Type(node.name), lambda _: value)


def _compile_ident(node: Node, scope: Scope) -> Typed:
    name = node.name
    if name not in scope:
        raise CompileError(f"undeclared reference to '{name}'", node.position)
    return Typed(scope[name], lambda env: env[name])


def _field(node: Node, scope: Scope) -> tuple[Typed, str, Type]:
    target = compile_node(node.args[0], scope)
    name = node.name
    if target.type.kind == "object":
        name = unescape(name)
        found = target.type.field(name)
        if found is None:
            raise CompileError(f"undefined field '{node.name}'", node.position)
        return target, name, found
    if target.type.kind == "map":
        return target, name, target.type.items
    if target.type.kind == "dyn":
        return target, name, DYN
    raise CompileError(
        f"type '{target.type.kind}' does not support field selection", node.position
    )


def _compile_select(node: Node, scope: Scope) -> Typed:
    target, name, type_ = _field(node, scope)
    source = target.run

    def run(env: Env) -> Any:
        value = source(env)
        if not isinstance(value, dict) or name not in value:
            raise CelError(f"no such key: {name}")
        return value[name]

    return Typed(type_, run)


def _compile_has(node: Node, scope: Scope) -> Typed:
    target, name, _ = _field(node, scope)
    source = target.run

    def run(env: Env) -> Any:
        value = source(env)
        return isinstance(value, dict) and name in value

    return Typed(BOOL, run)


def _compile_index(node: Node, scope: Scope) -> Typed:
    target, key = (compile_node(arg, scope) for arg in node.args)
    if (target.type.kind, key.type.kind) not in {
        ("list", "int"),
        ("map", "string"),
        ("dyn", "int"),
        ("dyn", "string"),
        ("list", "dyn"),
        ("map", "dyn"),
        ("dyn", "dyn"),
    }:
        raise _no_overload("_[_]", [target, key], node)

    def run(env: Env) -> Any:
        value, index = target.run(env), key.run(env)
        if isinstance(value, dict):
            if index not in value:
                raise CelError(f"no such key: {index}")
            return value[index]
        if not isinstance(value, list) or type(index) is not int:
            raise CelError("no such overload")
        if not 0 <= index < len(value):
            raise CelError(f"index out of bounds: {index}")
        return value[index]

    return Typed(target.type.items, run)


def _compile_list(node: Node, scope: Scope) -> Typed:
    items = [compile_node(arg, scope) for arg in node.args]
    kinds = {item.type.kind for item in items}
    names = {"string": "string", "int": "integer", "double": "number", "bool": "boolean"}
    common = names.get(kinds.pop()) if len(kinds) == 1 else None
    schema = {"items": {"type": common} if common else {}}
    return Typed(Type("list", schema), lambda env: [item.run(env) for item in items])


def _compile_call(node: Node, scope: Scope) -> Typed:
    special = _SPECIAL.get(node.name)
    if special is not None and not node.method:
        return special(node, [compile_node(arg, scope) for arg in node.args])
    if node.method and node.name in MACROS:
        return Typed(*compile_macro(node, scope, compile_node))
    args = [compile_node(arg, scope) for arg in node.args]
    table = METHODS if node.method else GLOBALS
    overloads = OPERATORS.get(node.name) if not node.method else None
    overloads = overloads or table.get(node.name)
    if overloads is None:
        message = f"the function '{node.name}' is not supported by this server"
        raise CompileError(message, node.position)
    if node.name == "matches" and node.args[-1].kind == "literal":
        _check_pattern(node.args[-1])
    return _overloaded(node, args, overloads)


def _check_pattern(node: Node) -> None:
    try:
        compile_regex(node.value)
    except (ValueError, TypeError) as error:
        raise CompileError(f"invalid matches argument: {error}", node.position) from None


def _overloaded(node: Node, args: list[Typed], overloads: list[Function]) -> Typed:
    fitting = [one for one in overloads if _fits(one.takes, [arg.type.kind for arg in args])]
    if not fitting:
        raise _no_overload(node.name, args, node)
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


def _no_overload(name: str, args: list[Typed], node: Node) -> CompileError:
    kinds = ", ".join(arg.type.kind for arg in args)
    return CompileError(
        f"found no matching overload for '{name}' applied to '({kinds})'", node.position
    )


def _equality(node: Node, args: list[Typed]) -> Typed:
    left, right = args
    kinds = {left.type.kind, right.type.kind}
    if len(kinds) > 1 and not kinds & {"dyn", "null"} and kinds != {"map", "object"}:
        raise _no_overload(f"_{node.name}_", args, node)
    if "null" in kinds and kinds & {"string", "int", "double", "bool"}:
        raise _no_overload(f"_{node.name}_", args, node)
    type_, wanted = left.type, node.name == "=="
    return Typed(BOOL, lambda env: equal(left.run(env), right.run(env), type_) is wanted)


def _membership(node: Node, args: list[Typed]) -> Typed:
    item, container = args
    if container.type.kind not in {"list", "map", "dyn"}:
        raise _no_overload("@in", args, node)
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
            raise _no_overload(f"_{node.name}_", args, node)
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
        raise _no_overload("_?_:_", args, node)
    kinds = {then.type.kind, other.type.kind} - {"dyn", NULL.kind}
    if len(kinds) > 1:
        raise _no_overload("_?_:_", args, node)
    same = then.type.kind == other.type.kind
    return Typed(
        then.type if same else DYN,
        lambda env: then.run(env) if condition.run(env) is True else other.run(env),
    )


_SPECIAL: Mapping[str, Callable[[Node, list[Typed]], Typed]] = {
    "==": _equality,
    "!=": _equality,
    "in": _membership,
    "&&": _logic,
    "||": _logic,
    "?:": _ternary,
}
_KINDS: Mapping[str, Callable[[Node, Scope], Typed]] = {
    "literal": _compile_literal,
    "ident": _compile_ident,
    "select": _compile_select,
    "has": _compile_has,
    "index": _compile_index,
    "list": _compile_list,
    "call": _compile_call,
}
