"""Objects as YAML that every reader of Kubernetes' manifests understands alike."""

from __future__ import annotations

import re
from typing import Any

import yaml

from fairlead.api.meta import JSON


_UNSURE = re.compile(
    r"[-+]?\.?[0-9][0-9a-fA-FxXoObBeE_.:+-]*|~|(?i:y|n|yes|no|on|off|true|false|null)"
)
"""Texts without quotes that YAML 1.1, YAML 1.2 or Go's readers take for a number or a boolean."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes no aliases, quotes where readers differ, and keeps lines of texts."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = "'" if _UNSURE.fullmatch(value) else "|" if "\n" in value.strip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(value: Any) -> str:
    """A value as a YAML document, with lists below their names as kubectl has them."""
    written: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return written.removesuffix("...\n")


def manifest(api_version: str, kind: str, metadata: JSON, fields: JSON) -> JSON:
    """The object in the order in which people write it."""
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
