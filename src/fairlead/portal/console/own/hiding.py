"""Hiding of passwords and other secrets in an object's fields."""

from __future__ import annotations

import re
from typing import Any, Final

from fairlead.api.meta import JSON


HIDDEN: Final = "(not shown)"
_SECRET: Final = re.compile(
    r"passw(or)?d|secret|token|credential|private.?key|kubeconfig|api.?key", re.IGNORECASE
)
_IN_ADDRESS: Final = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(@)")
_NAMES: Final = re.compile(
    r"(generatedSecret|name|key|namespace|.*(Name|Names|Ref|Refs|Namespace|Policy))", re.ASCII
)
"""Fields that name a Secret or a key, and contain no secret themselves."""


def shown(body: JSON) -> JSON:
    """Return a copy without values of secret fields and without passwords in addresses."""
    found: JSON = _without(body, secret=False)
    return found


def _without(value: Any, *, secret: bool) -> Any:
    if isinstance(value, dict):
        return {
            key: _without(one, secret=_is_secret(key, one, inside=secret))
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_without(one, secret=secret) for one in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if secret and value else _IN_ADDRESS.sub(rf"\1{HIDDEN}\2", value)


def _is_secret(key: str, value: Any, *, inside: bool) -> bool:
    """Whether the texts in a field are secret: its name says so, or that of an outer field."""
    if _SECRET.search(key) or inside:
        # spec.generatedSecret, secretRef.name, secretRef.key and the like are names.
        return isinstance(value, dict | list) or not _NAMES.fullmatch(key)
    return False
