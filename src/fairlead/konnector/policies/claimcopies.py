"""Copies of claimed objects: their content, and the ownership of an object.

A copy on the consumer is owned by the APIServiceBinding that claims it. That tells one provider's
copies from another's, and lets them go with the binding in any case.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_PROVIDER_NAMESPACE,
    ANNOTATION_PROVIDER_UID,
    API_VERSION,
    APISERVICEBINDINGS,
    LABEL_OWNER,
    OWNER_CONSUMER,
    OWNER_PROVIDER,
)
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.konnector.policies.copies import (
    NOT_COPIED,
    Metadata,
    provider_annotations,
    source_annotations,
)


TOKEN_TYPES = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
"""Types of Secrets that give access to the cluster which they are in."""

_KCP_LABEL = "claimed.internal.apis.kcp.io"
_KCP_ANNOTATION = "kcp.io/cluster"
_NOT_PAYLOAD = {"apiVersion", "kind", "metadata", "status"}


def owner_of(obj: Object) -> str:
    """Return the owner label, "" if there is none."""
    return obj.meta.labels.get(LABEL_OWNER, "")


def payload(obj: Object) -> JSON:
    """Return the copied part of an object: all but the fields that belong to one cluster.

    A ServiceAccount's ``secrets`` are filled in by each cluster itself.
    """
    hidden = _NOT_PAYLOAD | ({"secrets"} if obj.kind == "ServiceAccount" else set())
    result = {name: value for name, value in obj.to_dict().items() if name not in hidden}
    return {**result, "labels": obj.meta.labels, "annotations": obj.meta.annotations}


def consumer_copy(provider: Object, crossing: Metadata) -> JSON:
    """Return the payload that the consumer's copy of a provider's object shall have.

    ``crossing`` is what crosses of its labels and annotations.
    """
    return _copied(provider, crossing, OWNER_PROVIDER, provider_annotations(provider.meta))


def provider_copy(consumer: Object, crossing: Metadata, *, cluster_namespace: str) -> JSON:
    """Return the payload that the provider's copy of a consumer's object shall have.

    ``crossing`` is what crosses of its labels and annotations.
    """
    annotations = source_annotations(consumer.meta, cluster_namespace)
    return _copied(consumer, crossing, OWNER_CONSUMER, annotations)


def binding_reference(name: str, uid: str) -> OwnerReference:
    """Return the owner reference of the consumer's copies: the binding that claims them."""
    return OwnerReference(API_VERSION, APISERVICEBINDINGS.kind, name, uid)


def new_body(
    source: Object, content: JSON, *, name: str, namespace: str, owner: OwnerReference | None
) -> JSON:
    """Return the body of a copy that does not exist yet."""
    metadata: JSON = {
        "name": name,
        "namespace": namespace,
        "labels": content["labels"],
        "annotations": content["annotations"],
    }
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    return {
        "apiVersion": source.api_version,
        "kind": source.kind,
        "metadata": metadata,
        **_fields(content),
    }


def replaced_body(target: Object, content: JSON, *, owner: OwnerReference | None) -> JSON:
    """Return the body of a copy that exists: its resourceVersion, owners and finalizers stay."""
    old = target.to_dict()
    fields: JSON = {name: old[name] for name in ("apiVersion", "kind", "secrets") if name in old}
    metadata = {
        **old["metadata"],
        "labels": content["labels"],
        "annotations": content["annotations"],
    }
    if owner is not None and not target.meta.owned_by(owner.uid):
        owners = [*target.meta.owner_references, owner]
        metadata["ownerReferences"] = msgspec.to_builtins(owners)
    return {**fields, "metadata": metadata, **_fields(content)}


def is_consumer_copy(
    consumer: Object, provider: Object | None, *, bindings: frozenset[str]
) -> bool:
    """Whether an object of the consumer is this provider's copy, made for one of its bindings.

    ``bindings`` are their uids. A copy that another konnector made has no owner; it is known by
    the original's uid.
    """
    if owner_of(consumer) != OWNER_PROVIDER:
        return False
    if any(consumer.meta.owned_by(uid) for uid in bindings):
        return True
    # It is owned by a binding that is none of these: it is another provider's copy.
    if any(owner.kind == APISERVICEBINDINGS.kind for owner in consumer.meta.owner_references):
        return False
    annotations = consumer.meta.annotations
    return (
        provider is not None
        and annotations.get(ANNOTATION_PROVIDER_UID) == provider.meta.uid
        and annotations.get(ANNOTATION_PROVIDER_NAMESPACE) == provider.meta.namespace
    )


def must_recreate(target: Object, content: JSON) -> bool:
    """Whether a change of the copy needs a new object: it is immutable, or of another type."""
    old: dict[str, Any] = target.to_dict()
    if "type" in old and old["type"] != content.get("type", old["type"]):
        return True
    if not old.get("immutable"):
        return False
    fields = ("data", "binaryData", "immutable")
    return any(old.get(name) != content.get(name) for name in fields)


def is_token(obj: Object) -> bool:
    """Whether this is a Secret that gives access to its cluster: it never crosses."""
    return obj.kind == "Secret" and obj.to_dict().get("type") in TOKEN_TYPES


def _copied(source: Object, crossing: Metadata, owner: str, annotations: dict[str, str]) -> JSON:
    result = payload(source)
    labels = {name: value for name, value in crossing.labels.items() if _KCP_LABEL not in name}
    fields = {
        name: value
        for name, value in crossing.annotations.items()
        if _KCP_ANNOTATION not in name and name not in NOT_COPIED
    }
    result["labels"] = {**labels, LABEL_OWNER: owner}
    result["annotations"] = {**fields, **annotations}
    return result


def _fields(content: JSON) -> JSON:
    return {
        name: value for name, value in content.items() if name not in {"labels", "annotations"}
    }
