"""Names of kbind v2: resources, metadata keys, conditions, reasons and names made from names."""

from __future__ import annotations

from typing import Final

from fairlead.api.kubebind.names import ANNOTATION_CLUSTER_NAMESPACE, spec_hash
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource


GROUP: Final = "core.kbind.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "kbind"

CONNECTIONS = Resource(GROUP, VERSION, "connections", "Connection", namespaced=False)
CLUSTERBINDINGS = Resource(GROUP, VERSION, "clusterbindings", "ClusterBinding", namespaced=False)
BINDINGS = Resource(GROUP, VERSION, "bindings", "Binding")
KBIND_KINDS = (CLUSTERBINDINGS, BINDINGS, CONNECTIONS)
"""All kinds of kbind v2, bindings before the Connections that they name."""
LOGICALCLUSTERS = Resource(
    "core.kcp.io", "v1alpha1", "logicalclusters", "LogicalCluster", namespaced=False
)
"""kcp's kind of one object, :data:`LOGICALCLUSTER_NAME`, whose uid tells workspaces apart."""
LOGICALCLUSTER_NAME: Final = "cluster"
IDENTITY_NAMESPACE: Final = "kube-system"
"""Namespace whose uid identifies a cluster that has no LogicalCluster."""

LABEL_EXPORTED: Final = "core.kbind.io/exported"
"""Label of a provider's CRD; with the value ``true`` it is offered (schema source CRD)."""
LABEL_MANAGED: Final = "core.kbind.io/managed"
"""Label with the value ``true`` of all that a konnector writes.

Copies and namespaces at the provider, copies of related objects, pulled CRDs, the ClusterBinding
of autoBind and the Lease have it.
"""
ANNOTATION_CONNECTION: Final = "core.kbind.io/connection"
"""Annotation of a pulled CRD: the Connection's name, which decides where its objects go."""
ANNOTATION_SCHEMA_HASH: Final = "core.kbind.io/schema-hash"
"""Annotation of a pulled CRD: :func:`schema_hash` of the spec that the konnector wrote."""
CONSUMER_CLUSTER_UID: Final = "core.kbind.io/consumer-cluster-uid"
"""Annotation of copies, of related copies and of the Lease: uid of the consumer's cluster.

A namespace that was made for an object has it as a label, one that was made for a related object
as an annotation.
"""
ANNOTATION_CONSUMER_OBJECT_UID: Final = "core.kbind.io/consumer-object-uid"
"""Annotation of a copy: uid of the consumer's object."""
COPY_MARKS: Final = frozenset({ANNOTATION_CLUSTER_NAMESPACE, ANNOTATION_CONSUMER_OBJECT_UID})
"""Annotations of copies at a provider, by v1alpha2 and by kbind v2; a copy has one of them."""
ANNOTATION_RELATED_BINDING: Final = "core.kbind.io/related-binding"
"""Annotation of a related copy: uid of the binding whose rule it follows."""
ANNOTATION_CONFLICT: Final = "core.kbind.io/conflict"
"""Annotation of a consumer's object: :data:`FOREIGN_OBJECT` or :data:`OWNED_BY_ANOTHER`."""
ANNOTATION_DELETION_POLICY: Final = "core.kbind.io/deletion-policy"
"""Annotation that users set on an object; ``Orphan`` leaves its copy when the object goes."""
DELETION_POLICY_ORPHAN: Final = "Orphan"
ANNOTATION_RELATED_PLACES: Final = "fairlead.dev/related-copies"
"""Fairlead's annotation of a binding: where it may have copies of related objects.

Entries RESOURCE/DIRECTION, with /CONNECTION for copies at a provider, are separated by commas. An
entry is written before the first copy and goes after the last, so that a rule that is removed
while no konnector runs takes its copies away.
"""
ANNOTATION_NEVER_BOUND: Final = "fairlead.dev/never-bound"
"""Fairlead's annotation of a CRD that pullPolicy All has made: no object of it can have a copy.

It goes when the API is bound. Until then no object is read, since the rights come with a binding.
"""
ANNOTATION_RELATED_ADMITTED: Final = "fairlead.dev/related-resources"
"""Fairlead's annotation of a Connection: the related resources that bindings may have copied.

Entries RESOURCE/DIRECTION are separated by commas. Without it all may.
"""

FINALIZER_SYNCER: Final = "core.kbind.io/syncer"
"""Finalizer of a consumer's object until its copy is gone."""
FINALIZER_CLEANUP: Final = "core.kbind.io/cleanup"
"""Finalizer of Connections, bindings and kubeconfig Secrets until they are unwound."""

FIELD_MANAGER: Final = "kbind-konnector"
"""Field manager of the specs of copies, and source of the Events."""
FIELD_MANAGER_RELATED: Final = "kbind-konnector-related"

LEASE_NAMESPACE: Final = "kbind"
"""Namespace of the Leases in the provider's cluster; by convention also the konnector's own."""
LEASE_SECONDS: Final = 60
"""leaseDurationSeconds of a Lease."""
ANNOTATION_RENEWED_AT: Final = "fairlead.dev/renewed-at"
"""Fairlead's annotation of a Lease: the renewTime that Fairlead wrote last.

All konnectors of a cluster have the same holderIdentity; another renewTime than this is of a
konnector of another kind.
"""
LEASE_ACCOUNT_PREFIX: Final = "account.fairlead.dev/"
"""Prefix of Fairlead's annotations of a Lease: namespaces that kubeconfigs of its writers name.

A provider's team finds by it the Lease of a consumer that it has invited, before there are copies.
"""
DEFAULT_KUBECONFIG_KEY: Final = "kubeconfig"

READY: Final = "Ready"
SECRET_VALID: Final = "SecretValid"  # noqa: S105  # the type of a condition
CONNECTED: Final = "Connected"
PERMISSION_DENIED: Final = "PermissionDenied"
SYNCED: Final = "Synced"
CONFLICTS: Final = "Conflicts"
ANOTHER_KONNECTOR: Final = "AnotherKonnector"
"""Fairlead's, on a Connection: True while another konnector renews its Lease."""

AUTO_BIND_FAILING: Final = "AutoBindFailing"
"""Fairlead's, on a Connection: True while its managed ClusterBinding is not what is offered."""
RELATED_FAILING: Final = "RelatedResourcesFailing"
"""Fairlead's, on a binding: True while related objects are not copied."""

AS_EXPECTED: Final = "AsExpected"
SECRET_NOT_FOUND: Final = "SecretNotFound"  # noqa: S105  # a reason
"""The Secret or its key is missing or empty, or its kubeconfig is unreadable."""
SECRET_REFUSED: Final = "SecretRefused"  # noqa: S105  # a reason
"""Fairlead's: a Secret of another namespace, or a kubeconfig that runs programs or reads files."""
PENDING: Final = "Pending"
CLUSTER_IDENTITY_CHANGED: Final = "ClusterIdentityChanged"
FORBIDDEN: Final = "Forbidden"
DRAINING_BINDINGS: Final = "DrainingBindings"
LEASE_HELD: Final = "LeaseHeld"
"""Fairlead's reason of AnotherKonnector."""
API_NOT_EXPORTED: Final = "APINotExported"
FOREIGN_OBJECT: Final = "ForeignObjectExists"
OWNED_BY_ANOTHER: Final = "OwnedByAnother"
FOREIGN_CRD: Final = "ForeignCustomResourceDefinition"
"""Fairlead's reason of Ready on bindings: the CRD is not ours, or another Connection's."""
FOREIGN_CLUSTERBINDING: Final = "ForeignClusterBinding"
"""Fairlead's reason of AutoBindFailing: a ClusterBinding of the Connection's name is not its."""
TOO_MANY_APIS: Final = "TooManyAPIs"
"""Fairlead's reason of AutoBindFailing: more APIs are offered than a Connection binds."""
CONVERSION_REFUSED: Final = "ConversionRefused"
"""Fairlead's reason of Ready on bindings: the provider converts the kind by a webhook."""
NO_VERSION_SERVED: Final = "NoVersionServed"
"""Fairlead's reason of Ready on bindings: no version that both clusters can have is served."""
SCHEMA_UNUSABLE: Final = "SchemaUnusable"
"""Fairlead's reason of Ready on bindings: no CRD can be made of the provider's OpenAPI."""
RULE_REFUSED: Final = "RuleRefused"
"""Fairlead's reason of RelatedResourcesFailing: a rule that is not followed."""


def lease_name(cluster_uid: str) -> str:
    """Return the name of a consumer's Lease, one for all its Connections to a provider."""
    return f"consumer-{cluster_uid}"


def schema_hash(spec: JSON) -> str:
    """Return ``sha256:`` and 16 hexadecimal digits over a CRD's spec, whatever order it has."""
    return f"sha256:{spec_hash(spec)[:16]}"
