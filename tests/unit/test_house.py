"""One of each thing: what the house keeps in one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.sources import parsed


SOURCE = Path(__file__).parents[2] / "src"
PACKAGES = ("fairlead", "fairlead_sandbox")
BACK_OFF = {"runtime/backoff.py", "runtime/delays.py"}


@cache
def tree(path: Path) -> ast.Module:
    return parsed(path)


def modules(package: str = "fairlead") -> list[Path]:
    return sorted((SOURCE / package).rglob("*.py"))


def calls(module: ast.Module, name: str) -> Iterator[int]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node.lineno


def test_delays_stand_in_one_module() -> None:
    """Those of the operator stand beside its controllers."""
    found = {path.relative_to(SOURCE / "fairlead").as_posix(): path for path in modules()}
    others = {
        name: lines
        for name, path in found.items()
        if name not in BACK_OFF and not name.startswith("postgres/")
        if (lines := list(calls(tree(path), "BackoffPolicy")))
    }
    assert not others, "name them in runtime/delays.py"


STATES = {"failed", "waiting", "unknown", "ok"}


def named(node: ast.AST) -> set[object]:
    """The constants of a literal: of a dictionary its keys."""
    match node:
        case ast.Dict(keys=parts):
            return {part.value for part in parts if isinstance(part, ast.Constant)}
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return {part.value for part in elements if isinstance(part, ast.Constant)}
    return set()


def test_the_order_and_the_words_of_states_stand_in_one_module_of_the_portal() -> None:
    folder = SOURCE / "fairlead" / "portal"
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if any(named(node) == STATES for node in ast.walk(tree(path)))
    }
    assert found == {"model/thing.py"}


def test_a_public_class_has_a_name_of_its_own() -> None:
    found = defaultdict(list)
    for package in PACKAGES:
        for path in modules(package):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(path.relative_to(SOURCE).as_posix())
    shared = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert not shared, "name each by what it is in its system, as BindPlace or ConsumerConnection"
