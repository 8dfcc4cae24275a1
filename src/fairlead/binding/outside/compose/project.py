"""Compose files: the parts that may conflict with a binding."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.binding.outside.documents import Document, DocumentError


_SECRETS = "/run/secrets"
_MOUNTS = {"volumes": "", "tmpfs": "", "secrets": _SECRETS, "configs": "/"}
"""Fields of a service with mounts, and the directory of relative targets."""


class ProjectService(msgspec.Struct):
    """A service, merged from all files.

    ``environment`` has None for a value from the shell; ``mounts`` are the used paths in the
    container.
    """

    name: str
    labels: dict[str, str] = {}
    environment: dict[str, str | None] = {}
    mounts: list[str] = []


class Project(msgspec.Struct):
    """Services by name, and the names of secrets in the files."""

    services: dict[str, ProjectService] = {}
    secrets: set[str] = set()


def is_compose(document: Document) -> bool:
    """Whether ``document`` is a Compose file and not a Kubernetes object."""
    return not {"apiVersion", "kind"} & document.body.keys() and "services" in document.body


def project(files: Iterable[Document]) -> Project:
    """Merge Compose files; later ones add to earlier ones.

    Raises:
        DocumentError: a file does not follow the Compose specification; the text names the field.
    """
    result = Project()
    for document in files:
        for name, body in _entries(document, document.body, "services").items():
            service = result.services.setdefault(name, ProjectService(name))
            _read(document, service, f"services.{name}", body)
        result.secrets |= _entries(document, document.body, "secrets").keys()
    return result


def _read(document: Document, service: ProjectService, field: str, body: Any) -> None:
    if not isinstance(body, dict):
        raise _wrong(document, field, "a service must be an object")
    service.labels |= {
        name: value or ""
        for name, value in _pairs(document, f"{field}.labels", body.get("labels"))
    }
    service.environment |= dict(_pairs(document, f"{field}.environment", body.get("environment")))
    for kind, folder in _MOUNTS.items():
        service.mounts += _mounts(document, f"{field}.{kind}", body.get(kind), folder)


def _entries(document: Document, body: JSON, field: str) -> JSON:
    value = body.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise _wrong(document, field, "it must be an object with names as keys")
    return value


def _pairs(document: Document, field: str, value: Any) -> Iterator[tuple[str, str | None]]:
    """Yield names and values of an object, or of a list of ``NAME=value``."""
    if isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, dict | list):
                raise _wrong(document, f"{field}.{name}", "it must be a text, a number or null")
            yield str(name), _text(item)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if not isinstance(item, str):
                raise _wrong(document, f"{field}[{number}]", "it must be a text NAME=value")
            name, sign, text = item.partition("=")
            yield name, text if sign else None
    elif value is not None:
        raise _wrong(document, field, "it must be an object or a list")


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        # YAML's booleans: Compose passes them on as true and false.
        return str(value).lower()
    return None if value is None else str(value)


def _mounts(document: Document, field: str, value: Any, folder: str) -> Iterator[str]:
    """Yield the target paths of volumes, tmpfs, secrets and configs in any form."""
    several = [value] if isinstance(value, str) else value or []
    if not isinstance(several, list):
        raise _wrong(document, field, "it must be a list")
    for number, mount in enumerate(several):
        target: Any = None
        if isinstance(mount, str):
            # source:target:mode, or target:options of tmpfs.
            parts = mount.split(":")
            target = parts[1] if len(parts) > 1 and not field.endswith(".tmpfs") else parts[0]
        elif isinstance(mount, dict):
            # Without a target Compose mounts a secret or config under the name of its source.
            target = mount.get("target") or mount.get("source") or ""
        if not isinstance(target, str):
            raise _wrong(document, f"{field}[{number}]", "it must be a text or an object")
        if target:
            # An absolute target stays as it is.
            yield posixpath.normpath(posixpath.join(folder, target))


def _wrong(document: Document, field: str, text: str) -> DocumentError:
    return DocumentError(f"{document.origin}: {field}: {text}")
