"""The copies of one place: which are written, which are deleted, and which cannot be.

All rules of a binding about one kind and direction make one set, so that no rule deletes the
copies of another. Source: kbind v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from fairlead.api.kbind.names import (
    ANNOTATION_RELATED_BINDING,
    CONSUMER_CLUSTER_UID,
    LABEL_MANAGED,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import Resource
from fairlead.konnector.v2.related.rules import is_protected


_TOKEN_TYPES = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
"""Types of Secrets that log in to the cluster that has them."""
_CLUSTER_CA = "kube-root-ca.crt"
"""ConfigMap that each cluster keeps in each namespace, with its own certificate."""
_FIELDS = ("type", "immutable", "data", "binaryData")


class Originals(msgspec.Struct, frozen=True, rename="camel"):
    """The top-level fields of a Secret or ConfigMap that decide about its copy."""

    type: str = ""
    immutable: bool | None = None
    data: dict[str, Any] | None = None
    binary_data: dict[str, Any] | None = None


class CopyStep(msgspec.Struct, frozen=True):
    """The step that one copy needs; a foreign object is only reported.

    ``body`` is to be applied; ``copy`` is the object that is there.
    """

    key: Key
    action: Literal["apply", "delete", "foreign"]
    body: JSON = {}
    copy: Object | None = None


def is_ours(copy: Object, binding_uid: str) -> bool:
    """Whether an object is a related copy of a binding."""
    return copy.meta.annotations.get(ANNOTATION_RELATED_BINDING) == binding_uid


def originals(objects: Iterable[Object], konnector: str) -> dict[Key, Object]:
    """Return the objects that may be copied, by their keys.

    Objects of protected namespaces, tokens, each cluster's own certificate and the copies of any
    binding stay where they are. ``konnector`` is the konnector's namespace.
    """
    return {
        obj.key: obj
        for obj in objects
        if not is_protected(obj.meta.namespace, konnector)
        and ANNOTATION_RELATED_BINDING not in obj.meta.annotations
        and not (obj.kind == "ConfigMap" and obj.meta.name == _CLUSTER_CA)
        and obj.decode(Originals).type not in _TOKEN_TYPES
    }


def copy_body(resource: Resource, source: Object, binding_uid: str, cluster_uid: str) -> JSON:
    """Return the copy of an object as it is applied."""
    fields = source.to_dict()
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "namespace": source.meta.namespace,
            "name": source.meta.name,
            "labels": {LABEL_MANAGED: "true"},
            "annotations": {
                CONSUMER_CLUSTER_UID: cluster_uid,
                ANNOTATION_RELATED_BINDING: binding_uid,
            },
        },
        **{field: fields[field] for field in _FIELDS if fields.get(field) is not None},
    }


def plan(
    resource: Resource,
    sources: Mapping[Key, Object],
    copies: Mapping[Key, Object],
    outcomes: Mapping[Key, tuple[str, str]],
    *,
    binding_uid: str,
    cluster_uid: str,
) -> list[CopyStep]:
    """Return the steps that the copies of one place need, in the order of their keys.

    Args:
        resource: the kind of all objects.
        sources: the objects to copy.
        copies: the objects of the place that any konnector has marked.
        outcomes: by key the resourceVersions of source and copy after the last write, which
            others' fields make differ from what was written.
        binding_uid: uid of the binding.
        cluster_uid: uid of the consumer's cluster.
    """
    steps = []
    for key in sorted(sources.keys() | copies.keys()):
        source, copy = sources.get(key), copies.get(key)
        if copy is not None and not is_ours(copy, binding_uid):
            if source is not None:
                steps.append(CopyStep(key, "foreign", copy=copy))
        elif copy is not None and copy.meta.deleting:
            # Its end brings the next look.
            continue
        elif source is None:
            steps.append(CopyStep(key, "delete", copy=copy))
        else:
            body = copy_body(resource, source, binding_uid, cluster_uid)
            if copy is None or not _is_equal(body, copy):
                versions = (source.meta.resource_version, _version(copy))
                if outcomes.get(key) == versions:
                    continue
                # Kubernetes refuses another type, and data of an immutable object.
                action: Literal["apply", "delete"] = (
                    "delete" if copy is not None and _is_fixed(body, copy) else "apply"
                )
                steps.append(CopyStep(key, action, body, copy))
    return steps


def _version(copy: Object | None) -> str:
    return copy.meta.resource_version if copy is not None else ""


def _is_equal(body: JSON, copy: Object) -> bool:
    there = copy.to_dict()
    metadata = body["metadata"]
    return (
        copy.meta.labels.get(LABEL_MANAGED) == "true"
        and all(copy.meta.annotations.get(k) == v for k, v in metadata["annotations"].items())
        and all((there.get(field) or None) == (body.get(field) or None) for field in _FIELDS)
    )


def _is_fixed(body: JSON, copy: Object) -> bool:
    there = copy.to_dict()
    if there.get("type") != body.get("type"):
        return True
    content = ("immutable", "data", "binaryData")
    return bool(there.get("immutable")) and any(
        (there.get(field) or None) != (body.get(field) or None) for field in content
    )
