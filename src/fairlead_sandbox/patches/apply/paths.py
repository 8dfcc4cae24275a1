"""Paths of fields, and sets of them in the form of ``metadata.managedFields`` (``FieldsV1``).

A path is a tuple of elements as FieldsV1 writes them: ``f:name`` for a member, ``k:{...}`` for a
list's item with these keys, ``v:...`` for a value of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from fairlead.api.meta import JSON


Path: TypeAlias = tuple[str, ...]
"""Elements from the root to a field."""
Paths: TypeAlias = frozenset[Path]
"""A set of fields."""

NOTHING: Paths = frozenset()
_SELF = "."
"""Member of FieldsV1 that stands for the field itself, beside fields below it."""


class MalformedFieldsError(ValueError):
    """The value is no FieldsV1."""


def member(name: str) -> str:
    """Return the element of an object's member."""
    return f"f:{name}"


def item(keys: Mapping[str, Any]) -> str:
    """Return the element of a list's item with these keys."""
    return "k:" + msgspec.json.encode(dict(sorted(keys.items()))).decode()


def scalar(value: Any) -> str:
    """Return the element of a value in a set."""
    return "v:" + msgspec.json.encode(value).decode()


def encode(paths: Iterable[Path]) -> JSON:
    """Return a set of paths as FieldsV1."""
    root: JSON = {}
    chosen = set(paths)
    for path in sorted(chosen):
        node = root
        for depth, element in enumerate(path, 1):
            inner = node.setdefault(element, {})
            if depth < len(path) and path[:depth] in chosen:
                inner.setdefault(_SELF, {})
            node = inner
    return root


def decode(fields: Any) -> Paths:
    """Return the paths of a FieldsV1.

    Raises:
        MalformedFieldsError: the value is no FieldsV1.
    """
    return frozenset(_decode(fields, ()))


def _decode(fields: Any, path: Path) -> Iterator[Path]:
    if not isinstance(fields, dict):
        raise MalformedFieldsError(f"an object of fields is needed, not {fields!r}")
    for element, inner in fields.items():
        if element == _SELF:
            yield path
            continue
        # No shape here makes an index (i:), but a writer may send managedFields that have one.
        if element[:2] not in {"f:", "k:", "v:", "i:"}:
            raise MalformedFieldsError(f"{element!r} is no element of a path")
        here = (*path, element)
        if inner:
            yield from _decode(inner, here)
        else:
            yield here


def text(path: Sequence[str]) -> str:
    """Return a path as error messages show it: ``.spec.containers[name="web"].image``."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    kind, value = element[:2], element[2:]
    if kind == "f:":
        return f".{value}"
    if kind == "k:":
        keys = msgspec.json.decode(value, type=dict[str, Any])
        shown = (f"{key}={msgspec.json.encode(found).decode()}" for key, found in keys.items())
        return f"[{','.join(shown)}]"
    return f"[={value}]" if kind == "v:" else f"[{value}]"
