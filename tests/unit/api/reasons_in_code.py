"""What the code gives for reasons and types of conditions, read from its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.sources import parsed

import fairlead


ROOT = Path(fairlead.__file__).parent
_WORD = re.compile(r"[A-Z][A-Za-z]+")
_CONDITIONS = frozenset({"Condition", "false", "true", "unknown"})


class Code:
    """The modules of some packages, without the tables themselves.

    A call gives a reason by name, or at the place where what is called has a parameter, or a
    field, of that name. A constant counts as its text, wherever it stands.
    """

    def __init__(self, *packages: str) -> None:
        self._trees = dict(_modules(packages))
        self._texts: dict[str, dict[str, str]] = {}
        self._imports: dict[str, dict[str, tuple[str, str]]] = {}
        for module, tree in self._trees.items():
            self._texts[module] = dict(_constants(tree))
            self._imports[module] = dict(_imports(tree))
        self._own = {module: _takers(tree) for module, tree in self._trees.items()}
        self._takers: dict[str, set[int]] = {}
        for takers in self._own.values():
            for name, places in takers.items():
                self._takers.setdefault(name, set()).update(places)

    def reasons(self, package: str) -> dict[str, str]:
        """Reasons that calls of a package give, each with one place that does."""
        found: dict[str, str] = {}
        for module, call, name in self._calls(package):
            # What is private to a module is another thing in each.
            takers = self._own[module] if name.startswith("_") else self._takers
            given = [word.value for word in call.keywords if word.arg == "reason"]
            given += [call.args[place] for place in takers.get(name, ()) if place < len(call.args)]
            for value in given:
                for text in filter(_WORD.fullmatch, self._values(module, value)):
                    found[text] = f"{module}:{call.lineno}"
        return found

    def condition_types(self, package: str) -> dict[str, str]:
        """Types of the conditions that a package makes, each with one place that does."""
        found: dict[str, str] = {}
        for module, call, name in self._calls(package):
            if name in _CONDITIONS and call.args:
                for text in filter(_WORD.fullmatch, self._values(module, call.args[0])):
                    found[text] = f"{module}:{call.lineno}"
        return found

    def texts(self) -> set[str]:
        """All texts that stand in the code."""
        return {
            node.value
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }

    def _calls(self, package: str) -> Iterator[tuple[str, ast.Call, str]]:
        for module, tree in self._trees.items():
            if module.split(".")[1] != package:
                continue
            for node in ast.walk(tree):
                match node:
                    case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                        yield module, node, name

    def _values(self, module: str, value: ast.expr) -> Iterator[str]:
        """The texts that an expression may be, as far as they can be told."""
        match value:
            case ast.Constant(value=str(text)):
                yield text
            case ast.IfExp(body=one, orelse=other):
                yield from self._values(module, one)
                yield from self._values(module, other)
            case ast.BoolOp(values=values):
                for part in values:
                    yield from self._values(module, part)
            case ast.Name(id=name):
                yield from self._constant(module, name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if name in self._imports[module]:
                    yield from self._constant(".".join(self._imports[module][name]), attribute)

    def _constant(self, module: str, name: str) -> Iterator[str]:
        if module not in self._trees:
            return
        if name in self._texts[module]:
            yield self._texts[module][name]
        elif name in self._imports[module]:
            yield from self._constant(*self._imports[module][name])


def _modules(packages: Iterable[str]) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            if "reasons" not in parts:
                name = ".".join(parts).removesuffix(".__init__")
                yield name, parsed(path)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
            ):
                yield name, text


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)


def _takers(tree: ast.Module) -> dict[str, set[int]]:
    """Functions and classes that take a reason without its name, and at which places."""
    found: dict[str, set[int]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name, names = node.name, [one.arg for one in node.args.args]
            case ast.ClassDef():
                name = node.name
                names = [
                    part.target.id
                    for part in node.body
                    if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
                ]
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                        names = [one.arg for one in part.args.args]
            case _:
                continue
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        if "reason" in names:
            found.setdefault(name, set()).add(names.index("reason"))
    return found
