r"""The subset of gjson paths that references of permission claims use.

https://github.com/tidwall/gjson/blob/master/SYNTAX.md

A path is keys joined by dots: ``spec.secretRefs.#.name``. ``#`` goes through an array, and at the
end of a path counts it; a number picks one item; ``\.`` is a dot within a key; ``*`` and ``?``
stand for parts of a key. Queries, modifiers and pipes match nothing, and so do the brackets of
JSONPath.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import msgspec


_PART = re.compile(r"(?:\\.|[^.\\])+")
_UNSUPPORTED = re.compile(r"(?<!\\)[|@{}\[\]!]|#\(")


def values(data: Any, path: str) -> list[str]:
    """Return the scalars and array items at a path as trimmed texts, without empty ones.

    Nested arrays count as one. A path that leads nowhere gives [].
    """
    if not path or _UNSUPPORTED.search(path):
        return []
    texts = (_text(value).strip() for value in _flat(_walk(data, _PART.findall(path))))
    return [text for text in texts if text]


def paired(data: Any, first: str, second: str) -> list[tuple[list[str], list[str]]] | None:
    """Return the values of both paths for each item of the last array that they share.

    None if they share no array: then nothing tells which values belong together.
    """
    if _UNSUPPORTED.search(first) or _UNSUPPORTED.search(second):
        return None
    left, right = _PART.findall(first), _PART.findall(second)
    common = _common_array(left, right)
    if common == 0:
        return None
    rests = [".".join(parts[common:]) for parts in (left, right)]
    items = _flat(_walk(data, [*left[: common - 1]]))
    return [(values(item, rests[0]), values(item, rests[1])) for item in items]


def _common_array(left: list[str], right: list[str]) -> int:
    """Return the number of path parts up to the last shared array; 0 if there is none."""
    shared = 0
    # Without the last parts: a # at the end counts an array, and goes through none.
    for index, (left_item, other) in enumerate(zip(left[:-1], right[:-1], strict=False)):
        if left_item != other:
            break
        if left_item == "#":
            shared = index + 1
    return shared


def _walk(data: Any, parts: list[str]) -> Iterator[Any]:
    if not parts:
        yield data
        return
    head, rest = parts[0], parts[1:]
    if isinstance(data, list):
        if head == "#" and not rest:
            yield len(data)
        elif head == "#":
            for item in data:
                yield from _walk(item, rest)
        elif head.isdecimal() and int(head) < len(data):
            yield from _walk(data[int(head)], rest)
    elif isinstance(data, dict):
        key = _key(data, head)
        if key is not None:
            yield from _walk(data[key], rest)


def _key(data: dict[str, Any], part: str) -> str | None:
    """Return the name of the member that a part matches; the first one for wildcards."""
    plain = re.sub(r"\\(.)", r"\1", part)
    if plain in data:
        return plain
    if not re.search(r"(?<!\\)[*?]", part):
        return None
    # fnmatch would take a bracket as a set of characters, which gjson does not have.
    pattern = re.sub(r"\\(.)", r"[\1]", part.replace("[", "[[]"))
    return next((key for key in data if fnmatchcase(key, pattern)), None)


def _flat(values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(iter(value))
        else:
            yield value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
