"""Check of plain words: ``python -m hack.words`` lists the lines of src that break it.

A docstring, and the text below a constant or a field, names its unit or its effect at once. One
that begins with a relative pronoun leaves the reader to guess the noun. Words for an unknown
person hide who acts: a controller, a client, another writer. A name is the noun of its type, or a
verb with its object: a participle such as ``found`` could be anything.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


ROOT = Path(__file__).parents[1]
CONTRACTS: Mapping[str, str] = {
    '_ACCOUNTS = ("nobody", "daemon", "postgres")': "accounts of Unix",
    "there is no account 'nobody'": "an account of Unix",
}
"""Texts that keep a checked word because another system fixes it, with the reason."""
_VAGUE = frozenset(
    {
        *("about", "asked", "found", "helps", "held", "kept", "known", "look"),
        *("made", "one", "seen", "told", "wanted"),
    }
)
"""Names that say nothing of a value's type, with or without underscores around them."""
_SHORT_LIVED = frozenset({"found", "one"})
"""Those that a comprehension of one line may have."""
_UNNAMED = (
    "fairlead/api/links.py",
    "fairlead/api/reasons/model.py",
    "fairlead/portal/",
)
"""Files and folders whose names have yet to become nouns."""
_OPENING = re.compile(r"(?:What|Those|That|Of|Who|Whose|Whom|Whoever|Whatever|Which)\b")
_PERSON = re.compile(r"\b(?:nobody|somebody|whoever|whomever)\b", re.IGNORECASE)


class Finding(msgspec.Struct, frozen=True, order=True):
    """A line that breaks the rule; ``path`` is relative to the checked folder."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def findings(path: str, source: str) -> list[Finding]:
    """Return the findings in the text of one module, in the order of its lines."""
    found = [
        Finding(
            path,
            line,
            f"the text begins with {opening!r}: begin with a verb and its object, with Whether and"
            " the subject, or with a noun and its unit",
        )
        for line, opening in _openings(ast.parse(source))
    ]
    for number, line in enumerate(source.splitlines(), 1):
        person = _PERSON.search(line)
        if person is not None and not any(text in line for text in CONTRACTS):
            found.append(
                Finding(
                    path,
                    number,
                    f"{person[0]!r}: name who acts, such as another writer, or say it without"
                    " a person; if another system fixes the text, add it to CONTRACTS of"
                    " hack/words.py",
                )
            )
    if not path.startswith(_UNNAMED):
        found += [
            Finding(
                path,
                line,
                f"the name {name!r}: take the noun of its type, such as condition, export or"
                " message, or a verb with its object",
            )
            for line, name in _vague(ast.parse(source))
        ]
    return sorted(found)


def _vague(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each definition of a vague name."""
    brief = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        and node.lineno == node.end_lineno
        for generator in node.generators
        for target in ast.walk(generator.target)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                if id(node) in brief and name in _SHORT_LIVED:
                    continue
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case _:
                continue
        if name.strip("_") in _VAGUE:
            yield node.lineno, name


def check(folder: Path) -> list[str]:
    """Return one line for each finding below a folder that holds the top-level packages."""
    return [
        str(one)
        for module in sorted(folder.rglob("*.py"))
        for one in findings(
            module.relative_to(folder).as_posix(), module.read_text(encoding="utf-8")
        )
    ]


def _openings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and first word of each text that begins wrongly.

    Args:
        tree: a parsed module; each string that is a statement counts: Python keeps those of
            modules, classes and functions, and readers take the others for the line above.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                opening = _OPENING.match(text.lstrip())
                if opening is not None:
                    yield node.lineno, opening[0]


def main(folder: Path) -> int:
    """Print the errors below a folder; return the exit code, 1 if there are any."""
    errors = check(folder)
    for error in errors:
        print(f"src/{error}", file=sys.stderr)
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main(ROOT / "src"))
