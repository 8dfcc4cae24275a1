"""Compilation of expressions: literals, names, lists, maps and operators; calls by their name.

One walk over the tree gives each expression its type, its worst cost, and a function of the
evaluation's :class:`~fairlead_sandbox.schema.cel.compiling.parts.Frame` that counts the actual
cost. Source: "Type Checking" and "Evaluation" of the CEL specification;
:mod:`fairlead_sandbox.schema.cel.costs` has the price of each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead_sandbox.schema.cel.compiling import access, macros
from fairlead_sandbox.schema.cel.compiling.access import dotted, named_type, unwrapped
from fairlead_sandbox.schema.cel.compiling.calls import (
    constant,
    folded,
    invoke,
    no_overload,
    union,
)
from fairlead_sandbox.schema.cel.compiling.compiler import Compile, Compiler
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Part, Scope
from fairlead_sandbox.schema.cel.costs import NEW_LIST, NEW_MAP, Entry, Size, capped
from fairlead_sandbox.schema.cel.declarations import Declaration
from fairlead_sandbox.schema.cel.library import FUNCTIONS
from fairlead_sandbox.schema.cel.syntax import Issue, Node
from fairlead_sandbox.schema.cel.types import (
    BOOL,
    DYN,
    Type,
    less_specific,
    list_of,
    map_of,
    optional_of,
)
from fairlead_sandbox.schema.cel.values import CelError, frozen


def _literal(compiler: Compiler, node: Node, scope: Scope) -> Part:
    value = node.value
    size = Size(len(value), len(value)) if isinstance(value, str | bytes) else Size(1, 1)
    return Part(node, Type(node.name), lambda _: value, 0, size, constant=True)


def _ident(compiler: Compiler, node: Node, scope: Scope) -> Part:
    variable = scope.get(node.name)
    if variable is None:
        named = named_type(node, node.name)
        text = f"undeclared reference to '{node.name}' (in container '')"
        return named or compiler.issue(text, node)
    slot = variable.slot

    def run(frame: Frame) -> Any:
        frame.cost += 1
        return frame.vars[slot]

    # The schema's limit for the path takes precedence over the size of the variable.
    size = compiler.size_at(variable.type, variable.path) or variable.size
    return Part(
        node, variable.type, run, 1, size, variable.path, variable.entry, attribute=True, lead=1
    )


def _list(compiler: Compiler, node: Node, scope: Scope) -> Part:
    parts = [compiler.part(arg, scope) for arg in node.args]
    items = _joined(compiler, parts, node.value)
    sizes = [part.sized for part in parts]
    inner = union(sizes) or Size(0, 0)
    size, entry = Size(len(parts), len(parts)), Entry("list", Size(1, 1), inner)
    cost = capped(sum(part.cost for part in parts) + NEW_LIST)
    if all(part.constant for part in parts) and not any(node.value):
        value = [constant(part) for part in parts]
        return Part(node, list_of(items), lambda _: value, cost, size, None, entry, constant=True)
    pairs = [(part.run, optional) for part, optional in zip(parts, node.value, strict=True)]

    def run(frame: Frame) -> list[Any]:
        items = []
        for item, optional in pairs:
            value = item(frame)
            if not optional:
                items.append(value)
            elif unwrapped(value).there:
                items.append(value.value)
        frame.cost += NEW_LIST
        return items

    return Part(node, list_of(items), run, cost, size, None, entry)


def _joined(
    compiler: Compiler, parts: Sequence[Part], optional: Sequence[bool], *, every: bool = False
) -> Type:
    """Return the common type of all elements, and report those of another type.

    All of them are reported with ``every``, otherwise only the first.
    """
    joined: Type | None = None
    several = False
    for part, may_lack in zip(parts, optional, strict=True):
        type_ = compiler.filled(part.type)
        if may_lack and type_.kind == "optional":
            type_ = compiler.filled(type_.params[0])
        elif may_lack and type_.kind != "dyn":
            expected = optional_of(type_)
            compiler.issue(f"expected type '{expected}' but found '{type_}'", part.node)
        if joined is None:
            joined = type_
        elif compiler.unifier.accept([joined], [type_]):
            joined = joined if less_specific(joined, type_) else type_
        elif every or not several:
            several = True
            shown = (compiler.unifier.filled(one, free=DYN) for one in (joined, type_))
            text = "expected type '{}' but found '{}'".format(*shown)
            if not compiler.mixed:
                compiler.late.append(Issue(text, part.node.position))
    if several:
        return DYN
    return compiler.unifier.fresh() if joined is None else joined


def _map(compiler: Compiler, node: Node, scope: Scope) -> Part:
    parts = [compiler.part(arg, scope) for arg in node.args]
    keys, values = parts[::2], parts[1::2]
    type_ = map_of(
        _joined(compiler, keys, [False] * len(keys), every=True),
        _joined(compiler, values, node.value, every=True),
    )
    inner = [union([part.sized for part in group]) or Size(0, 0) for group in (keys, values)]
    size, entry = Size(len(keys), len(keys)), Entry("map", inner[0], inner[1])
    cost = capped(sum(part.cost for part in parts) + NEW_MAP)
    rows = [
        (key.run, value.run, optional)
        for key, value, optional in zip(keys, values, node.value, strict=True)
    ]

    def run(frame: Frame) -> dict[Any, Any]:
        entries: dict[Any, Any] = {}
        for key, value, optional in rows:
            name, item = frozen(key(frame)), value(frame)
            if optional and not unwrapped(item).there:
                continue
            if name in entries:
                raise CelError(f"Failed with repeated key: {name}")
            entries[name] = item.value if optional else item
        frame.cost += NEW_MAP
        return entries

    part = Part(node, type_, run, cost, size, None, entry)
    folds = (
        all(one.constant for one in parts)
        and not any(node.value)
        and not (compiler.issues or compiler.late)
    )
    return folded(part) if folds else part


def _call(compiler: Compiler, node: Node, scope: Scope) -> Part:
    name, args = node.name, node.args
    if name in _SPECIAL and (node.method or name.startswith("_")):
        return _SPECIAL[name](compiler, node, scope)
    if node.method:
        macro = macros.MACROS.get((name, len(args) - 1))
        if macro is not None:
            return macro(compiler, node, scope)
        full = f"{dotted(args[0])}.{name}"
        if full in FUNCTIONS and full.partition(".")[0] not in scope:
            return invoke(compiler, node, full, [compiler.part(arg, scope) for arg in args[1:]])
    parts = [compiler.part(arg, scope) for arg in args[:1]]
    # Only the arguments of format() may be a list of several types.
    mixed, compiler.mixed = compiler.mixed, compiler.mixed or (name == "format" and node.method)
    parts += [compiler.part(arg, scope) for arg in args[1:]]
    compiler.mixed = mixed
    if name not in FUNCTIONS:
        return compiler.issue(f"undeclared reference to '{name}' (in container '')", node)
    return invoke(compiler, node, name, parts, method=node.method)


def _logic(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``&&`` and ``||``; an error on one side is dropped if the other side decides."""
    parts = [compiler.part(arg, scope) for arg in node.args]
    for part in parts:
        compiler.wants(part, BOOL)
    runs, decisive = [part.run for part in parts], node.name == "_||_"

    def run(frame: Frame) -> Any:
        failure: CelError | None = None
        for run_part in runs:
            try:
                value = run_part(frame)
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if value is not (not decisive):
                failure = failure or CelError("no such overload")
        if failure is not None:
            raise failure
        return not decisive

    return Part(node, BOOL, run, capped(sum(part.cost for part in parts)))


def _conditional(compiler: Compiler, node: Node, scope: Scope) -> Part:
    parts = [compiler.part(arg, scope) for arg in node.args]
    result = compiler.unifier.fresh()
    if not compiler.unifier.accept([part.type for part in parts], [BOOL, result, result]):
        return no_overload(compiler, node, "_?_:_", parts)
    return choice(compiler, node, parts, compiler.filled(result))


def choice(compiler: Compiler, node: Node, parts: Sequence[Part], type_: Type) -> Part:
    """Compile a choice between two parts by a condition."""
    condition, then, other = parts
    first, second, test = then.run, other.run, condition.run

    def run(frame: Frame) -> Any:
        decided = test(frame)
        if decided is True:
            # cel-go resolves a branch that is an attribute without its first step, and so does not
            # charge it.
            frame.cost -= then.lead
            return first(frame)
        if decided is not False:
            raise CelError("no such overload")
        frame.cost -= other.lead
        return second(frame)

    cost = capped(condition.cost + max(then.cost, other.cost))
    size = then.sized.union(other.sized)
    entry = then.entry.union(other.entry) if then.entry and other.entry else None
    return Part(node, type_, run, cost, size, None, entry, attribute=True)


_KINDS: Mapping[str, Compile] = {
    "literal": _literal,
    "ident": _ident,
    "select": access.select,
    "has": access.has,
    "list": _list,
    "map": _map,
    "call": _call,
}
"""Functions that compile each kind of node."""
_SPECIAL: Mapping[str, Compile] = {
    "_&&_": _logic,
    "_||_": _logic,
    "_?_:_": _conditional,
    "_?._": access.optional_select,
    "_[_]": access.index,
    "_[?_]": access.index,
    "or": access.first_of,
    "orValue": access.first_of,
}
"""Operators that do not evaluate all operands, or whose cost has rules of its own."""


def compiler(root: Declaration, slots: int) -> Compiler:
    """Return a compiler of whole expressions.

    Args:
        root: declares the schema that paths of variables lead into.
        slots: the number of variables before the first loop.
    """
    return Compiler(_KINDS, root, slots)
