"""Trees of CEL to functions, with the types checked against the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fairlead.sandbox.schema.cel.errors import CelError, CompileError
from fairlead.sandbox.schema.cel.functions import GLOBALS, METHODS, OPERATORS
from fairlead.sandbox.schema.cel.macros import MACROS, compile_macro
from fairlead.sandbox.schema.cel.operators import SPECIAL, Env, Typed, no_overload, overloaded
from fairlead.sandbox.schema.cel.syntax import Node, parse
from fairlead.sandbox.schema.cel.types import BOOL, DYN, Type, unescape
from fairlead.sandbox.schema.patterns import compile_pattern


Scope = Mapping[str, Type]


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
        raise no_overload("_[_]", [target, key], node)

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
    special = SPECIAL.get(node.name)
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
    return overloaded(node, args, overloads)


def _check_pattern(node: Node) -> None:
    try:
        compile_pattern(node.value)
    except (ValueError, TypeError) as error:
        raise CompileError(f"invalid matches argument: {error}", node.position) from None


_KINDS: Mapping[str, Callable[[Node, Scope], Typed]] = {
    "literal": _compile_literal,
    "ident": _compile_ident,
    "select": _compile_select,
    "has": _compile_has,
    "index": _compile_index,
    "list": _compile_list,
    "call": _compile_call,
}
