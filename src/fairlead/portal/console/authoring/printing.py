"""Objects as YAML that YAML 1.1, YAML 1.2 and Kubernetes' readers parse alike."""

from __future__ import annotations

import re
from typing import Any

import yaml

from fairlead.api.meta import JSON


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


def as_yaml(value: Any) -> str:
    """Return a value as a YAML document, with lists indented as kubectl does."""
    # A width without limit: folded text is hard to edit.
    written: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return written.removesuffix("...\n")


def manifest(api_version: str, kind: str, metadata: JSON, fields: JSON) -> JSON:
    """Return the object with its fields in the usual order."""
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
