"""Reading of PostgresAccesses from manifests or from the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from fairlead.api import unknownfields, yamltext
from fairlead.api.crd import object_schema
from fairlead.api.decoding import field_message
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess
from fairlead.api.timestamps import now
from fairlead.client import Forbidden
from fairlead.postgres import bounds
from fairlead.postgres.commands.surroundings import Surroundings, get_access, list_installed
from fairlead.postgres.controllers.rules.desired import decode_access
from fairlead.postgres.errors import AccessError


_LISTS = {"List", "PostgresAccessList"}


class ManifestError(ValueError):
    """The file is no manifest of PostgresAccesses; the message names document and fault."""


class Manifests(NamedTuple):
    """The PostgresAccesses of a file; ``others`` are its other objects, as kind and name."""

    accesses: list[PostgresAccess]
    others: list[str]


class Given(NamedTuple):
    """One access to examine; ``problem`` is set where it cannot be decoded."""

    name: str
    access: PostgresAccess | None
    problem: AccessError | None = None


def read_manifests(content: bytes, namespace: str) -> Manifests:
    """Return the PostgresAccesses in YAML or JSON of one or several documents.

    Args:
        content: the content of the file.
        namespace: the namespace of the accesses that name none.

    Raises:
        ManifestError: the file is no YAML or JSON, or a document in it is invalid.
    """
    if len(content) > bounds.FILE_BYTES:
        raise ManifestError(f"it has more than {bounds.FILE_BYTES >> 20} MiB")
    try:
        # A few lines of aliases may expand to gigabytes.
        documents = yamltext.load_all(content, aliases=False, max_depth=bounds.FILE_LEVELS)
    except (yamltext.YAMLError, ValueError) as error:
        raise ManifestError(f"it {yamltext.refusal(error)}") from None
    manifests = Manifests([], [])
    for number, document in enumerate(documents, 1):
        for body in _bodies(document, f"document {number}"):
            _sort(manifests, body, f"document {number}", namespace)
    return manifests


def _bodies(document: Any, where: str) -> Iterator[JSON]:
    if document is None:
        return
    if not isinstance(document, Mapping):
        raise ManifestError(f"{where} is not a Kubernetes object")
    body = _strings(document)
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in _LISTS:
        yield body
        return
    items = body.get("items")
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            raise ManifestError(f"{where} lists an item that is not a Kubernetes object")
        yield item


def _strings(value: Any) -> Any:
    """Return the value with text keys, as an API server reads YAML: a bare ``on`` is ``true``."""
    if isinstance(value, Mapping):
        return {_key(key): _strings(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_strings(one) for one in value]
    return value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _sort(manifests: Manifests, body: JSON, where: str, namespace: str) -> None:
    kind, version = body.get("kind"), body.get("apiVersion")
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not kind or not isinstance(kind, str):
        raise ManifestError(f"{where} is not a Kubernetes object: it has no kind")
    if kind != POSTGRESACCESSES.kind:
        manifests.others.append(f"{kind} {name or ''}".strip())
        return
    if version != POSTGRESACCESSES.api_version:
        raise ManifestError(
            f"{where}: apiVersion of a PostgresAccess is {POSTGRESACCESSES.api_version}"
        )
    if not name or not isinstance(name, str):
        raise ManifestError(f"{where}: metadata.name is missing")
    # An API server ignores the status in a manifest: it is a subresource.
    body.pop("status", None)
    if why := unknownfields.refusal(body, object_schema(PostgresAccess)):
        raise ManifestError(f"{where}: PostgresAccess {name}: {why}")
    try:
        access = msgspec.convert(body, PostgresAccess)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: PostgresAccess {name}: {field_message(error)}") from None
    meta = access.metadata
    meta.namespace = meta.namespace or namespace
    # Only an API server sets these fields; a manifest may be a copy of another object.
    meta.uid, meta.creation_timestamp, meta.deletion_timestamp = "", None, None
    if any(one.metadata.key == meta.key for one in manifests.accesses):
        raise ManifestError(f"{where}: PostgresAccess {meta.key} is there twice")
    manifests.accesses.append(access)


async def as_applied(around: Surroundings, accesses: Sequence[PostgresAccess]) -> list[Given]:
    """Return the accesses as they would be once applied: with uid, annotations and status."""
    return [await _as_applied(around, access) for access in accesses]


async def _as_applied(around: Surroundings, access: PostgresAccess) -> Given:
    key = access.metadata.key
    try:
        obj = await get_access(around.client, key.name, key.namespace)
    except Forbidden:
        around.notes.append(
            f"you may not read PostgresAccess {key}: the command takes it for a new one"
        )
        obj = None
    given = Given(str(key), access)
    if obj is None:
        # spec.expiresAfter counts from the creation.
        access.metadata.creation_timestamp = now()
        return given
    defaults = given_of(obj)
    if defaults.access is None:
        return given
    # As kubectl apply does, which leaves the uid, the status and annotations of others.
    merged = msgspec.structs.replace(
        access,
        metadata=msgspec.structs.replace(
            defaults.access.metadata,
            labels=access.metadata.labels,
            annotations={**defaults.access.metadata.annotations, **access.metadata.annotations},
        ),
        status=defaults.access.status,
    )
    return given._replace(access=merged)


async def in_cluster(around: Surroundings, namespace: str) -> list[Given]:
    """Return the PostgresAccesses of a namespace, "" for all namespaces, the oldest first.

    Raises:
        NotInstalledError: the server does not know the kind.
        ClientError: the server refused the request or cannot be reached.
    """
    objects = await list_installed(around.client, POSTGRESACCESSES, namespace)
    # Among rivals the oldest access gets the username, see database.plans.snapshot.
    objects.sort(key=lambda obj: (obj.meta.creation_timestamp or "", obj.key))
    return [given_of(one) for one in objects]


def given_of(obj: Object) -> Given:
    """Return the access of an object in the cluster, or the problem with its fields."""
    try:
        return Given(str(obj.key), decode_access(obj))
    except AccessError as error:
        return Given(str(obj.key), None, error)
