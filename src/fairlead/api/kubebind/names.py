"""Names of the kube-bind protocol: resources, metadata keys, and names made from names."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from fairlead.api.resource import Resource


GROUP: Final = "kube-bind.io"
VERSION: Final = "v1alpha2"
API_VERSION: Final = f"{GROUP}/{VERSION}"


def _resource(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(GROUP, VERSION, plural, kind, namespaced)


APISERVICEBINDINGS = _resource("apiservicebindings", "APIServiceBinding", namespaced=False)
APISERVICEBINDINGBUNDLES = _resource(
    "apiservicebindingbundles", "APIServiceBindingBundle", namespaced=False
)
APISERVICEEXPORTS = _resource("apiserviceexports", "APIServiceExport")
APISERVICEEXPORTREQUESTS = _resource("apiserviceexportrequests", "APIServiceExportRequest")
APISERVICEEXPORTTEMPLATES = _resource(
    "apiserviceexporttemplates", "APIServiceExportTemplate", namespaced=False
)
APISERVICENAMESPACES = _resource("apiservicenamespaces", "APIServiceNamespace")
BOUNDSCHEMAS = _resource("boundschemas", "BoundSchema")
CLUSTERBINDINGS = _resource("clusterbindings", "ClusterBinding")
CLUSTERS = _resource("clusters", "Cluster", namespaced=False)
COLLECTIONS = _resource("collections", "Collection", namespaced=False)
BINDABLERESOURCESREQUESTS = _resource("bindableresourcesrequests", "BindableResourcesRequest")

LABEL_EXPORTED: Final = "kube-bind.io/exported"
"""Label of a provider's CRD; with the value ``true`` it may be exported."""
LABEL_OWNER: Final = "kube-bind.io/owner"
"""Label of claimed objects and of namespaces for them: which side owns the original."""
OWNER_PROVIDER: Final = "provider"
OWNER_CONSUMER: Final = "consumer"
LABEL_PROVIDER_KUBECONFIG: Final = "kube-bind.io/provider-kubeconfig"
"""Label of a consumer's Secret; with ``true`` the konnector connects before a binding exists."""
LABEL_AGGREGATE_TO_PARENT: Final = "rbac.kube-bind.io/aggregate-to-parent"
LABEL_AGGREGATE_TO_PROVIDER: Final = "rbac.kube-bind.io/aggregate-to-provider"
"""Label of ClusterRoles whose rights the provider's controllers get and hand out."""
LABEL_AGGREGATE_TO_KONNECTOR: Final = "rbac.kube-bind.io/aggregate-to-konnector"
LABEL_AGGREGATE_TO_SERVE: Final = "rbac.kube-bind.io/aggregate-to-serve"
"""Label of ClusterRoles whose rights the front door gets, to show objects to permitted people."""

ANNOTATION_CLUSTER_NAMESPACE: Final = "kube-bind.io/cluster-namespace"
ANNOTATION_CONSUMER_NAMESPACE: Final = "kube-bind.io/consumer-namespace"
ANNOTATION_CONSUMER_UID: Final = "kube-bind.io/consumer-uid"
ANNOTATION_PROVIDER_NAMESPACE: Final = "kube-bind.io/provider-namespace"
ANNOTATION_PROVIDER_UID: Final = "kube-bind.io/provider-uid"
ANNOTATION_SERVICE_NAMESPACE: Final = "kube-bind.io/api-service-namespace"
"""Annotation of a provider namespace: ``<cluster namespace>/<name of APIServiceNamespace>``."""
ANNOTATION_SOURCE_SPEC_HASH: Final = "kube-bind.io/source-spec-hash"
ANNOTATION_DELETION_POLICY: Final = "kube-bind.io/deletion-policy"
"""Annotation of a consumer's object, or of an APIServiceBinding for all its objects.

When the object is deleted, ``Orphan`` leaves its copy on the provider; any other value deletes it.
"""
DELETION_POLICY_ORPHAN: Final = "Orphan"
ANNOTATION_HELD_COPIES: Final = "kube-bind.io/held-copies"
"""Fairlead's annotation of an APIServiceBinding or bundle: treatment of another cluster's copies.

It is about copies whose objects are missing in this cluster. ``Keep`` leaves them and stops
tracking them; ``Discard:UID``, with the uid of the cluster that made them, deletes them; ``Hold``,
written before a cluster is restored from a backup of itself, holds them there too.
"""
ANNOTATION_BOUND_BY: Final = "kube-bind.io/bound-by"
"""Annotation of a consumer's CRD: the name of the APIServiceBinding that created it.

Unlike an owner reference, it stays true in a restored backup, where objects have other uids.
"""
ANNOTATION_API_APPROVED: Final = "api-approved.kubernetes.io"
"""Kubernetes' annotation of a CRD, the approval that groups of k8s.io need.

A BoundSchema has the annotation of its CRD.
"""
ANNOTATION_RESOURCES: Final = "kube-bind.io/resources"
ANNOTATION_IDENTITY: Final = "backend.kube-bind.io/identity"
ANNOTATION_LEGACY_IDENTITY: Final = "example-backend.kube-bind.io/identity"
ANNOTATION_AUTHOR: Final = "backend.kube-bind.io/author"
ANNOTATION_CLUSTER_PRETTY_NAME: Final = "backend.kube-bind.io/cluster-pretty-name"

FINALIZER_SYNCER: Final = "kubebind.io/syncer"
"""Finalizer of a consumer's objects; kube-bind spells the group without the dash."""

FINALIZER_UNBIND: Final = "kubebind.io/unbind"
"""Fairlead's finalizer of an APIServiceBinding: its CRDs are deleted before it goes."""

FINALIZER_NAMESPACE: Final = "kubebind.io/namespace"
"""Fairlead's finalizer of APIServiceNamespaces: they stay until their provider namespace is gone,
which stays while it holds synced objects."""

FIELD_MANAGER: Final = "kube-bind.io"

DEFAULT_PRETTY_NAME: Final = "Fairlead"
"""Name of a provider for its consumers, where its team has not given another."""
CLUSTER_BINDING_NAME: Final = "cluster"
CLUSTER_NAME: Final = "default"
"""Name of the only object of kind Cluster."""
BINDER_NAME: Final = "kube-binder"
"""Name of a consumer's ServiceAccount and RoleBinding, and of the ClusterRole of consumers."""
KUBECONFIG_NAME: Final = "kubeconfig"
"""Name of the Secret with the kubeconfig in a cluster namespace, and of the key in it."""
CORE_GROUP_NAME: Final = "core"

CLAIMABLE: Final = frozenset({"configmaps", "secrets", "serviceaccounts"})
"""The core/v1 resources that a permission claim may name."""

# Groups of k8s.io/api, of Kubernetes' own servers and files, and of its metrics APIs; those that
# former versions had and a later one has count too. Groups without a dot are Kubernetes' anyway.
_KUBERNETES_GROUPS: Final = frozenset(
    {
        "k8s.io",
        *(
            f"{name}.k8s.io"
            for name in (
                "admission",
                "admissionregistration",
                "apidiscovery",
                "apiextensions",
                "apiregistration",
                "apiserver",
                "apiserver.config",
                "audit",
                "auditregistration",
                "authentication",
                "authorization",
                "certificates",
                "client.authentication",
                "cloudcontrollermanager.config",
                "config",
                "coordination",
                "credentialprovider.kubelet",
                "custom.metrics",
                "discovery",
                "events",
                "external.metrics",
                "flowcontrol.apiserver",
                "imagepolicy",
                "internal.apiserver",
                "kubeadm",
                "kubecontrollermanager.config",
                "kubelet.config",
                "kubeproxy.config",
                "kubescheduler.config",
                "lifecycle",
                "metrics",
                "networking",
                "node",
                "podresources",
                "rbac.authorization",
                "resource",
                "resourcequota.admission",
                "scheduling",
                "settings",
                "storage",
                "storagemigration",
            )
        ),
    }
)

# Lower-case digits only: the result is a part of a namespace's name (RFC 1123).
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def resource_name(resource: str, group: str) -> str:
    """Return ``resource.group``, the name of a BoundSchema; the core group is written ``core``."""
    return f"{resource}.{group or CORE_GROUP_NAME}"


def crd_name(resource: str, group: str) -> str:
    """Return the name of a CustomResourceDefinition."""
    return f"{resource}.{group}"


def is_kubernetes(group: str) -> bool:
    """Whether an API group is Kubernetes' own.

    Other groups of k8s.io are those of projects beside Kubernetes, such as
    gateway.networking.k8s.io.
    """
    is_listed = group in _KUBERNETES_GROUPS or f".{group}".endswith(".kubernetes.io")
    return "." not in group or is_listed


def bindable(group: str) -> bool:
    """Whether kinds of an API group can come from a provider.

    Kubernetes' own groups cannot, nor can that of kube-bind's own kinds.
    """
    return group != GROUP and not is_kubernetes(group)


def protected(group: str) -> bool:
    """Whether API servers refuse CRDs of an API group without :data:`ANNOTATION_API_APPROVED`.

    Source: KEP-2337.
    """
    return f".{group}".endswith((".k8s.io", ".kubernetes.io"))


def identity_hash(identity: str) -> str:
    """Return the part of a cluster namespace's name that encodes a consumer's identity.

    The first 8 bytes of SHA-224 as one big-endian number in base 36; each leading zero byte adds
    a ``0`` (kube-bind's handshake, so that both implementations find the same namespace).
    """
    digest = hashlib.sha224(identity.encode()).digest()[:8]
    zeros = len(digest) - len(digest.lstrip(b"\0"))
    return "0" * zeros + _base36(int.from_bytes(digest, "big"))


def cluster_namespace(identity: str, prefix: str) -> str:
    """Return the name for a new cluster namespace of a consumer."""
    return prefix + identity_hash(identity)


def service_namespace(cluster_ns: str, name: str) -> str:
    """Return the provider namespace for one consumer namespace, at most 63 characters.

    A longer name is cut and ends in a hash of the whole name, so that two names stay different.
    """
    full = f"{cluster_ns}-{name}"
    if len(full) <= 63:
        return full
    # No name has a slash, so that a-b and c are told from a and b-c, which a dash would not do.
    digest = hashlib.sha256(f"{cluster_ns}/{name}".encode()).hexdigest()[:10]
    # 52 characters, a dash and ten digits of the hash are 63.
    return f"{full[:52].rstrip('-.')}-{digest}"


def service_namespace_ref(cluster_ns: str, name: str) -> str:
    """Return the annotation's value that ties a provider namespace to its APIServiceNamespace."""
    return f"{cluster_ns}/{name}"


def spec_hash(spec: object) -> str:
    """Return a SHA-256 of a spec, regardless of the order of its keys; hexadecimal."""
    canonical = msgspec.json.encode(msgspec.to_builtins(spec), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def kubeconfig_digest(kubeconfig: bytes) -> str:
    """Return the SHA-256 digest of a kubeconfig, which identifies it and reveals no credential."""
    return f"sha256:{hashlib.sha256(kubeconfig).hexdigest()}"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
    return digits
