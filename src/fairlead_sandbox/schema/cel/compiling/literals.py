"""Checks of constant arguments that a function would always refuse, when a rule is written.

Source: the validators of literals that Kubernetes has enabled since 1.29.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fairlead_sandbox.schema.cel.compiling.compiler import Compiler
from fairlead_sandbox.schema.cel.compiling.parts import Part
from fairlead_sandbox.schema.cel.library.core import to_duration, to_timestamp
from fairlead_sandbox.schema.cel.library.texts import CLAUSE, CLAUSES, WANTED
from fairlead_sandbox.schema.cel.syntax import Issue
from fairlead_sandbox.schema.cel.times import timestamp
from fairlead_sandbox.schema.cel.types import Type
from fairlead_sandbox.schema.cel.values import CelError
from fairlead_sandbox.schema.effort import Effort
from fairlead_sandbox.schema.patterns import compile_pattern


class InstantiationError(Exception):
    """A constant part of a rule always fails; the rule is refused when it is written."""


_PARSED = {"duration": to_duration, "timestamp": to_timestamp}
"""Functions that parse their argument."""
_PATTERNED = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a regular expression."""


def check_literals(compiler: Compiler, name: str, parts: Sequence[Part], *, method: bool) -> None:
    """Report literal arguments that always fail.

    Raises:
        InstantiationError: a pattern is invalid; Kubernetes has another message for it.
    """
    last = parts[-1] if parts else None
    if last is None or last.node.kind not in {"literal", "list"}:
        return
    if name in _PARSED and last.node.kind == "literal":
        _check_parsed(compiler, name, last)
    elif name in _PATTERNED and len(parts) > 1 and parts[1].node.kind == "literal":
        _check_pattern(compiler, parts[1], name, method=method)
    elif name == "format" and parts[0].node.kind == "literal" and last.node.kind == "list":
        # Late, because Kubernetes runs these validators only on expressions without type errors.
        compiler.late += _format_issues(compiler, parts[0].node.value, last)


def _check_parsed(compiler: Compiler, name: str, part: Part) -> None:
    value = part.node.value
    try:
        if name == "timestamp" and type(value) is int:
            timestamp(value)
        else:
            _PARSED[name](value if isinstance(value, str) else "")
    except (CelError, OverflowError):
        compiler.late.append(Issue(f"invalid {name} argument", part.node.position))


def _check_pattern(compiler: Compiler, part: Part, name: str, *, method: bool) -> None:
    try:
        compile_pattern(part.node.value, Effort())
    except ValueError as error:
        if name != "matches" or not method:
            raise InstantiationError(str(error)) from None
        compiler.late.append(Issue("invalid matches argument", part.node.position))


def _format_issues(compiler: Compiler, template: str, values: Part) -> Iterator[Issue]:
    nodes = values.node.args
    clauses = [found for found in CLAUSE.finditer(template) if not found[1]]
    for index, clause in enumerate(clauses):
        letter = clause[3]
        if not letter:
            # The parenthesis before the list, where cel-go reports errors of the template.
            yield Issue("unexpected end of string", values.node.position - 1)
            return
        if letter not in CLAUSES:
            text = f'unrecognized formatting clause "{letter}"'
            yield Issue(f"could not parse formatting clause: {text}", values.node.position - 1)
            return
        if index >= len(nodes):
            yield Issue(f"index {index} out of range", values.node.position - 1)
            return
        type_ = compiler.filled(compiler.types[id(nodes[index])])
        if not _fits(letter.lower(), type_):
            words = WANTED[letter.lower()].format(_shown(type_))
            yield Issue(f"error during formatting: {words}", nodes[index].position)
    if len(nodes) > len(clauses):
        counts = f"expected {len(clauses)}, got {len(nodes)}"
        text = f"too many arguments supplied to string.format ({counts})"
        yield Issue(text, values.node.position - 1)


_NUMBERS = frozenset({"int", "uint"})
_FITTING = {
    "s": frozenset(
        [
            "string",
            "bool",
            "bytes",
            "int",
            "uint",
            "double",
            "map",
            "list",
            "null",
            "type",
            "duration",
            "timestamp",
        ]
    ),
    "d": _NUMBERS,
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": _NUMBERS | {"bool"},
    "x": _NUMBERS | {"string", "bytes"},
    "o": _NUMBERS,
}
"""Types that each clause of format() accepts."""


def _fits(letter: str, type_: Type) -> bool:
    return type_.kind in {"dyn", "param", "error"} or type_.kind in _FITTING[letter]


def _shown(type_: Type) -> str:
    return re.sub(r"\(.*", "", str(type_))
