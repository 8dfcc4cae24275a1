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
    Meta(
        description="Related objects, such as Secrets, that the konnector copies too.",
        extra_json_schema=immutable("permissionClaims"),
    ),
]
InformerScope = Annotated[
    Scope,
    Meta(
        description=(
            "Whether the konnector watches the whole provider cluster or only its own"
            " namespaces there."
        ),
        extra_json_schema=immutable("informerScope"),
    ),
]


class BindingSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """The Secret with the kubeconfig for the provider's cluster."""

    kubeconfig_secret_ref: Annotated[
        ClusterSecretKeyRef,
        Meta(
            description=(
                "The Secret and the key that hold the kubeconfig for the provider's cluster."
            ),
            extra_json_schema=immutable("kubeconfigSecretRef"),
        ),
    ]


class BindingStatus(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Resources that are bound, claims that are accepted, and conditions."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Conditions of the binding.")
    ] = []
    provider_pretty_name: Annotated[str, Meta(description="Display name of the provider.")] = ""
    bound_schemas: Annotated[
        list[GroupResource],
        # Only in the schema: a new binding has no list, and is decoded with an empty one.
        Meta(description="Resources that are bound.", extra_json_schema={"minItems": 1}),
    ] = []
    permission_claims: Annotated[
        list[PermissionClaim],
        Meta(
            description=(
                "Claims that the person who bound the export accepted; the konnector honours no"
                " others."
            )
        ),
    ] = []
    # None before the first record: a binding of a former version has none.
    conversion_webhooks: Annotated[
        list[ConversionWebhook] | None,
        Meta(
            description=(
                "Conversion webhooks that a person accepted; the konnector installs no others."
            ),
        ),
    ] = None


class APIServiceBinding(Kind, kw_only=True):
    """On the consumer: binds the provider's export of the same name."""

    spec: BindingSpec
    status: BindingStatus = BindingStatus()


class APIServiceBindingBundle(Kind, kw_only=True):
    """On the consumer: binds everything that the provider exports to this consumer."""

    spec: BindingSpec
    status: ConditionsStatus = ConditionsStatus()


class ExportSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Resources and claims for one consumer, and their isolation from other consumers."""

    resources: Resources
    permission_claims: Claims = []
    informer_scope: InformerScope
    isolation: Annotated[
        Isolation,
        Meta(
            description=(
                "How the provider keeps cluster-scoped objects of different consumers apart."
            ),
            extra_json_schema=immutable("isolation"),
        ),
    ]
    cluster_scoped_isolation: Annotated[
        Isolation | None,
        Meta(
            description="Deprecated. Fairlead does not read it.",
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
    """Resources, claims and namespaces that a consumer requests."""

    parameters: Annotated[Parameters, Meta(extra_json_schema=immutable("parameters"))] = {}
    # An export has no such bound: a stored export above the bound could not be updated any more,
    # not even to remove its finalizers.
    resources: Annotated[Resources, Meta(extra_json_schema={"maxItems": MOST_RESOURCES})]
    permission_claims: Claims = []
    namespaces: Annotated[
        list[NamespaceName],
        Meta(
            description=(
                "The consumer's namespaces for which the provider creates namespaces in advance."
            ),
            extra_json_schema={"maxItems": MOST_NAMESPACES, **immutable("namespaces")},
        ),
    ] = []
    schema_update_policy: Annotated[
        SchemaUpdatePolicy,
        Meta(
            description="Whether the consumer's CRD follows later changes of the provider's CRD.",
            extra_json_schema={"x-default": "Never", **immutable("schemaUpdatePolicy")},
        ),
    ] = "Never"


class ExportRequestStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Progress and conditions of a request."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Conditions of the request.")
    ] = []
    phase: Annotated[
        Phase,
        Meta(extra_json_schema={"x-default": "Pending"}, description="Progress of the request."),
    ] = "Pending"
    terminal_message: Annotated[
        str, Meta(description="Why the request has the phase Failed, which is final.")
    ] = ""


class APIServiceExportRequest(Kind, kw_only=True):
    """On the provider: a consumer's request for an APIServiceExport of the same name."""

    spec: ExportRequestSpec
    # Servers fill in the default of phase only where there is a status.
    status: Annotated[ExportRequestStatus, Meta(extra_json_schema={"x-default": {}})] = (
        ExportRequestStatus()
    )


class NamespaceSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """The spec has no fields: the object has the name of the consumer's namespace."""


class NamespaceStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """The provider's namespace, and conditions."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Conditions of the namespace.")
    ] = []
    namespace: Annotated[
        str,
        Meta(
            description=(
                "Name of the provider's namespace; set when it exists and the konnector may use"
                " it."
            )
        ),
    ] = ""


class APIServiceNamespace(Kind, kw_only=True):
    """On the provider: assigns a provider namespace to the consumer's namespace of this name."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ClusterBindingSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """The kubeconfig that the consumer gets, and the provider's display name."""

    kubeconfig_secret_ref: Annotated[
        LocalSecretKeyRef,
        Meta(
            description="The Secret and the key that hold the kubeconfig that the consumer gets.",
            extra_json_schema=immutable("kubeconfigSecretRef"),
        ),
    ]
    provider_pretty_name: Annotated[
        str, Meta(min_length=1, description="Display name of the provider.")
    ]
    service_provider_spec: Annotated[
        dict[str, Any], Meta(description="Any object; Fairlead does not read it.")
    ] = {}


class ClusterBindingStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """State that the konnector reports."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Conditions of the connection to the consumer.")
    ] = []
    last_heartbeat_time: Annotated[
        str,
        Meta(
            extra_json_schema={"format": "date-time"},
            description="When the konnector sent its last heartbeat.",
        ),
    ] = ""
    heartbeat_interval: Annotated[
        str, Meta(description="Time between two heartbeats of the konnector, such as 5m0s.")
    ] = ""
    konnector_version: Annotated[str, Meta(description="Version of the konnector.")] = ""
    consumer_secret_ref: Annotated[
        SecretReference | None,
        Meta(
            description=(
                "The Secret in the consumer's cluster with the kubeconfig for the provider."
            )
        ),
    ] = None


class ClusterBinding(Kind, kw_only=True):
    """On the provider, one for each consumer: the connection with the consumer's cluster."""

    spec: ClusterBindingSpec
    status: ClusterBindingStatus = ClusterBindingStatus()


CLUSTER_BINDING_RULE = {
    "rule": f'self.metadata.name == "{CLUSTER_BINDING_NAME}"',
    "message": "cluster binding name should be cluster",
}
