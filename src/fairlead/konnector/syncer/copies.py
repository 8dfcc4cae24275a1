"""What a copy on the provider is made of, and whose copy an object there is.

Annotations and finalizer: kube-bind v1alpha2, the protocol on objects.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.kubebind_names import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_PROVIDER_NAMESPACE,
    ANNOTATION_PROVIDER_UID,
)
from fairlead.api.meta import JSON, Object, ObjectMeta


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

NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        ANNOTATION_PROVIDER_NAMESPACE,
        ANNOTATION_PROVIDER_UID,
    }
)
"""Annotations that say something about the consumer's object alone."""


class _Spec(msgspec.Struct):
    spec: msgspec.Raw = msgspec.Raw()


class _Status(msgspec.Struct):
    status: msgspec.Raw = msgspec.Raw()


def spec_of(obj: Object) -> Any:
    """The decoded ``spec``, or None when there is none."""
    raw = obj.decode(_Spec).spec
    return msgspec.json.decode(raw) if raw else None


def status_of(obj: Object) -> Any:
    """The decoded ``status``, or None when there is none."""
    raw = obj.decode(_Status).status
    return msgspec.json.decode(raw) if raw else None


def source_annotations(consumer: ObjectMeta, cluster_namespace: str) -> dict[str, str]:
    """What says on a provider copy where it came from; the namespace may be empty."""
    return {
        ANNOTATION_CLUSTER_NAMESPACE: cluster_namespace,
        ANNOTATION_CONSUMER_NAMESPACE: consumer.namespace,
        ANNOTATION_CONSUMER_UID: consumer.uid,
    }


def provider_annotations(provider: ObjectMeta) -> dict[str, str]:
    """What says on a consumer's object where its copy is."""
    return {
        ANNOTATION_PROVIDER_NAMESPACE: provider.namespace,
        ANNOTATION_PROVIDER_UID: provider.uid,
    }


def is_ours(provider: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object of the provider is a copy that this consumer made."""
    found = provider.annotations
    return (
        found.get(ANNOTATION_CLUSTER_NAMESPACE) == cluster_namespace
        and ANNOTATION_CONSUMER_UID in found
    )


def is_foreign(provider: ObjectMeta, cluster_namespace: str) -> bool:
    """Whether an object of the provider is another consumer's copy."""
    found = provider.annotations.get(ANNOTATION_CLUSTER_NAMESPACE, cluster_namespace)
    return found != cluster_namespace


def copy_of(consumer: Object, cluster_namespace: str) -> JSON:
    """The body of a new provider copy, still under the consumer's name.

    Labels, annotations and top-level fields other than the status are copied at creation only.
    """
    body = consumer.to_dict()
    body.pop("status", None)
    metadata = {name: value for name, value in body["metadata"].items() if name not in SERVER_SET}
    annotations = {
        name: value
        for name, value in metadata.get("annotations", {}).items()
        if name not in NOT_COPIED
    }
    annotations |= source_annotations(consumer.meta, cluster_namespace)
    body["metadata"] = {**metadata, "annotations": annotations}
    return body


def with_spec(provider: Object, consumer: Object, cluster_namespace: str) -> JSON:
    """The whole provider object with the consumer's spec and our annotations, for a PUT.

    A PUT takes away what the consumer took away, which a patch by another manager could not.
    """
    body = provider.to_dict()
    spec = spec_of(consumer)
    if spec is None:
        body.pop("spec", None)
    else:
        body["spec"] = spec
    annotations = {
        **provider.meta.annotations,
        **source_annotations(consumer.meta, cluster_namespace),
    }
    body["metadata"] = {**body["metadata"], "annotations": annotations}
    return body


def with_status(consumer: Object, provider: Object) -> JSON:
    """The whole consumer object with the provider's status, for a PUT of the subresource."""
    body = consumer.to_dict()
    status = status_of(provider)
    if status is None:
        body.pop("status", None)
    else:
        body["status"] = status
    return body
