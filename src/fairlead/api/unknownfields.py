"""Detection of fields that a schema lacks: an API server would prune them silently."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec

from fairlead.api.meta import JSON, ObjectMeta


_SHOWN = 3
"""Largest number of unknown fields that a message names."""
_CHOICES = 12
"""Largest number of known fields that a message lists if none is similar."""
# ObjectMeta leaves these out, and an object that a server has returned may have them.
_OF_SERVERS = ("managedFields", "selfLink")
_OPEN = "x-kubernetes-preserve-unknown-fields"


def unknown_fields(body: Mapping[Any, Any], schema: JSON) -> list[str]:
    """Return the fields of an object that its schema lacks, each with the closest known field.

    Args:
        body: a custom resource, or any part of one.
        schema: its structural schema; ``metadata`` has the fields that all objects have, and
            ``status`` is left out, for servers write it.

    Returns:
        One text for each, such as ``spec.grant: there is no such field; did you mean grants?``.
    """
    return list(_of_object(body, schema, ""))


def refusal(body: Mapping[Any, Any], schema: JSON) -> str:
    """Return the first unknown fields in one text, "" for none."""
    fields = unknown_fields(body, schema)
    more = f"; and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return "; ".join(fields[:_SHOWN]) + more


def _of_object(body: Mapping[Any, Any], schema: JSON, path: str) -> Iterator[str]:
    declared: Mapping[str, JSON] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    is_root = not path and "metadata" in declared
    for key, value in body.items():
        # YAML 1.1 makes booleans and numbers of some keys, such as of on.
        name = str(key)
        where = f"{path}.{name}" if path else name
        if is_root and name == "status":
            continue
        if is_root and name == "metadata" and isinstance(value, Mapping):
            unknown = [str(one) for one in value if str(one) not in _metadata()]
            yield from (_message(f"metadata.{one}", one, _metadata()) for one in unknown)
        elif name in declared:
            yield from _of_value(value, declared[name], where)
        elif isinstance(others, dict):
            yield from _of_value(value, others, f"{path}[{name!r}]")
        # A schema that names no fields describes none, and refuses none.
        elif declared and not (others or schema.get(_OPEN)):
            yield _message(where, name, declared)


def _of_value(value: Any, schema: JSON, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from _of_object(value, schema, path)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = schema.get("items") or {}
        for index, item in enumerate(value):
            yield from _of_value(item, items, f"{path}[{index}]")


def _message(where: str, name: str, declared: Collection[str]) -> str:
    # A wrong case is no distance: it is the most likely mistake.
    folded = {one.lower(): one for one in declared}
    close = get_close_matches(name.lower(), folded, n=1)
    if close:
        return f"{where}: there is no such field; did you mean {folded[close[0]]}?"
    names = sorted(declared)
    more = ", ..." if len(names) > _CHOICES else ""
    return f"{where}: there is no such field; there are {', '.join(names[:_CHOICES])}{more}"


@cache
def _metadata() -> frozenset[str]:
    fields = (one.encode_name for one in msgspec.structs.fields(ObjectMeta))
    return frozenset((*fields, *_OF_SERVERS))
