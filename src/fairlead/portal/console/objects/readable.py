"""Parts of an object as people read them, in YAML, without what a Secret holds."""

from __future__ import annotations

from typing import Any

import yaml

from fairlead.api.meta import JSON


MOST_CHARACTERS = 100_000
"""Characters of one part that are shown."""
_UNSHOWN = "Secret"
_Dumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_HIDDEN = ("data", "stringData")


def keys_of(body: JSON) -> list[str]:
    """The names of a Secret's keys."""
    found = {key for part in _HIDDEN for key in _mapping(body.get(part))}
    return sorted(found)


def parts(body: JSON) -> list[tuple[str, str]]:
    """Title and text of each part of an object that pages show: ``spec``, ``status``, others.

    Of a Secret no part with values is among them.
    """
    if body.get("kind") == _UNSHOWN:
        return []
    known: list[str] = [name for name in ("spec", "status") if name in body]
    known += [name for name in body if name not in {"apiVersion", "kind", "metadata", *known}]
    return [(name, text(body[name])) for name in known]


def text(value: Any) -> str:
    """A value in YAML, cut off where it is very long."""
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
