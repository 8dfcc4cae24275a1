"""Objects as YAML for people, without passwords and other secrets."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final

import yaml

from fairlead.api.meta import JSON


MOST_CHARACTERS = 60_000
"""Longest shown part, in characters."""
MOST_LINES = 1500
"""Largest number of lines of each side that are compared; the comparison is quadratic."""
HIDDEN: Final = "(not shown)"
_Dumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Dumper of libyaml if it is installed: pages dump YAML on the event loop."""
_DATA = ("data", "stringData")
"""Parts of a Secret whose values are never shown."""
_SECRET: Final = re.compile(
    r"passw(or)?d|secret|token|credential|private.?key|kubeconfig|api.?key", re.IGNORECASE
)
_IN_ADDRESS: Final = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(@)")
_NAMES: Final = re.compile(
    r"(generatedSecret|name|key|namespace|.*(Name|Names|Ref|Refs|Namespace|Policy))", re.ASCII
)
"""Fields that name a Secret or a key, and contain no secret themselves."""


def keys_of(body: JSON) -> list[str]:
    """Return the names of a Secret's keys, [] for other kinds."""
    if not _is_secret(body):
        return []
    parts = (body.get(part) for part in _DATA)
    return sorted({key for part in parts if isinstance(part, dict) for key in part})


def parts(body: JSON) -> tuple[tuple[str, str], ...]:
    """Return title and YAML of an object's parts: ``spec``, ``status``, others.

    A Secret has none, since its parts contain values.
    """
    if _is_secret(body):
        return ()
    first = [name for name in ("spec", "status") if name in body]
    rest = [name for name in body if name not in {"apiVersion", "kind", "metadata", *first}]
    return tuple((name, text(masked(body[name], name))) for name in (*first, *rest))


def difference(former: JSON, latter: JSON, names: tuple[str, str]) -> tuple[str, ...]:
    """Return the lines of a unified diff of spec and status; () if both are equal.

    Args:
        former: the object of the first cluster.
        latter: its copy in the other cluster.
        names: names of the two clusters.
    """
    first, second = (
        text({part: masked(body.get(part) or {}, part) for part in ("spec", "status")}, sort=True)
        for body in (former, latter)
    )
    lines = difflib.unified_diff(
        first.splitlines()[:MOST_LINES],
        second.splitlines()[:MOST_LINES],
        *names,
        n=2,
        lineterm="",
    )
    return tuple(lines)


def text(value: Any, *, sort: bool = False) -> str:
    """Return a value as YAML, cut if it is too long."""
    try:
        dumped: str = yaml.dump(
            value, Dumper=_Dumper, sort_keys=sort, allow_unicode=True, width=100
        )
    except (yaml.YAMLError, RecursionError):
        return "it cannot be shown"
    dumped = dumped.removesuffix("...\n").rstrip("\n")
    if len(dumped) <= MOST_CHARACTERS:
        return dumped
    return dumped[:MOST_CHARACTERS].rpartition("\n")[0] + "\n# the rest is not shown"


def masked(value: Any, field: str = "") -> Any:
    """Return a copy without values of secret fields and without passwords in addresses.

    ``field`` is the name of the field that has the value.
    """
    return _masked(value, secret=bool(field) and _hides(field, value, inside=False))


def _masked(value: Any, *, secret: bool) -> Any:
    if isinstance(value, dict):
        return {
            key: _masked(inner, secret=_hides(str(key), inner, inside=secret))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner, secret=secret) for inner in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if secret and value else _IN_ADDRESS.sub(rf"\1{HIDDEN}\2", value)


def _hides(key: str, value: Any, *, inside: bool) -> bool:
    """Whether the texts in a field are secret: its name says so, or that of an outer field."""
    if _SECRET.search(key) or inside:
        # spec.generatedSecret, secretRef.name, secretRef.key and the like are names.
        return isinstance(value, dict | list) or not _NAMES.fullmatch(key)
    return False


def _is_secret(body: JSON) -> bool:
    return body.get("kind") == "Secret"
