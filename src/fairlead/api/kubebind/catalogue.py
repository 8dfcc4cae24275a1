"""A provider's catalogue: templates, collections, and BindableResourcesRequests for templates."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition
from fairlead.api.crd import structural_schema
from fairlead.api.kubebind.fields import (
    ConditionsStatus,
    ExportResource,
    LocalSecretKeyRef,
    NamedRef,
    NamespaceName,
    PermissionClaim,
    Phase,
    SchemaUpdatePolicy,
)
from fairlead.api.kubebind.types import Kind


class TemplateSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Resources, claims and namespaces of a request that is made from the template."""

    description: Annotated[str, Meta(description="Description of the offer for people.")] = ""
    # kube-bind has no enum here, and its backend does not read the value.
    scope: Annotated[str, Meta(description="Namespaced or Cluster; for information only.")]
    resources: Annotated[
        list[ExportResource], Meta(min_length=1, description="Resources that the template offers.")
    ]
    permission_claims: Annotated[
        list[PermissionClaim],
        Meta(description="Related objects, such as Secrets, that the konnector copies too."),
    ] = []
    namespaces: Annotated[
        list[NamespaceName],
        Meta(
            description=(
                "The consumer's namespaces for which the provider creates namespaces in advance."
            )
        ),
    ] = []
    # Not immutable, as it is in a request: a template is changed for the requests to come.
    schema_update_policy: Annotated[
        SchemaUpdatePolicy,
        Meta(
            extra_json_schema={"x-default": "Never"},
            description="Whether the consumer's CRD follows later changes of the provider's CRD.",
        ),
    ] = "Never"


class APIServiceExportTemplate(Kind, kw_only=True):
    """On the provider: resources and claims that consumers may request under one name."""

    spec: TemplateSpec
    status: ConditionsStatus = ConditionsStatus()


class CollectionSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Description and templates of a collection."""

    description: Annotated[str, Meta(description="Description of the collection for people.")] = ""
    templates: Annotated[
        list[NamedRef], Meta(min_length=1, description="Templates in the collection.")
    ]


class TemplateCollection(Kind, kw_only=True):
    """On the provider: a group of templates."""

    spec: CollectionSpec
    status: ConditionsStatus = ConditionsStatus()


class ClusterSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """The spec has no fields: the object only has to exist."""


class ProviderCluster(Kind, kw_only=True):
    """On the provider: stands for the provider's cluster; a single object named ``default``."""

    spec: ClusterSpec = ClusterSpec()
    status: ConditionsStatus = ConditionsStatus()


class ClusterIdentity(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """The consumer's cluster that sends the request."""

    identity: Annotated[
        str,
        Meta(description="Identity of the cluster: the UID of a namespace, or a name."),
    ]
    pretty_name: Annotated[str, Meta(description="Display name of the consumer.")] = ""


class BindableResourcesRequestSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """The requested template, and the consumer that requests it."""

    template_ref: Annotated[NamedRef, Meta(description="The template that the consumer requests.")]
    cluster_identity: ClusterIdentity
    author: Annotated[str, Meta(description="The person or group that sends the request.")]
    kubeconfig_secret_ref: Annotated[
        LocalSecretKeyRef | None,
        Meta(description="The Secret, and its key, to which the provider writes its response."),
    ] = None
    ttl_after_finished: Annotated[
        str,
        Meta(
            description=(
                "How long the provider keeps the object after the request has ended, such as 1h."
            )
        ),
    ] = ""


# Other kinds of kube-bind have conditions of its own form, with a severity.
PlainCondition = Annotated[dict[str, Any], Meta(extra_json_schema=structural_schema(Condition))]
"""JSON object of a ``metav1.Condition``, with the schema of the type."""


class BindableResourcesRequestStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Progress and result of the request; the conditions are ``metav1.Condition``."""

    phase: Annotated[
        Phase,
        Meta(extra_json_schema={"x-default": "Pending"}, description="Progress of the request."),
    ] = "Pending"
    namespace: Annotated[
        str, Meta(description="The namespace of the consumer in the provider's cluster.")
    ] = ""
    kubeconfig_secret_ref: Annotated[
        LocalSecretKeyRef | None,
        Meta(description="The Secret, and its key, that hold the provider's response."),
    ] = None
    completion_time: Annotated[
        str, Meta(extra_json_schema={"format": "date-time"}, description="When the request ended.")
    ] = ""
    conditions: Annotated[
        list[PlainCondition], Meta(description="Conditions of the request.")
    ] = []


class BindableResourcesRequest(Kind, kw_only=True):
    """On the provider: requests a template for a consumer; also the body of ``POST /api/bind``."""

    spec: BindableResourcesRequestSpec
    status: Annotated[
        # Servers fill in the default of phase only where there is a status.
        BindableResourcesRequestStatus, Meta(extra_json_schema={"x-default": {}})
    ] = BindableResourcesRequestStatus()
