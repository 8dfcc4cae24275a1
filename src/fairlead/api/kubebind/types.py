"""The kinds of ``kube-bind.io/v1alpha2``, as its CRDs and both sides' controllers know them.

The consumer's cluster holds APIServiceBinding and APIServiceBindingBundle; the provider's holds
the others. A binding, its export and its request are joined by equal names alone.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.kubebind.fields import (
    ClusterSecretKeyRef,
    ConditionsStatus,
    ConversionWebhook,
    ExportResource,
    GroupResource,
    Isolation,
    LocalSecretKeyRef,
    NamespaceName,
    Parameters,
    PermissionClaim,
    Phase,
    SchemaUpdatePolicy,
    Scope,
    SecretReference,
    immutable,
)
from fairlead.api.kubebind.names import CLUSTER_BINDING_NAME
from fairlead.api.meta import ObjectMeta


class Kind(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The base of all kinds."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


Resources = Annotated[
    list[ExportResource],
    Meta(
        min_length=1,
        description="Resources to export.",
        extra_json_schema=immutable("resources"),
    ),
]
MOST_RESOURCES = 64
"""Largest number of resources that one request may name."""
MOST_NAMESPACES = 100
"""Largest number of namespaces that one request may have created beforehand."""

Claims = Annotated[
    list[PermissionClaim],
    Meta(description="Related objects.", extra_json_schema=immutable("permissionClaims")),
]
InformerScope = Annotated[
    Scope,
    Meta(
        description="Whether the konnector watches the cluster or single namespaces.",
        extra_json_schema=immutable("informerScope"),
    ),
]


class BindingSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Secret with the kubeconfig for the provider's cluster."""

    kubeconfig_secret_ref: Annotated[
        ClusterSecretKeyRef,
        Meta(
            description="Key of a Secret that holds the provider's kubeconfig.",
            extra_json_schema=immutable("kubeconfigSecretRef"),
        ),
    ]


class BindingStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Resources and claims that a binding has established, with its conditions."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="How the binding stands.")
    ] = []
    provider_pretty_name: Annotated[str, Meta(description="The provider's name, for people.")] = ""
    bound_schemas: Annotated[
        list[GroupResource],
        # Only in the schema: a new binding has no list, and is decoded with an empty one.
        Meta(description="Resources that were bound.", extra_json_schema={"minItems": 1}),
    ] = []
    permission_claims: Annotated[
        list[PermissionClaim], Meta(description="Claims that were accepted at the first bind.")
    ] = []
    # None before the first record: a binding of a former version has none.
    conversion_webhooks: Annotated[
        list[ConversionWebhook] | None,
        Meta(
            description="Conversion webhooks that were accepted; no other is installed.",
        ),
    ] = None


class APIServiceBinding(Kind, kw_only=True):
    """On the consumer: binds the provider's export of the same name."""

    spec: BindingSpec
    status: BindingStatus = BindingStatus()


class APIServiceBindingBundle(Kind, kw_only=True):
    """On the consumer: binds all exports of the provider to it."""

    spec: BindingSpec
    status: ConditionsStatus = ConditionsStatus()


class ExportSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Resources and claims that one consumer gets, and their isolation from other consumers."""

    resources: Resources
    permission_claims: Claims = []
    informer_scope: InformerScope
    isolation: Annotated[
        Isolation,
        Meta(
            description="How cluster-scoped objects of consumers are kept apart.",
            extra_json_schema=immutable("isolation"),
        ),
    ]
    cluster_scoped_isolation: Annotated[
        Isolation | None,
        Meta(
            description="Deprecated, never read.",
            extra_json_schema=immutable("clusterScopedIsolation"),
        ),
    ] = None


class APIServiceExport(Kind, kw_only=True):
    """On the provider: resources that one consumer may bind."""

    spec: ExportSpec
    status: ConditionsStatus = ConditionsStatus()


class ExportRequestSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Resources, claims and namespaces that a consumer asks for."""

    parameters: Annotated[Parameters, Meta(extra_json_schema=immutable("parameters"))] = {}
    # An export has no such bound: a stored export above the bound could not be updated any more,
    # not even to remove its finalizers.
    resources: Annotated[Resources, Meta(extra_json_schema={"maxItems": MOST_RESOURCES})]
    permission_claims: Claims = []
    namespaces: Annotated[
        list[NamespaceName],
        Meta(
            description="Namespaces to prepare beforehand.",
            extra_json_schema={"maxItems": MOST_NAMESPACES, **immutable("namespaces")},
        ),
    ] = []
    schema_update_policy: Annotated[
        SchemaUpdatePolicy,
        Meta(
            description="Whether later changes of the provider's CRD reach the consumer.",
            extra_json_schema={"x-default": "Never", **immutable("schemaUpdatePolicy")},
        ),
    ] = "Never"


class ExportRequestStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Phase of a request; for Failed, ``terminal_message`` gives the reason."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="How the request stands.")
    ] = []
    phase: Annotated[
        Phase,
        Meta(
            extra_json_schema={"x-default": "Pending"}, description="How far the request has come."
        ),
    ] = "Pending"
    terminal_message: Annotated[str, Meta(description="Why the request has failed for good.")] = ""


class APIServiceExportRequest(Kind, kw_only=True):
    """On the provider: the request of a consumer for an APIServiceExport of the same name."""

    spec: ExportRequestSpec
    # Servers fill in the default of phase only where there is a status.
    status: Annotated[ExportRequestStatus, Meta(extra_json_schema={"x-default": {}})] = (
        ExportRequestStatus()
    )


class NamespaceSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Spec without fields: the object's name is that of the consumer's namespace."""


class NamespaceStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """The provider namespace, set only once it exists and can be used."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Whether the namespace can be used.")
    ] = []
    namespace: Annotated[str, Meta(description="The provider's namespace.")] = ""


class APIServiceNamespace(Kind, kw_only=True):
    """On the provider: the namespace for a consumer's namespace of the same name."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ClusterBindingSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Kubeconfig and name of the provider, for the consumer."""

    kubeconfig_secret_ref: Annotated[
        LocalSecretKeyRef,
        Meta(
            description="Key of a Secret that holds the consumer's kubeconfig.",
            extra_json_schema=immutable("kubeconfigSecretRef"),
        ),
    ]
    provider_pretty_name: Annotated[
        str, Meta(min_length=1, description="The provider's name, for people.")
    ]
    service_provider_spec: Annotated[
        dict[str, Any], Meta(description="Anything; never interpreted.")
    ] = {}


class ClusterBindingStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """State that the konnector reports; the interval is a duration such as ``5m0s``."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="How the tie to the consumer stands.")
    ] = []
    last_heartbeat_time: Annotated[
        str,
        Meta(
            extra_json_schema={"format": "date-time"},
            description="When the konnector last told of itself.",
        ),
    ] = ""
    heartbeat_interval: Annotated[
        str, Meta(description="How long the konnector may be silent.")
    ] = ""
    konnector_version: Annotated[str, Meta(description="Version of the konnector.")] = ""
    consumer_secret_ref: Annotated[
        SecretReference | None, Meta(description="Where the consumer keeps its kubeconfig.")
    ] = None


class ClusterBinding(Kind, kw_only=True):
    """On the provider, one in each cluster namespace: the connection with one consumer cluster."""

    spec: ClusterBindingSpec
    status: ClusterBindingStatus = ClusterBindingStatus()


CLUSTER_BINDING_RULE = {
    "rule": f'self.metadata.name == "{CLUSTER_BINDING_NAME}"',
    "message": "cluster binding name should be cluster",
}
