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
    """Resources, claims and namespaces that a request made from the template asks for."""

    description: Annotated[str, Meta(description="What is offered, for people.")] = ""
    # kube-bind has no enum here, and its backend does not read the value.
    scope: Annotated[str, Meta(description="Namespaced or Cluster; for information.")]
    resources: Annotated[
        list[ExportResource], Meta(min_length=1, description="Resources that are offered.")
    ]
    permission_claims: Annotated[
        list[PermissionClaim], Meta(description="Related objects that come along.")
    ] = []
    namespaces: Annotated[
        list[NamespaceName], Meta(description="Namespaces to prepare beforehand.")
    ] = []
    # Not immutable, as it is in a request: a template is changed for the requests to come.
    schema_update_policy: Annotated[
        SchemaUpdatePolicy,
        Meta(
            extra_json_schema={"x-default": "Never"},
            description="Whether later changes of the provider's CRD reach the consumer.",
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

    description: Annotated[
        str, Meta(description="What the templates have in common, for people.")
    ] = ""
    templates: Annotated[
        list[NamedRef], Meta(min_length=1, description="The templates of the collection.")
    ]


class TemplateCollection(Kind, kw_only=True):
    """On the provider: a group of templates."""

    spec: CollectionSpec
    status: ConditionsStatus = ConditionsStatus()


class ClusterSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Spec without fields: the object only has to exist."""


class ProviderCluster(Kind, kw_only=True):
    """On the provider: the cluster itself, one object named ``default``."""

    spec: ClusterSpec = ClusterSpec()
    status: ConditionsStatus = ConditionsStatus()


class ClusterIdentity(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Identity of the consumer cluster that asks."""

    identity: Annotated[
        str,
        Meta(description="The cluster's identity: a namespace's uid, or a name."),
    ]
    pretty_name: Annotated[str, Meta(description="The consumer's name, for people.")] = ""


class BindableResourcesRequestSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A template and its consumer; ``ttl_after_finished`` is a duration such as ``1h``."""

    template_ref: NamedRef
    cluster_identity: ClusterIdentity
    author: Annotated[str, Meta(description="Who asks.")]
    kubeconfig_secret_ref: LocalSecretKeyRef | None = None
    ttl_after_finished: Annotated[
        str, Meta(description="How long the request stays after it has ended, such as 1h.")
    ] = ""


# Other kinds of kube-bind have conditions of its own form, with a severity.
PlainCondition = Annotated[dict[str, Any], Meta(extra_json_schema=structural_schema(Condition))]
"""JSON object of a ``metav1.Condition``, with the schema of the type."""


class BindableResourcesRequestStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Phase and result of the handshake; these conditions are ``metav1.Condition``."""

    phase: Annotated[
        Phase,
        Meta(
            extra_json_schema={"x-default": "Pending"}, description="How far the request has come."
        ),
    ] = "Pending"
    namespace: Annotated[str, Meta(description="The consumer's namespace on the provider.")] = ""
    kubeconfig_secret_ref: LocalSecretKeyRef | None = None
    completion_time: Annotated[
        str, Meta(extra_json_schema={"format": "date-time"}, description="When the request ended.")
    ] = ""
    conditions: Annotated[list[PlainCondition], Meta(description="How the request stands.")] = []


class BindableResourcesRequest(Kind, kw_only=True):
    """On the provider: the handshake as an object, and the body of ``POST /api/bind``."""

    spec: BindableResourcesRequestSpec
    status: Annotated[
        # Servers fill in the default of phase only where there is a status.
        BindableResourcesRequestStatus, Meta(extra_json_schema={"x-default": {}})
    ] = BindableResourcesRequestStatus()
