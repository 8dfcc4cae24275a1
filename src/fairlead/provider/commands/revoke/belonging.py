"""Objects of one consumer, by annotations and subjects, and their bodies after its removal."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_IDENTITY,
    ANNOTATION_LEGACY_IDENTITY,
    ANNOTATION_SERVICE_NAMESPACE,
    API_VERSION,
    BINDER_NAME,
    CLUSTER_BINDING_NAME,
    FINALIZER_NAMESPACE,
    KUBECONFIG_NAME,
    LABEL_OWNER,
    OWNER_CONSUMER,
    PermissionClaim,
)
from fairlead.api.kubebind.claims import claimable
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLES,
    CONFIGMAPS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.provider.namespaces import owner_of
from fairlead.provider.offer import with_revocation
from fairlead.provider.rights import MANAGED_BY


def provider_namespaces(namespaces: Iterable[Object], consumer: str) -> list[Object]:
    """Return the namespaces that belong to APIServiceNamespaces of a cluster namespace."""
    return [one for one in namespaces if (owner := owner_of(one)) and owner.namespace == consumer]


def is_copy(obj: Object, consumer: str) -> bool:
    """Whether an object is a copy of this consumer, by its annotation."""
    return obj.meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE) == consumer


def released(copy: Object, consumer: Object) -> JSON:
    """Return the body of a copy that stays after its consumer, without owner and mark.

    The annotations about its origin stay, for people.
    """
    body = copy.to_dict()
    metadata: JSON = body["metadata"]
    metadata.get("annotations", {}).pop(ANNOTATION_CLUSTER_NAMESPACE, None)
    if metadata.get("labels", {}).get(LABEL_OWNER) == OWNER_CONSUMER:
        del metadata["labels"][LABEL_OWNER]
    owners = metadata.pop("ownerReferences", [])
    owners_left = [owner for owner in owners if owner["uid"] != consumer.meta.uid]
    if owners_left:
        metadata["ownerReferences"] = owners_left
    return body


def declared(consumer: str, binding: Object | None, *, clearing: bool | None = None) -> JSON:
    """Return the body of a consumer's ClusterBinding that marks it as being revoked.

    With ``clearing`` it also declares whether the controllers delete the consumer's objects. A
    consumer without a ClusterBinding, None, gets a new one.
    """
    body: JSON = {
        "apiVersion": API_VERSION,
        "kind": "ClusterBinding",
        "metadata": {"name": CLUSTER_BINDING_NAME, "namespace": consumer},
        "spec": {
            "kubeconfigSecretRef": {"name": KUBECONFIG_NAME, "key": KUBECONFIG_NAME},
            "providerPrettyName": "Fairlead",
        },
    }
    body = body if binding is None else binding.to_dict()
    stored = body["spec"].get("serviceProviderSpec") or {}
    body["spec"]["serviceProviderSpec"] = with_revocation(stored, clearing=clearing)
    return body


def claimed(exports: Iterable[Object]) -> list[Resource]:
    """Return the kinds that a consumer could write because its exports claim them."""
    names: set[str] = set()
    for export in exports:
        with suppress(msgspec.ValidationError):
            spec = export.decode(_Claims).spec
            names.update(claim.resource for claim in spec.permission_claims if claimable(claim))
    return [kind for kind in (CONFIGMAPS, SECRETS, SERVICEACCOUNTS) if kind.plural in names]


def without_owner(namespace: Object) -> JSON:
    """Return the body of a provider namespace without its APIServiceNamespace; it stays."""
    return _without_annotations(namespace, ANNOTATION_SERVICE_NAMESPACE)


def without_identity(namespace: Object) -> JSON:
    """Return the body of a cluster namespace without its consumer's identity."""
    names = (ANNOTATION_IDENTITY, ANNOTATION_LEGACY_IDENTITY, ANNOTATION_AUTHOR)
    return _without_annotations(namespace, *names)


_KEPT_FINALIZERS = frozenset({FINALIZER_NAMESPACE, "foregroundDeletion", "orphan"})
"""Finalizer of Fairlead, and those that Kubernetes' garbage collector removes by itself."""


def without_finalizers(obj: Object) -> JSON | None:
    """Return the body of an object in deletion without the finalizers of others, None without."""
    finalizers = [name for name in obj.meta.finalizers if name in _KEPT_FINALIZERS]
    if not obj.meta.deleting or finalizers == obj.meta.finalizers:
        return None
    body = obj.to_dict()
    body["metadata"]["finalizers"] = finalizers
    return body


def without_subject(binding: Object, consumer: str) -> JSON | None:
    """Return a binding of rights without the consumer; None if it has no other subject.

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
    """Return the role that a binding of rights is for."""
    ref = binding.decode(_Binding).role_ref
    if ref.kind == CLUSTERROLES.kind:
        return CLUSTERROLES, Key("", ref.name)
    return ROLES, Key(binding.meta.namespace, ref.name)


def is_managed(role: Object) -> bool:
    """Whether the provider's controllers created a role for one consumer alone."""
    labels = role.meta.labels
    ours = all(labels.get(name) == value for name, value in MANAGED_BY.items())
    # The ClusterRole without the dash is what every invited consumer is bound to.
    return ours and role.meta.name.startswith(f"{BINDER_NAME}-")


def _is_binder(subject: JSON, consumer: str) -> bool:
    subject_key = (subject.get("kind"), subject.get("namespace"), subject.get("name"))
    return subject_key == ("ServiceAccount", consumer, BINDER_NAME)


def _without_annotations(obj: Object, *names: str) -> JSON:
    body = obj.to_dict()
    annotations: JSON = body["metadata"].get("annotations", {})
    for name in names:
        annotations.pop(name, None)
    return body


class _ClaimsSpec(msgspec.Struct, rename="camel"):
    permission_claims: list[PermissionClaim] = []


class _Claims(msgspec.Struct):
    spec: _ClaimsSpec = msgspec.field(default_factory=_ClaimsSpec)


class _RoleRef(msgspec.Struct):
    kind: str
    name: str


class _Binding(msgspec.Struct, rename="camel"):
    role_ref: _RoleRef
