"""Options of a binding in annotations, since neither Service Binding API has fields for them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from fairlead.api.servicebinding.common import ROOT_VARIABLE


DEFAULT_MODE_ANNOTATION = "servicebinding.io/default-mode"
"""Annotation: mode of the files, in octal digits such as "0400"."""

ROLL_ANNOTATION = "servicebinding.io/roll-on-change"
"""Annotation: with "true" Pods are replaced when the service's own projected Secret changes."""

ENVIRONMENT_ANNOTATION = "servicebinding.io/bind-as-env"
"""Annotation: with "true" all entries are environment variables as well as files."""

CLIENT_ANNOTATION = "servicebinding.io/client"
"""Annotation: the client library whose variables containers get, with the paths of its files."""

NAMED_CLIENTS = ("url", "jdbc", "npgsql")
"""Values of the annotation that may be followed by ``=`` and the name of a variable."""

CLIENTS = ("libpq", *NAMED_CLIENTS)
"""Values of the annotation."""

# Without a fourth digit, which would be setuid, setgid or sticky.
_MODE = re.compile("0?[0-7]{3}")
# Names that every Kubernetes takes: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_BOOLEANS = {"": False, "false": False, "true": True}


class DatabaseClient(msgspec.Struct, frozen=True):
    """A client library by its value of the annotation; ``variable`` is "" for the default."""

    name: str
    variable: str = ""


class Wishes(msgspec.Struct, frozen=True):
    """Options of one binding; with ``mode`` None the API server chooses the mode of the files."""

    mode: int | None = None
    roll: bool = False
    environment: bool = False
    client: DatabaseClient | None = None


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
        client=_client(annotations.get(CLIENT_ANNOTATION, "")),
    )


def _client(value: str) -> DatabaseClient | None:
    if not value:
        return None
    name, named, variable = value.partition("=")
    if name not in CLIENTS:
        raise ValueError(
            f"annotation {CLIENT_ANNOTATION} is {value!r}: it can be {', '.join(CLIENTS)}"
        )
    if named and name not in NAMED_CLIENTS:
        raise ValueError(
            f"annotation {CLIENT_ANNOTATION} is {value!r}: {name} reads only variables with its"
            f" own names; write {name}, or url=NAME for a variable of another name"
        )
    if named and (not _VARIABLE.fullmatch(variable) or variable == ROOT_VARIABLE):
        raise ValueError(
            f"annotation {CLIENT_ANNOTATION} is {value!r}: give the name of a variable after =, "
            "of letters, digits, '_', '-' and '.', not beginning with a digit, and not "
            f"{ROOT_VARIABLE}"
        )
    return DatabaseClient(name, variable)


def _boolean(annotations: Mapping[str, str], name: str) -> bool:
    value = annotations.get(name, "")
    if value not in _BOOLEANS:
        raise ValueError(f'annotation {name} is {value!r}: it can be "true" or "false"')
    return _BOOLEANS[value]
