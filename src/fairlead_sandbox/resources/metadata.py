"""Rules for ``metadata`` of every kind: names, labels, immutable fields, finalizers."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from fairlead.api.label_names import label_value_errors, qualified_name_errors, subdomain_errors
from fairlead.api.meta import JSON
from fairlead.api.timestamps import now
from fairlead_sandbox import errors
from fairlead_sandbox.schema.errors import FieldError, forbidden, invalid, required, too_long


NameRule = Callable[[str], list[str]]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# The two spaces after a comma stand in Kubernetes' messages too, here and below.
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_ANNOTATION_BYTES = 256 * 1024
"""Maximum size of an object's annotations, keys and values together, in bytes."""
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of a generated name's suffix; without vowels they form no words."""
_STANDARD_FINALIZERS = {"kubernetes", "orphan", "foregroundDeletion"}
"""Finalizers of built-in kinds that need no domain."""


def label_name(name: str) -> list[str]:
    """Return the errors of a name that must be an RFC 1123 label, such as a namespace's."""
    problems = ["must be no more than 63 characters"] if len(name) > 63 else []
    if _LABEL.fullmatch(name):
        return problems
    return [*problems, _LABEL_TEXT if subdomain_errors(name) else "must not contain dots"]


def service_name(name: str) -> list[str]:
    """Return the errors of a Service's name, which must be an RFC 1035 label."""
    problems = ["must be no more than 63 characters"] if len(name) > 63 else []
    return problems if _LABEL_1035.fullmatch(name) else [*problems, _LABEL_1035_TEXT]


def path_segment_name(name: str) -> list[str]:
    """Return the errors of an RBAC object's name, which may be any segment of a path."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in name]


def generated_name(prefix: str) -> str:
    """Return ``generateName`` with five random letters, as kube-apiserver adds them."""
    # The prefix is cut so that the name has at most 63 characters, the limit of a label.
    return prefix[:58] + "".join(secrets.choice(_SUFFIX) for _ in range(5))


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Types(msgspec.Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[_Owner] = []
    finalizers: list[str] = []


def take_metadata(body: JSON) -> JSON:
    """Return the body's metadata with checked types and without null and empty members.

    Raises:
        StatusError: 400, a member has a wrong type.
    """
    metadata = body.get("metadata") or {}
    try:
        msgspec.convert(_without_nulls(metadata), _Types)
    except msgspec.ValidationError as error:
        text = f"metadata cannot be read: {error}".replace("$.", "metadata.")
        raise errors.bad_request(text) from None
    metadata = _without_nulls(metadata)
    # The write works out the owners itself. selfLink has not been set since Kubernetes 1.20.
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not metadata.get(name, True):
            del metadata[name]
    if not metadata.get("namespace", True):
        del metadata["namespace"]
    body["metadata"] = metadata
    return metadata


def _without_nulls(metadata: Any) -> JSON:
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata cannot be read: expected an object")
    return {key: value for key, value in metadata.items() if value is not None}


def stamp(metadata: JSON) -> None:
    """Set uid and creation time of a new object, and drop fields that only the server sets."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now()


def validate_metadata(metadata: JSON, rule: NameRule, *, custom: bool) -> list[FieldError]:
    """Return the errors in the metadata of a new object, whose name is generated already.

    Finalizers of custom resources need no domain.
    """
    field_errors = list(_validate_name(metadata, rule))
    field_errors += _validate_labels(metadata.get("labels") or {})
    field_errors += _validate_annotations(metadata.get("annotations") or {})
    field_errors += _validate_owners(metadata.get("ownerReferences") or [])
    field_errors += _validate_finalizers(metadata.get("finalizers") or [], custom=custom)
    return field_errors


def _validate_name(metadata: JSON, rule: NameRule) -> Iterator[FieldError]:
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    prefix = metadata.get("generateName", "")
    if prefix:
        # A generateName may end in a dash, unlike a name, because letters are appended.
        for text in rule(prefix.removesuffix("-") or prefix):
            yield invalid("metadata.generateName", prefix, text)
    for text in rule(name):
        yield invalid("metadata.name", name, text)


def _validate_labels(labels: JSON) -> Iterator[FieldError]:
    for key, value in labels.items():
        for text in qualified_name_errors(key):
            yield invalid("metadata.labels", key, text)
        for text in label_value_errors(value):
            yield invalid("metadata.labels", value, text)


def _validate_annotations(annotations: JSON) -> Iterator[FieldError]:
    for key in annotations:
        # Kubernetes lowers the keys of annotations before it checks them.
        for text in qualified_name_errors(key.lower()):
            yield invalid("metadata.annotations", key.lower(), text)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > (
        _ANNOTATION_BYTES
    ):
        yield too_long("metadata.annotations", _ANNOTATION_BYTES)


def _validate_owners(owners: list[JSON]) -> Iterator[FieldError]:
    path = "metadata.ownerReferences"
    if sum(1 for owner in owners if owner.get("controller")) > 1:
        yield invalid(path, owners, "Only one reference can have Controller set to true")
    for index, owner in enumerate(owners):
        for member in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(member):
                yield required(f"{path}[{index}].{member}", "must not be empty")


def _validate_finalizers(finalizers: list[str], *, custom: bool) -> Iterator[FieldError]:
    for index, finalizer in enumerate(finalizers):
        field = f"metadata.finalizers[{index}]"
        for text in qualified_name_errors(finalizer):
            yield invalid(field, finalizer, text)
        if not custom and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(field, finalizer, text)


def carry_over(metadata: JSON, old: JSON) -> None:
    """Copy the fields that an update cannot change from the old object."""
    # Only where they are missing. Another uid stays, so that validation refuses it.
    for name in ("creationTimestamp", "uid", "generateName"):
        if name in old and not metadata.get(name):
            metadata[name] = old[name]
    for name in (
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ):
        metadata.pop(name, None)
        if name in old:
            metadata[name] = old[name]


def validate_metadata_update(metadata: JSON, old: JSON, *, custom: bool) -> list[FieldError]:
    """Return the errors in an update's metadata, after :func:`carry_over`."""
    field_errors = []
    if metadata.get("uid") != old.get("uid"):
        field_errors.append(invalid("metadata.uid", metadata.get("uid"), "field is immutable"))
    if old.get("deletionTimestamp"):
        added = sorted(set(metadata.get("finalizers") or []) - set(old.get("finalizers") or []))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            text = (
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{{{shown}}}"
            )
            field_errors.append(forbidden("metadata.finalizers", text))
    field_errors += _validate_labels(metadata.get("labels") or {})
    field_errors += _validate_annotations(metadata.get("annotations") or {})
    field_errors += _validate_owners(metadata.get("ownerReferences") or [])
    field_errors += _validate_finalizers(metadata.get("finalizers") or [], custom=custom)
    return field_errors
