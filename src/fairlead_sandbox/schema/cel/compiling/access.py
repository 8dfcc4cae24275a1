"""Access to fields, entries and items of objects, maps and lists, optional ones included.

A null field of an object counts as absent, a null entry of a map is a value. Source: "Field
Selection" of the CEL specification, and its optional types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead_sandbox.schema.cel.compiling.calls import no_overload, resolve
from fairlead_sandbox.schema.cel.compiling.compiler import Compiler
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Part, Run, Scope
from fairlead_sandbox.schema.cel.costs import capped
from fairlead_sandbox.schema.cel.declarations import unescape
from fairlead_sandbox.schema.cel.library import FUNCTIONS, TYPES
from fairlead_sandbox.schema.cel.library.core import go_double
from fairlead_sandbox.schema.cel.library.optionals import optional_index
from fairlead_sandbox.schema.cel.syntax import Node
from fairlead_sandbox.schema.cel.types import BOOL, DYN, ERROR, Type, optional_of
from fairlead_sandbox.schema.cel.values import KINDS, NONE, CelError, Optional, frozen


def named_type(node: Node, name: str) -> Part | None:
    """Return the part of a type's name, as a value; None if the name is no type's."""
    value = TYPES.get(name)
    if value is None:
        return None
    return Part(node, Type("type", (DYN,)), lambda _: value, 1, None, (name,), constant=True)


def dotted(node: Node) -> str:
    """Return the name that a chain of selections spells (``net.IP``); "" for other expressions."""
    if node.kind == "ident":
        return node.name
    if node.kind != "select":
        return ""
    before = dotted(node.args[0])
    return f"{before}.{node.name}" if before else ""


def _field_type(compiler: Compiler, target: Part, node: Node, name: str) -> tuple[Type, bool]:
    """Return the type of a field, and whether the target is optional."""
    type_ = compiler.filled(target.type)
    optional = type_.kind == "optional"
    if optional:
        type_ = compiler.filled(type_.params[0])
    if type_.kind == "map":
        return type_.params[1], optional
    if type_.kind == "object":
        declared = type_.fields.get(name)
        if declared is None:
            compiler.issue(f"undefined field '{name}'", node)
            return ERROR, optional
        return declared, optional
    if type_.kind == "param":
        compiler.unifier.accept([DYN], [type_])
    elif type_.kind not in {"dyn", "error"}:
        compiler.issue(f"type '{type_}' does not support field selection", node)
    return DYN, optional


def _no_such_key(name: object) -> CelError:
    return CelError(f"no such key: {name}")


def _field(target: Part, name: str, *, is_map: bool) -> Run:
    """Return the function that reads a field; a null field of an object counts as absent."""
    source, own = target.run, name if is_map else unescape(name)
    # cel-go resolves a chain of selections as one attribute. To begin a chain at a computed value
    # costs 1 more.
    cost = 1 if target.attribute else 2

    def run(frame: Frame) -> Any:
        value = source(frame)
        frame.cost += cost
        if type(value) is not dict:
            raise CelError("no such overload")
        member = value.get(own)
        if member is None and not (is_map and own in value):
            raise _no_such_key(name)
        return member

    return run


_MISSING = object()


def _lookup(target: Type, name: str) -> Callable[[Any], Any]:
    """Return a function that finds a field, or :data:`_MISSING`."""
    nulls = target.kind == "map"
    own = name if nulls else unescape(name)

    def find(value: Any) -> Any:
        if type(value) is not dict:
            raise CelError("no such overload")
        member = value.get(own)
        if member is None and not (nulls and own in value):
            return _MISSING
        return member

    return find


def _target(compiler: Compiler, part: Part) -> Type:
    type_ = compiler.filled(part.type)
    return compiler.filled(type_.params[0]) if type_.kind == "optional" else type_


def select(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``target.field``."""
    name = dotted(node)
    if name in TYPES and name.partition(".")[0] not in scope:
        named = named_type(node, name)
        assert named is not None  # noqa: S101 - it is one of them
        return named
    target = compiler.part(node.args[0], scope)
    type_, optional = _field_type(compiler, target, node, node.name)
    if optional:
        return _optional_field(compiler, node, target, node.name, type_)
    run = _field(target, node.name, is_map=compiler.filled(target.type).kind == "map")
    # As costSelect of cel-go's checker, which charges a selection on these kinds alone.
    estimate = 1 if compiler.filled(target.type).kind in {"map", "object", "param"} else 0
    path = (*(target.path or ()), node.name)
    return Part(
        node, type_, run, capped(target.cost + estimate), None, path, attribute=True, lead=1
    )


def _optional_field(compiler: Compiler, node: Node, target: Part, name: str, type_: Type) -> Part:
    """Compile the selection of a field of an optional target, or of an optional field."""
    source, find = target.run, _lookup(_target(compiler, target), name)
    lead = 0 if target.attribute else 1

    def run(frame: Frame) -> Optional:
        value = source(frame)
        frame.cost += lead
        if isinstance(value, Optional):
            if not value.there:
                return NONE
            value = value.value
        member = find(value)
        if member is _MISSING:
            return NONE
        frame.cost += 1
        return Optional(there=True, value=member)

    estimate = 0 if node.kind == "select" else 1
    cost = capped(target.cost + estimate)
    path = (*(target.path or ()), name) if node.kind == "select" else None
    return Part(node, optional_of(type_), run, cost, None, path, attribute=True, lead=1)


def has(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``has(target.field)``."""
    target = compiler.part(node.args[0], scope)
    _field_type(compiler, target, node, node.name)
    source, find = target.run, _lookup(_target(compiler, target), node.name)
    lead = 0 if target.attribute else 1

    def run(frame: Frame) -> bool:
        value = source(frame)
        frame.cost += lead
        if isinstance(value, Optional):
            value = value.value if value.there else {}
        return find(value) is not _MISSING

    return Part(node, BOOL, run, target.cost)


def index(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``target[key]`` and ``target[?key]``."""
    parts = [compiler.part(arg, scope) for arg in node.args]
    fitting, gives = resolve(compiler, FUNCTIONS[node.name], parts, method=False)
    if not fitting:
        return no_overload(compiler, node, node.name, parts)
    target, key = parts
    optional = node.name == "_[?_]" or compiler.filled(target.type).kind == "optional"
    cost = capped(target.cost + key.cost + 1)
    # cel-go does not charge the lookup of a key that is itself a selection; its lead is taken off.
    runs, lead = (target.run, key.run), (0 if target.attribute else 1) - key.lead
    if optional:
        return Part(node, gives, _optional_at(*runs, lead), cost, attribute=True, lead=1)
    run = _value_at(*runs, lead, declared=bool(target.path))
    step = {"list": "@items", "map": "@values"}.get(compiler.filled(target.type).kind)
    path = (*(target.path or ()), step) if step else None
    size = target.entry.value if target.entry else None
    return Part(node, gives, run, cost, size, path, attribute=True, lead=1)


def _optional_at(target: Run, key: Run, lead: int) -> Run:
    def run(frame: Frame) -> Optional:
        container, at = target(frame), key(frame)
        frame.cost += lead
        item = optional_index(container, at)
        frame.cost += item.there
        return item

    return run


def _value_at(target: Run, key: Run, lead: int, *, declared: bool) -> Run:
    def run(frame: Frame) -> Any:
        container, at = target(frame), key(frame)
        frame.cost += 1 + lead
        if isinstance(container, dict):
            member_key = frozen(at)
            # The keys of a declared map are strings, so another key has no overload.
            if declared and type(at) is not str:
                raise CelError("no such overload")
            if member_key not in container:
                raise _no_such_key(at)
            return container[member_key]
        if not isinstance(container, list):
            raise CelError("no such overload")
        if isinstance(at, float):
            raise CelError(f"unsupported index: {go_double(at)}")
        if type(at) is bool or not isinstance(at, int):
            raise CelError(f"unsupported index type '{KINDS.get(type(at), 'dyn')}' in list")
        if not 0 <= at < len(container):
            raise CelError(f"index out of bounds: {at}")
        return container[at]

    return run


def optional_select(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``target.?field``."""
    target, name = compiler.part(node.args[0], scope), node.args[1].value
    type_, _ = _field_type(compiler, target, node, name)
    return _optional_field(compiler, node, target, name, type_)


def unwrapped(value: Any) -> Optional:
    """Return the value as an optional one.

    Raises:
        CelError: the value is not optional.
    """
    if isinstance(value, Optional):
        return value
    raise CelError("no such overload")


def first_of(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``a.or(b)`` and ``a.orValue(b)``; ``b`` is evaluated only if ``a`` is empty."""
    parts = [compiler.part(arg, scope) for arg in node.args]
    value = compiler.unifier.fresh()
    optional = optional_of(value)
    types = [optional, optional if node.name == "or" else value]
    given = [part.type for part in parts]
    if len(parts) != 2 or not compiler.unifier.accept(given, types):
        return no_overload(compiler, node, node.name, parts, method=True)
    first, second = (part.run for part in parts)
    keeps = node.name == "or"

    def run(frame: Frame) -> Any:
        value = unwrapped(first(frame))
        if value.there:
            return value if keeps else value.value
        return second(frame)

    cost = capped(sum(part.cost for part in parts) + 1)
    return Part(node, compiler.filled(types[1]), run, cost)
