"""Macros: loops over the items of a list or the entries of a map, and macros of optional values.

Source: "Macros" of the CEL specification, and cel-go's comprehensions of two variables. In cel-go
a macro expands to a loop with an accumulator. Kubernetes counts the steps of that loop, so they
are charged here too, although this code has no accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.compiling.compiler import Compile, Compiler
from fairlead_sandbox.schema.cel.compiling.parts import Frame, Part, Run, Scope, Variable, unpaid
from fairlead_sandbox.schema.cel.costs import (
    NEW_LIST,
    NEW_MAP,
    PER_EXPRESSION,
    Entry,
    Size,
    capped,
)
from fairlead_sandbox.schema.cel.syntax import Node
from fairlead_sandbox.schema.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    Type,
    list_of,
    map_of,
    optional_of,
)
from fairlead_sandbox.schema.cel.values import (
    NONE,
    CelError,
    CostError,
    Optional,
    frozen,
    thawed,
)


# The step of cel-go's loop is accu + [item]: one new list, one name, one addition.
_APPEND = NEW_LIST + 2
"""Cost units of adding one item to the list that a loop makes."""
_INSERT = 2
"""Cost units of adding entries to the map that a loop makes."""


class _Loop(NamedTuple):
    """The list or map of a loop, and the variables of its rounds."""

    over: Part
    names: list[str]
    scope: Scope
    slots: list[int]

    def cost(self, each: int, around: int) -> int:
        """Return the worst cost: ``each`` for every possible round, and ``around`` once."""
        return capped(self.over.cost + around + capped(self.over.sized.most * capped(each)))

    @property
    def first(self) -> int:
        """Slot of the first variable."""
        return self.slots[0]

    @property
    def second(self) -> int | None:
        """Slot of the second variable, None if there is one variable."""
        return self.slots[1] if len(self.slots) > 1 else None

    def items(self) -> Callable[[Frame], Collection[Any]]:
        """Return a function that lists the values, or pairs of values, of the rounds."""
        source = self.over.run
        pairs = len(self.slots) > 1

        def find(frame: Frame) -> Collection[Any]:
            values = source(frame)
            if isinstance(values, list):
                return list(enumerate(values)) if pairs else values
            if not isinstance(values, dict):
                raise CelError("no such overload")
            # Booleans are keys of a class of their own (BoolKey), which rules must not see.
            keys = [thawed(key) for key in values]
            return list(zip(keys, values.values(), strict=True)) if pairs else keys

        return find


def _set(variables: list[Any], first: int, second: int | None, item: Any) -> None:
    if second is None:
        variables[first] = item
    else:
        variables[first], variables[second] = item


def _loop(compiler: Compiler, node: Node, scope: Scope, variables: int) -> _Loop | None:
    """Compile the range and the variables of a macro; None if a variable is no name."""
    names = node.args[1 : 1 + variables]
    for name in names:
        if name.kind != "ident":
            compiler.issue("argument must be a simple name", name)
    over = compiler.part(node.args[0], scope)
    if any(name.kind != "ident" for name in names):
        return None
    ranges = _variables(compiler, over, variables)
    inner = {**scope, **{name.name: one for name, one in zip(names, ranges, strict=True)}}
    return _Loop(over, [name.name for name in names], inner, [one.slot for one in ranges])


def _variables(compiler: Compiler, over: Part, count: int) -> list[Variable]:
    type_ = compiler.filled(over.type)
    kind = over.entry.kind if over.entry else type_.kind
    base, sizes = over.path or (), over.entry
    keys, values = ("@indices", "@items") if kind == "list" else ("@keys", "@values")
    key_type, value_type = _item_types(compiler, over, type_)
    key = Variable(compiler.new_slot(), key_type, (*base, keys), sizes.key if sizes else None)
    if count == 1 and kind != "list":
        return [key]
    slot = key.slot if count == 1 else compiler.new_slot()
    value = Variable(slot, value_type, (*base, values), sizes.value if sizes else None)
    return [value] if count == 1 else [key, value]


def _item_types(compiler: Compiler, over: Part, type_: Type) -> tuple[Type, Type]:
    if type_.kind == "list":
        return INT, type_.params[0]
    if type_.kind == "map":
        keys, values = type_.params
        return keys, values
    if type_.kind in {"dyn", "error", "param"}:
        compiler.unifier.accept([DYN], [type_])
        return DYN, DYN
    text = "cannot be range of a comprehension (must be list, map, or dynamic)"
    compiler.issue(f"expression of type '{type_}' {text}", over.node)
    return ERROR, ERROR


def _broken(node: Node) -> Part:
    def run(frame: Frame) -> Any:
        raise CelError("no such overload")

    return Part(node, ERROR, run)


def _quantifier(
    compiler: Compiler, node: Node, scope: Scope, *, variables: int, decisive: bool
) -> Part:
    """Compile ``all`` and ``exists``: the first decisive round counts, also after errors."""
    loop = _loop(compiler, node, scope, variables)
    body = compiler.part(node.args[-1], loop.scope if loop else scope)
    if loop is None:
        return _broken(node)
    compiler.wants(body, BOOL)
    find, holds, first, second = loop.items(), body.run, loop.first, loop.second
    # cel-go's loop condition is @not_strictly_false(accu) for all, with a negation more for
    # exists; reading accu in the step costs 1 more.
    condition = 3 if decisive else 2
    each, steps = condition + 1, unpaid(body.node)

    def run(frame: Frame) -> Any:
        failure: CelError | None = None
        items, variables, rounds = find(frame), frame.vars, 0
        for item in items:
            rounds += 1
            frame.cost += each
            if frame.cost > PER_EXPRESSION:
                raise CostError
            if steps:
                frame.effort.spend(steps)
            _set(variables, first, second, item)
            try:
                verdict = holds(frame)
            except CelError as error:
                failure = failure or error
                continue
            if verdict is decisive:
                # cel-go checks the loop's condition once more, unless this was the last item.
                frame.cost += 1 + (condition if rounds < len(items) else 0)
                return decisive
            if verdict is not (not decisive):
                failure = failure or CelError("no such overload")
        frame.cost += 1
        if failure is not None:
            raise failure
        return not decisive

    return Part(node, BOOL, run, loop.cost(each + body.cost, 1))


def _exists_one(compiler: Compiler, node: Node, scope: Scope, *, variables: int) -> Part:
    loop = _loop(compiler, node, scope, variables)
    body = compiler.part(node.args[-1], loop.scope if loop else scope)
    if loop is None:
        return _broken(node)
    compiler.wants(body, BOOL)
    find, holds, first, second = loop.items(), body.run, loop.first, loop.second
    steps = unpaid(body.node)

    def run(frame: Frame) -> bool:
        count = 0
        for item in find(frame):
            _set(frame.vars, first, second, item)
            # cel-go adds 1 to a counter for each hit and compares it with 1 at the end: a name and
            # an operator each.
            if _decided(frame, holds, steps):
                frame.cost += 2
                count += 1
        frame.cost += 2
        return count == 1

    return Part(node, BOOL, run, loop.cost(body.cost + 2, 2))


def _decided(frame: Frame, condition: Run, steps: int) -> bool:
    """Return the condition's value, which must be a boolean; charge ``steps`` of effort."""
    if frame.cost > PER_EXPRESSION:
        raise CostError
    if steps:
        frame.effort.spend(steps)
    verdict = condition(frame)
    if verdict is True or verdict is False:
        return bool(verdict)
    raise CelError("no such overload")


def _always(frame: Frame) -> bool:
    return True


class _Body(NamedTuple):
    """The body of a loop: an optional condition, and the value for each kept item."""

    keeps: Part | None
    gives: Part

    @property
    def cost(self) -> int:
        return self.gives.cost + (self.keeps.cost if self.keeps else 0)

    @property
    def unpaid(self) -> int:
        return unpaid(self.gives.node) + (unpaid(self.keeps.node) if self.keeps else 0)


def _body(compiler: Compiler, node: Node, loop: _Loop | None, scope: Scope, first: int) -> _Body:
    inner = loop.scope if loop else scope
    parts = [compiler.part(arg, inner) for arg in node.args[first:]]
    if len(parts) == 2:
        compiler.wants(parts[0], BOOL)
    return _Body(parts[0] if len(parts) == 2 else None, parts[-1])


def _make_list(compiler: Compiler, node: Node, scope: Scope, *, variables: int) -> Part:
    """Compile ``map`` and ``transformList``: a list of values, one for each kept item."""
    loop = _loop(compiler, node, scope, variables)
    body = _body(compiler, node, loop, scope, 1 + variables)
    return _broken(node) if loop is None else _listed(compiler, node, loop, body)


def _filter(compiler: Compiler, node: Node, scope: Scope) -> Part:
    loop = _loop(compiler, node, scope, 1)
    keeps = compiler.part(node.args[2], loop.scope if loop else scope)
    if loop is None:
        return _broken(node)
    compiler.wants(keeps, BOOL)
    return _listed(compiler, node, loop, _Body(keeps, compiler.part(node.args[1], loop.scope)))


def _listed(compiler: Compiler, node: Node, loop: _Loop, body: _Body) -> Part:
    find, gives, first, second = loop.items(), body.gives.run, loop.first, loop.second
    keeps, steps = body.keeps.run if body.keeps else _always, body.unpaid

    def run(frame: Frame) -> list[Any]:
        items = []
        for item in find(frame):
            _set(frame.vars, first, second, item)
            if _decided(frame, keeps, steps):
                frame.cost += _APPEND
                items.append(gives(frame))
        frame.cost += 1
        return items

    inner = Size(0, body.gives.sized.most)
    return Part(
        node,
        list_of(compiler.filled(body.gives.type)),
        run,
        loop.cost(body.cost + _APPEND, NEW_LIST + 1),
        loop.over.sized,
        None,
        Entry("list", Size(1, 1), inner),
    )


def _make_map(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``transformMap``: a map with a value for each kept key."""
    loop = _loop(compiler, node, scope, 2)
    body = _body(compiler, node, loop, scope, 3)
    if loop is None:
        return _broken(node)
    key, gives = loop.slots[0], body.gives.run
    keys = loop.scope[loop.names[0]].type

    def entries(frame: Frame) -> Mapping[Any, Any]:
        frame.cost += 1
        return {frozen(frame.vars[key]): gives(frame)}

    type_ = map_of(keys, compiler.filled(body.gives.type))
    return _mapped(node, loop, body, entries, type_, body.cost + 1)


def _make_entries(compiler: Compiler, node: Node, scope: Scope) -> Part:
    """Compile ``transformMapEntry``: a map of the entries that each kept entry yields."""
    loop = _loop(compiler, node, scope, 2)
    body = _body(compiler, node, loop, scope, 3)
    if loop is None:
        return _broken(node)
    gives = body.gives.run
    type_ = map_of(compiler.unifier.fresh(), compiler.unifier.fresh())
    compiler.wants(body.gives, type_)

    def entries(frame: Frame) -> Mapping[Any, Any]:
        entry = gives(frame)
        if isinstance(entry, dict):
            return entry
        raise CelError("no such overload")

    return _mapped(node, loop, body, entries, compiler.filled(type_), body.cost)


def _mapped(
    node: Node,
    loop: _Loop,
    body: _Body,
    entries: Callable[[Frame], Mapping[Any, Any]],
    type_: Type,
    each: int,
) -> Part:
    find, first, second = loop.items(), loop.first, loop.second
    keeps, steps = body.keeps.run if body.keeps else _always, body.unpaid

    def run(frame: Frame) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        for item in find(frame):
            _set(frame.vars, first, second, item)
            if not _decided(frame, keeps, steps):
                continue
            frame.cost += _INSERT
            for key, value in entries(frame).items():
                if key in mapping:
                    raise CelError(f"insert failed: key {thawed(key)} already exists")
                mapping[key] = value
        frame.cost += 1
        return mapping

    cost = loop.cost(each + _INSERT, NEW_MAP + 1)
    return Part(node, type_, run, cost, loop.over.sized)


def _optional(compiler: Compiler, node: Node, scope: Scope, *, flat: bool) -> Part:
    """Compile ``optMap`` and ``optFlatMap``, which apply an expression to a present value."""
    target = compiler.part(node.args[0], scope)
    name = node.args[1]
    if name.kind != "ident":
        return compiler.issue("argument must be a simple name", name)
    inner = compiler.unifier.fresh()
    if not compiler.unifier.accept([target.type], [optional_of(inner)]):
        shown = compiler.unifier.filled(target.type, free=DYN)
        text = f"found no matching overload for 'hasValue' applied to '{shown}.()'"
        return compiler.issue(text, node)
    variable = Variable(compiler.new_slot(), compiler.filled(inner))
    body = compiler.part(node.args[2], {**scope, name.name: variable})
    gives = compiler.filled(body.type)
    if flat:
        compiler.wants(body, optional_of(compiler.unifier.fresh()))
    source, make, slot = target.run, body.run, variable.slot

    def run(frame: Frame) -> Any:
        before = frame.cost
        optional = source(frame)
        if not isinstance(optional, Optional):
            raise CelError("no such overload")
        once = frame.cost - before
        if not optional.there:
            frame.cost += 2
            return NONE
        # cel-go's expansion evaluates the target twice: hasValue(), then value().
        frame.cost += once + 2 + (not flat)
        frame.vars[slot] = optional.value
        value = make(frame)
        return value if flat else Optional(there=True, value=value)

    # cel-go binds the name by a loop over an empty list, which the estimate counts.
    cost = capped(2 * target.cost + 2 + NEW_LIST + body.cost + (not flat))
    return Part(node, gives if flat else optional_of(gives), run, cost)


MACROS: Mapping[tuple[str, int], Compile] = {
    ("all", 2): partial(_quantifier, variables=1, decisive=False),
    ("all", 3): partial(_quantifier, variables=2, decisive=False),
    ("exists", 2): partial(_quantifier, variables=1, decisive=True),
    ("exists", 3): partial(_quantifier, variables=2, decisive=True),
    ("exists_one", 2): partial(_exists_one, variables=1),
    ("existsOne", 3): partial(_exists_one, variables=2),
    ("filter", 2): _filter,
    ("map", 2): partial(_make_list, variables=1),
    ("map", 3): partial(_make_list, variables=1),
    ("transformList", 3): partial(_make_list, variables=2),
    ("transformList", 4): partial(_make_list, variables=2),
    ("transformMap", 3): _make_map,
    ("transformMap", 4): _make_map,
    ("transformMapEntry", 3): _make_entries,
    ("transformMapEntry", 4): _make_entries,
    ("optMap", 2): partial(_optional, flat=False),
    ("optFlatMap", 2): partial(_optional, flat=True),
}
"""The macros by name and number of arguments."""
