"""What belongs to one consumer, as annotations and subjects say, and what it is without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_IDENTITY,
    ANNOTATION_LEGACY_IDENTITY,
    ANNOTATION_SERVICE_NAMESPACE,
    BINDER_NAME,
    LABEL_OWNER,
    OWNER_CONSUMER,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CLUSTERROLES, ROLES, Resource
from fairlead.provider.namespaces import owner_of
from fairlead.provider.rights import MANAGED_BY


_NAMED = 3


def provider_namespaces(namespaces: Iterable[Object], consumer: str) -> list[Object]:
    """The namespaces that belong to APIServiceNamespaces of a cluster namespace."""
    return [one for one in namespaces if (owner := owner_of(one)) and owner.namespace == consumer]


def is_copy(obj: Object, consumer: str) -> bool:
    """Whether an object is a consumer's, as its own annotation says."""
    return obj.meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE) == consumer


def released(copy: Object, consumer: Object) -> JSON:
    """A copy that is nobody's any more: no owner is left whose end would be its own.

    The annotations that say where it came from stay, for people.
    """
    body = copy.to_dict()
    metadata: JSON = body["metadata"]
    metadata.get("annotations", {}).pop(ANNOTATION_CLUSTER_NAMESPACE, None)
    if metadata.get("labels", {}).get(LABEL_OWNER) == OWNER_CONSUMER:
        del metadata["labels"][LABEL_OWNER]
    owners = metadata.pop("ownerReferences", [])
    kept = [owner for owner in owners if owner["uid"] != consumer.meta.uid]
    if kept:
        metadata["ownerReferences"] = kept
    return body


def without_owner(namespace: Object) -> JSON:
    """A provider namespace that belongs to no APIServiceNamespace, so that none takes it along."""
    return _without_annotations(namespace, ANNOTATION_SERVICE_NAMESPACE)


def without_identity(namespace: Object) -> JSON:
    """A cluster namespace that is no consumer's any more."""
    names = (ANNOTATION_IDENTITY, ANNOTATION_LEGACY_IDENTITY, ANNOTATION_AUTHOR)
    return _without_annotations(namespace, *names)


def without_subject(binding: Object, consumer: str) -> JSON | None:
    """A binding of rights without the consumer; None if it has no other subject.

    A binding that does not name the consumer comes back as it is.
    """
    body = binding.to_dict()
    subjects = body.get("subjects") or []
    others = [subject for subject in subjects if not _is_binder(subject, consumer)]
    if len(others) < len(subjects):
        body["subjects"] = others
    return body if others or not subjects else None


def names(binding: Object, consumer: str) -> bool:
    """Whether a binding of rights names a consumer's ServiceAccount."""
    subjects = binding.to_dict().get("subjects") or []
    return any(_is_binder(subject, consumer) for subject in subjects)


def role_of(binding: Object) -> tuple[Resource, Key]:
    """The role that a binding of rights is for."""
    ref = binding.decode(_Binding).role_ref
    if ref.kind == CLUSTERROLES.kind:
        return CLUSTERROLES, Key("", ref.name)
    return ROLES, Key(binding.meta.namespace, ref.name)


def is_managed(role: Object) -> bool:
    """Whether a role was made for one consumer alone, by the provider's controllers."""
    labels = role.meta.labels
    ours = all(labels.get(name) == value for name, value in MANAGED_BY.items())
    return ours and role.meta.name.startswith(f"{BINDER_NAME}-")


def held(objects: Sequence[Object]) -> str:
    """What is still there and what holds it, of many the first; "" for none."""
    told = [_held(obj) for obj in objects[:_NAMED]]
    if len(objects) > _NAMED:
        told.append(f"and {len(objects) - _NAMED} more")
    return ", ".join(told)


def count(number: int, one: str, many: str = "") -> str:
    """A number of things, in words."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def _held(obj: Object) -> str:
    finalizers = f" (finalizer {', '.join(obj.meta.finalizers)})" if obj.meta.finalizers else ""
    return f"{obj.kind} {obj.key}{finalizers}"


def _is_binder(subject: JSON, consumer: str) -> bool:
    found = (subject.get("kind"), subject.get("namespace"), subject.get("name"))
    return found == ("ServiceAccount", consumer, BINDER_NAME)


def _without_annotations(obj: Object, *names: str) -> JSON:
    body = obj.to_dict()
    annotations: JSON = body["metadata"].get("annotations", {})
    for name in names:
        annotations.pop(name, None)
    return body


class _RoleRef(msgspec.Struct):
    kind: str
    name: str


class _Binding(msgspec.Struct, rename="camel"):
    role_ref: _RoleRef
