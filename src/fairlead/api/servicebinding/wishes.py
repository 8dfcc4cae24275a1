"""Options of a binding in annotations, since neither Service Binding API has fields for them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec


DEFAULT_MODE_ANNOTATION = "servicebinding.io/default-mode"
"""Annotation: mode of the files, in octal digits such as "0400"."""

ROLL_ANNOTATION = "servicebinding.io/roll-on-change"
"""Annotation: with "true" Pods are replaced when the service's own projected Secret changes."""

ENVIRONMENT_ANNOTATION = "servicebinding.io/bind-as-env"
"""Annotation: with "true" all entries are environment variables as well as files."""

# Without a fourth digit, which would be setuid, setgid or sticky.
_MODE = re.compile("0?[0-7]{3}")
_BOOLEANS = {"": False, "false": False, "true": True}


class Wishes(msgspec.Struct, frozen=True):
    """Options of one binding; with ``mode`` None the API server chooses the mode of the files."""

    mode: int | None = None
    roll: bool = False
    environment: bool = False


def read_wishes(annotations: Mapping[str, str]) -> Wishes:
    """Return the options in the annotations of a binding.

    Raises:
        ValueError: the value of an annotation is invalid; the text names the annotation.
    """
    mode = annotations.get(DEFAULT_MODE_ANNOTATION, "")
    if mode and not _MODE.fullmatch(mode):
        raise ValueError(
            f"annotation {DEFAULT_MODE_ANNOTATION} is {mode!r}: give the mode in three octal "
            "digits, such as 0400"
        )
    return Wishes(
        mode=int(mode, 8) if mode else None,
        roll=_boolean(annotations, ROLL_ANNOTATION),
        environment=_boolean(annotations, ENVIRONMENT_ANNOTATION),
    )


def _boolean(annotations: Mapping[str, str], name: str) -> bool:
    value = annotations.get(name, "")
    if value not in _BOOLEANS:
        raise ValueError(f'annotation {name} is {value!r}: it can be "true" or "false"')
    return _BOOLEANS[value]
