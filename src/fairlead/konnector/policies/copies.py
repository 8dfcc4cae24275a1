"""Copies on the provider: their content, and the ownership of an object there.

Annotations and finalizer: kube-bind v1alpha2, the protocol on objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from fairlead.api.kbind import names as kbind
from fairlead.api.kubebind.names import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_DELETION_POLICY,
    ANNOTATION_PROVIDER_NAMESPACE,
    ANNOTATION_PROVIDER_UID,
    DELETION_POLICY_ORPHAN,
    GROUP,
)
from fairlead.api.meta import JSON, Key, Object, ObjectMeta


SERVER_SET = frozenset(
    {
        "uid",
        "resourceVersion",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "creationTimestamp",
        "generation",
        "generateName",
        "selfLink",
    }
)
"""Metadata that belongs to one cluster and is never copied to another."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

NOT_COPIED = frozenset(
    {
        LAST_APPLIED,
        ANNOTATION_PROVIDER_NAMESPACE,
        ANNOTATION_PROVIDER_UID,
    }
)
"""Annotations about the consumer's object alone, which its copy does not get."""

_PROTOCOLS = (f"{GROUP}/", f"{kbind.GROUP}/")
"""Prefixes of the keys of both protocols, each of which is about objects of one cluster."""
_NOT_PAYLOAD = ("apiVersion", "kind", "metadata", "status")


class Metadata(NamedTuple):
    """Labels and annotations of an object."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


_raw_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Status(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw()


_status = msgspec.json.Decoder(_Status)


def status_of(obj: Object) -> Any:
    """Return the decoded ``status``, or None if there is none."""
    raw = obj.decode(_Status).status
    return msgspec.json.decode(raw) if raw else None


def source_annotations(consumer: ObjectMeta, cluster_namespace: str) -> dict[str, str]:
    """Return a provider copy's annotations about its original; the namespace may be empty."""
    return {
        ANNOTATION_CLUSTER_NAMESPACE: cluster_namespace,
        ANNOTATION_CONSUMER_NAMESPACE: consumer.namespace,
        ANNOTATION_CONSUMER_UID: consumer.uid,
    }


def provider_annotations(provider: ObjectMeta) -> dict[str, str]:
    """Return a consumer object's annotations about its copy."""
    return {
        ANNOTATION_PROVIDER_NAMESPACE: provider.namespace,
        ANNOTATION_PROVIDER_UID: provider.uid,
    }


def belongs(provider: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object of the provider is this consumer's to write.

    An object without our annotation may be the provider's own.
    """
    return provider.annotations.get(ANNOTATION_CLUSTER_NAMESPACE) == cluster_namespace


def is_ours(provider: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object of the provider is a copy that goes when its original goes.

    A released copy has lost the uid of its original.
    """
    return belongs(provider, cluster_namespace) and ANNOTATION_CONSUMER_UID in provider.annotations


def says_nothing(provider: ObjectMeta) -> bool:
    """Whether an object of the provider carries no consumer's annotation."""
    return ANNOTATION_CLUSTER_NAMESPACE not in provider.annotations


def is_recorded(consumer: ObjectMeta, provider: ObjectMeta) -> bool:
    """Whether the annotations of the consumer's object name this provider object as its copy.

    They are written only while the copy's annotations name the consumer's object.
    """
    return provider_annotations(provider).items() <= consumer.annotations.items()


def is_foreign(provider: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object of the provider is another consumer's copy."""
    owner = provider.annotations.get(ANNOTATION_CLUSTER_NAMESPACE, cluster_namespace)
    return owner != cluster_namespace


def is_system(namespace: str) -> bool:
    """Whether Kubernetes reserves the name of a namespace for itself."""
    return namespace.startswith("kube-")


def is_orphan(consumer: ObjectMeta) -> bool:
    """Whether the copy of an object is kept when the object is deleted."""
    return consumer.annotations.get(ANNOTATION_DELETION_POLICY) == DELETION_POLICY_ORPHAN


def payload(obj: Object, metadata: Metadata | None = None) -> JSON:
    """Return the part of an object that follows the consumer, as one JSON value.

    It has labels, annotations and all members but the status; neither fields of one cluster nor
    kube-bind's own keys. ``metadata`` replaces the object's own labels and annotations.
    """
    result = {name: value for name, value in obj.to_dict().items() if name not in _NOT_PAYLOAD}
    meta = obj.meta if metadata is None else metadata
    followed = {"labels": _followed(meta.labels), "annotations": _followed(meta.annotations)}
    return {**result, "metadata": followed}


def put_at(body: JSON, key: Key, owner: JSON | None) -> JSON:
    """Return the body of a copy with its provider key; ``owner`` is an owner reference."""
    metadata: JSON = {**body["metadata"], "name": key.name}
    metadata.pop("namespace", None)
    if key.namespace:
        metadata["namespace"] = key.namespace
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {**body, "metadata": metadata}


def same_payload(consumer: Object, provider: Object, crossing: Metadata) -> bool:
    """Whether both payloads are equal byte by byte; False is inconclusive.

    ``crossing`` is what crosses of the labels and annotations of the consumer's object.
    """
    left, right = crossing, provider.meta
    return (
        (left.labels == right.labels or _followed(left.labels) == _followed(right.labels))
        and _followed(left.annotations) == _followed(right.annotations)
        and _members(consumer) == _members(provider)
    )


def has_more(copy: Any, original: Any) -> bool:
    """Whether a copy has members or items that its original lacks, at any depth."""
    if isinstance(copy, dict) and isinstance(original, dict):
        return any(
            name not in original or has_more(value, original[name]) for name, value in copy.items()
        )
    if isinstance(copy, list) and isinstance(original, list):
        return any(item not in original for item in copy)
    return False


def copy_of(consumer: Object, cluster_namespace: str, crossing: Metadata | None = None) -> JSON:
    """Return the body of a new provider copy, still under the consumer's name.

    ``crossing`` is what crosses of its labels and annotations, None for all. Its members but the
    metadata are as they were encoded.
    """
    body: JSON = {**_raw_members.decode(consumer.raw)}
    body.pop("status", None)
    parts = msgspec.json.decode(body["metadata"])
    metadata = {name: value for name, value in parts.items() if name not in SERVER_SET}
    labels, annotations = crossing or (consumer.meta.labels, consumer.meta.annotations)
    if "labels" in metadata:
        metadata["labels"] = _followed(labels)
    annotations = _followed(annotations)
    annotations |= source_annotations(consumer.meta, cluster_namespace)
    body["metadata"] = {**metadata, "annotations": annotations}
    return body


def with_payload(provider: Object, new: JSON, annotations: dict[str, str]) -> JSON:
    """Return the whole provider object with another payload and our annotations, for a PUT.

    It keeps uid and resourceVersion of the object that was seen: the server refuses it with 409
    for a later version, or for another object under the name. A PUT takes away what the consumer
    took away, which a patch by another manager could not.
    """
    body = provider.to_dict()
    metadata = {**body["metadata"]}
    # For a body without managedFields a server goes on from those that it has stored.
    metadata.pop("managedFields", None)
    for field, more in (("labels", {}), ("annotations", annotations)):
        old = metadata.pop(field, None) or {}
        fields = {name: value for name, value in old.items() if not _follows(name)}
        if values := {**fields, **new["metadata"][field], **more}:
            metadata[field] = values
    fixed = {name: body[name] for name in _NOT_PAYLOAD if name in body}
    return {**fixed, **new, "metadata": metadata}


def let_go(provider: Object) -> JSON:
    """Return the provider's object without the marks that tie it to its original, for a PUT."""
    body = provider.to_dict()
    annotations = dict(provider.meta.annotations)
    annotations.pop(ANNOTATION_CONSUMER_UID, None)
    body["metadata"] = {**body["metadata"], "annotations": annotations}
    return body


def with_status(consumer: Object, provider: Object) -> JSON:
    """Return the consumer's object with the provider's status, for a PUT of the subresource.

    A server takes nothing else from it (Kubernetes API conventions, "Spec and Status"), so it has
    nothing else but what names the object and its version.
    """
    meta = consumer.meta
    metadata = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
    if meta.namespace:
        metadata["namespace"] = meta.namespace
    body: JSON = {"apiVersion": consumer.api_version, "kind": consumer.kind, "metadata": metadata}
    status = _status.decode(provider.raw).status
    if status and bytes(status) != b"null":
        body["status"] = status
    return body


def same_status(consumer: Object, provider: Object) -> bool:
    """Whether both statuses are equal byte by byte; False is inconclusive."""
    return _status.decode(consumer.raw).status == _status.decode(provider.raw).status


def _followed(keys: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in keys.items() if _follows(name)}


def _follows(name: str) -> bool:
    return name != LAST_APPLIED and not name.startswith(_PROTOCOLS)


def _members(obj: Object) -> dict[str, msgspec.Raw]:
    members = _raw_members.decode(obj.raw)
    for name in _NOT_PAYLOAD:
        members.pop(name, None)
    return members
