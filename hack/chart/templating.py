"""Objects with conditions and loops in them, and how they are written as a Helm template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml


Tree = Any
"""JSON, in which the classes below may stand for members and items."""


class Expression(msgspec.Struct, frozen=True):
    """A scalar that Helm works out; ``text`` stands between the braces."""

    text: str


class When(msgspec.Struct, frozen=True):
    """A member or an item that is there where ``test`` holds."""

    test: str
    value: Any


class Each(msgspec.Struct, frozen=True):
    """An item for each of a list of values; ``variable`` is called so in its placeholders."""

    over: str
    variable: str
    value: Any


class Given(msgspec.Struct, frozen=True):
    """A member whose value is written as it was given, and left out where nothing was."""

    path: str


class Items(msgspec.Struct, frozen=True):
    """Items, or members under the key ``...``, as they were given."""

    path: str


REST = "..."
"""The key under which :class:`Items` stand for members of an object."""


def when(test: str, without: Tree, having: Tree) -> Tree:
    """Both trees in one: what only ``having`` has is there where ``test`` holds.

    Raises:
        ValueError: ``without`` has an item that ``having`` has not.
    """
    if without == having:
        return having
    if isinstance(without, dict) and isinstance(having, dict):
        found = {
            key: when(test, without[key], value) if key in without else When(test, value)
            for key, value in having.items()
        }
        lost = {k: When(f"not ({test})", v) for k, v in without.items() if k not in having}
        return found | lost
    if isinstance(without, list) and isinstance(having, list):
        return _aligned(without, having, lambda item: When(test, item), test)
    return Expression(f"ternary {_literal(having)} {_literal(without)} (not (not ({test})))")


def each(over: str, variable: str, without: Tree, having: Tree) -> Tree:
    """Both trees in one: items that only ``having`` has are there for each of the values.

    Raises:
        ValueError: they differ in something else.
    """
    if without == having:
        return having
    if isinstance(without, dict) and isinstance(having, dict) and set(without) == set(having):
        return {key: each(over, variable, without[key], having[key]) for key in having}
    if isinstance(without, list) and isinstance(having, list):
        return _aligned(
            without, having, lambda item: Each(over, variable, item), "", (over, variable)
        )
    raise ValueError(f"{without!r} and {having!r} differ in more than items")


def _aligned(
    without: Sequence[Tree],
    having: Sequence[Tree],
    wrap: Callable[[Tree], Tree],
    test: str,
    loop: tuple[str, str] | None = None,
) -> list[Tree]:
    left = {identity(item): item for item in without}
    found: list[Tree] = []
    for item in having:
        key = identity(item)
        if key in left:
            same = left.pop(key)
            found.append(each(*loop, same, item) if loop else when(test, same, item))
        else:
            found.append(wrap(item))
    if left:
        raise ValueError(f"only without {test or loop}: {list(left)}")
    return found


def identity(item: Tree) -> str:
    """What an item of a list is known by in another list."""
    if isinstance(item, dict):
        metadata = item.get("metadata", {})
        if "kind" in item and metadata:
            return f"{item['kind']} {metadata.get('name')}"
        if "name" in item:
            return f"name {item['name']}"
    return repr(item)


class Writer:
    """Writes trees; ``placeholders`` are texts in strings and the expressions that they are."""

    def __init__(self, placeholders: Mapping[str, str]) -> None:
        self._placeholders = placeholders
        # The longest first, for one may begin as another does.
        names = sorted(placeholders, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")

    def document(self, tree: Tree) -> Iterator[str]:
        """The lines of one object of a stream, with its conditions and loops around it."""
        match tree:
            case When(test, value):
                yield f"{{{{- if {test} }}}}"
                yield from self.document(value)
                yield "{{- end }}"
            case Each(over, variable, value):
                yield f"{{{{- range {variable} := {over} }}}}"
                yield from self.document(value)
                yield "{{- end }}"
            case _:
                yield "---"
                yield from self._block(tree, "")

    def _block(self, tree: Tree, indent: str) -> Iterator[str]:
        if isinstance(tree, dict):
            for key, value in tree.items():
                yield from self._member(key, value, indent)
        else:
            for item in tree:
                yield from self._item(item, indent)

    def _member(self, key: str, value: Tree, indent: str) -> Iterator[str]:
        match value:
            case When(test, inner):
                yield f"{indent}{{{{- if {test} }}}}"
                yield from self._member(key, inner, indent)
                yield f"{indent}{{{{- end }}}}"
            case Given(path):
                yield f"{indent}{{{{- with {path} }}}}"
                yield f"{indent}{key}:"
                yield f"{indent}  {{{{- toYaml . | nindent {len(indent) + 2} }}}}"
                yield f"{indent}{{{{- end }}}}"
            case Items():
                yield from self._items(value, indent)
            case dict() | list() if value:
                yield f"{indent}{self._text(key)}:"
                yield from self._block(value, indent + "  " * isinstance(value, dict))
            case _:
                yield f"{indent}{self._text(key)}: {self._scalar(value)}"

    def _item(self, item: Tree, indent: str) -> Iterator[str]:
        match item:
            case When(test, inner):
                yield f"{indent}{{{{- if {test} }}}}"
                yield from self._item(inner, indent)
                yield f"{indent}{{{{- end }}}}"
            case Each(over, variable, inner):
                yield f"{indent}{{{{- range {variable} := {over} }}}}"
                yield from self._item(inner, indent)
                yield f"{indent}{{{{- end }}}}"
            case Items():
                yield from self._items(item, indent)
            case dict() | list() if item:
                first, *rest = self._block(item, indent + "  ")
                if first.lstrip().startswith("{{-"):
                    yield f"{indent}-"
                    yield first
                else:
                    yield f"{indent}- {first.lstrip()}"
                yield from rest
            case _:
                yield f"{indent}- {self._scalar(item)}"

    def _items(self, items: Items, indent: str) -> Iterator[str]:
        yield f"{indent}{{{{- with {items.path} }}}}"
        yield f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}"
        yield f"{indent}{{{{- end }}}}"

    def _scalar(self, value: Tree) -> str:
        if isinstance(value, Expression):
            return f"{{{{ {value.text} }}}}"
        return self._text(value)

    def _text(self, value: Tree) -> str:
        if not isinstance(value, str) or not self._pattern.search(value):
            dumped = yaml.safe_dump(value, default_flow_style=True, width=10_000)
            return dumped.removesuffix("\n").removesuffix("\n...")
        whole = self._placeholders.get(value)
        if whole is not None:
            return f"{{{{ {whole} | quote }}}}"
        found = [self._placeholders[match] for match in self._pattern.findall(value)]
        text = self._pattern.sub("%s", value.replace("%", "%%"))
        arguments = " ".join(f"({one})" if " " in one else one for one in found)
        return f"{{{{ printf {_literal(text)} {arguments} | quote }}}}"


def _literal(value: object) -> str:
    return msgspec.json.encode(value).decode()
