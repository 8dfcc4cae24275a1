"""The macros over lists and maps: ``all``, ``exists``, ``exists_one``, ``filter``, ``map``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlead.sandbox.schema.cel.errors import CelError, CompileError
from fairlead.sandbox.schema.cel.syntax import Node
from fairlead.sandbox.schema.cel.types import BOOL, DYN, STRING, Type


_Run = Callable[[Mapping[str, Any]], Any]
_Compile = Callable[[Node, Mapping[str, Type]], tuple[Type, _Run]]


def compile_macro(node: Node, scope: Mapping[str, Type], compile_: _Compile) -> tuple[Type, _Run]:
    """``range.all(x, predicate)`` and its kin."""
    if len(node.args) != 3 or node.args[1].kind != "ident":
        message = f"{node.name}() takes a variable and an expression on this server"
        raise CompileError(message, node.position)
    over, source = compile_(node.args[0], scope)
    if over.kind not in {"list", "map", "dyn"}:
        message = f"expression of type '{over.kind}' cannot be range of a comprehension"
        raise CompileError(message, node.position)
    name = node.args[1].name
    variable = STRING if over.kind == "map" else over.items
    body_type, body = compile_(node.args[2], {**scope, name: variable})
    if node.name != "map" and body_type.kind not in {"bool", "dyn"}:
        raise CompileError(f"{node.name}() needs a bool, not {body_type.kind}", node.position)
    combine = _COMBINE[node.name]

    def run(env: Mapping[str, Any]) -> Any:
        values = source(env)
        if not isinstance(values, list | dict):
            raise CelError("no such overload")
        items = list(values)
        return combine(items, [_Lazy(body, {**env, name: item}) for item in items])

    gives = {"filter": over if over.kind == "list" else DYN, "map": Type("list", {})}
    return gives.get(node.name, BOOL), run


class _Lazy:
    """The body for one item, run when it is asked for."""

    def __init__(self, body: _Run, env: Mapping[str, Any]) -> None:
        self._body = body
        self._env = env

    def __call__(self) -> Any:
        return self._body(self._env)


def _decide(bodies: Iterable[_Lazy], *, decisive: bool) -> Any:
    """The first decisive answer wins over errors, as with ``&&`` and ``||``."""
    failure: CelError | None = None
    for body in bodies:
        try:
            if body() is decisive:
                return decisive
        except CelError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive


def _all(items: list[Any], bodies: list[_Lazy]) -> Any:
    return _decide(bodies, decisive=False)


def _exists(items: list[Any], bodies: list[_Lazy]) -> Any:
    return _decide(bodies, decisive=True)


def _exists_one(items: list[Any], bodies: list[_Lazy]) -> Any:
    return sum(body() is True for body in bodies) == 1


def _filter(items: list[Any], bodies: list[_Lazy]) -> Any:
    return [item for item, body in zip(items, bodies, strict=True) if body() is True]


def _map(items: list[Any], bodies: list[_Lazy]) -> Any:
    return [body() for body in bodies]


_COMBINE: Mapping[str, Callable[[list[Any], list[_Lazy]], Any]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
}
MACROS = frozenset(_COMBINE)
"""The names of the macros."""
