"""Objects as YAML that YAML 1.1, YAML 1.2 and Kubernetes' readers parse alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml


Place = tuple[str | int, ...]
"""Path to a value: names of fields and indexes of lists."""
_MOST = 160
"""Longest comment, in characters."""
_UNSURE = re.compile(
    r"[-+]?\.?[0-9][0-9a-fA-FxXoObBeE_.:+-]*|~|(?i:y|n|yes|no|on|off|true|false|null)"
)
"""Unquoted texts that YAML 1.1, YAML 1.2 or Go's readers parse as a number, boolean or null."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes no aliases, quotes ambiguous texts, and writes multi-line texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = "'" if _UNSURE.fullmatch(value) else "|" if "\n" in value.strip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(value: Any, comments: Mapping[Place, Sequence[str]] | None = None) -> str:
    """Return a value as a YAML document, with comments above the fields that they are on."""
    # A width without limit: folded text is hard to edit.
    written: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    written = written.removesuffix("...\n")
    if not comments:
        return written
    above: dict[int, list[str]] = {}
    root = yaml.compose(written, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for place, number in _places(root, (), 0):
        above.setdefault(number, []).extend(comments.get(place, ()))
    lines = written.split("\n")
    for number in sorted(above, reverse=True):
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip(" "))]
        lines[number:number] = [f"{indent}# {_line(comment)}" for comment in above[number]]
    return "\n".join(lines)


def _places(node: Any, place: Place, number: int) -> Iterator[tuple[Place, int]]:
    """Yield the path of each value with the number of the line on which it begins."""
    yield place, number
    if isinstance(node, yaml.MappingNode):
        for key, below in node.value:
            yield from _places(below, (*place, key.value), key.start_mark.line)
    elif isinstance(node, yaml.SequenceNode):
        for index, below in enumerate(node.value):
            yield from _places(below, (*place, index), below.start_mark.line)


def _line(comment: str) -> str:
    """Return a comment as one line: a break in a CRD's text would make a field of the rest."""
    words = " ".join(comment[: 4 * _MOST].split())
    plain = "".join(letter for letter in words if letter.isprintable())
    return plain if len(plain) <= _MOST else f"{plain[: _MOST - 1]}…"
