"""Parts of an object as YAML for people, without the values of a Secret."""

from __future__ import annotations

from typing import Any

import yaml

from fairlead.api.meta import JSON


MOST_CHARACTERS = 100_000
"""Longest shown part, in characters."""
_UNSHOWN = "Secret"
"""Kind of which no part is shown."""
_Dumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_HIDDEN = ("data", "stringData")
"""Parts of a Secret whose values are never shown."""


def keys_of(body: JSON) -> list[str]:
    """Return the names of a Secret's keys."""
    found = {key for part in _HIDDEN for key in _mapping(body.get(part))}
    return sorted(found)


def parts(body: JSON) -> list[tuple[str, str]]:
    """Return title and YAML of an object's parts: ``spec``, ``status``, others.

    A Secret has none, since its parts contain values.
    """
    if body.get("kind") == _UNSHOWN:
        return []
    known: list[str] = [name for name in ("spec", "status") if name in body]
    known += [name for name in body if name not in {"apiVersion", "kind", "metadata", *known}]
    return [(name, text(body[name])) for name in known]


def text(value: Any) -> str:
    """Return a value as YAML, cut if it is too long."""
    try:
        told = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    except (yaml.YAMLError, RecursionError):
        return "it cannot be shown"
    told = told.removesuffix("...\n").rstrip("\n")
    if len(told) <= MOST_CHARACTERS:
        return told
    return told[:MOST_CHARACTERS].rpartition("\n")[0] + "\n# the rest is not shown"


def _mapping(value: Any) -> JSON:
    return value if isinstance(value, dict) else {}
