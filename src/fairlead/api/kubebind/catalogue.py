"""A provider's catalogue: what consumers may ask for by name, and asking for it as an object."""

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
    """What requests made from a template ask for."""

    description: str = ""
    scope: Annotated[str, Meta(description="Namespaced or Cluster; for information.")]
    resources: Annotated[list[ExportResource], Meta(min_length=1)]
    permission_claims: list[PermissionClaim] = []
    namespaces: list[NamespaceName] = []
    schema_update_policy: Annotated[
        SchemaUpdatePolicy, Meta(extra_json_schema={"x-default": "Never"})
    ] = "Never"


class APIServiceExportTemplate(Kind, kw_only=True):
    """On the provider: something consumers may ask for by name."""

    spec: TemplateSpec
    status: ConditionsStatus = ConditionsStatus()


class CollectionSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Templates that belong together."""

    description: str = ""
    templates: Annotated[list[NamedRef], Meta(min_length=1)]


class Collection(Kind, kw_only=True):
    """On the provider: a group of templates."""

    spec: CollectionSpec
    status: ConditionsStatus = ConditionsStatus()


class ClusterSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Empty: that the object is there says it all."""


class Cluster(Kind, kw_only=True):
    """On the provider, one object named ``default``: the cluster as a place that consumers use."""

    spec: ClusterSpec = ClusterSpec()
    status: ConditionsStatus = ConditionsStatus()


class ClusterIdentity(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Which consumer cluster asks."""

    identity: str
    pretty_name: str = ""


class BindableResourcesRequestSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A template and who asks for it; ``ttl_after_finished`` is a duration such as ``1h``."""

    template_ref: NamedRef
    cluster_identity: ClusterIdentity
    author: str
    kubeconfig_secret_ref: LocalSecretKeyRef | None = None
    ttl_after_finished: str = ""


PlainCondition = Annotated[dict[str, Any], Meta(extra_json_schema=structural_schema(Condition))]
"""A ``metav1.Condition`` as it is stored."""


class BindableResourcesRequestStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """How far the handshake has come; these conditions are ``metav1.Condition``."""

    phase: Annotated[Phase, Meta(extra_json_schema={"x-default": "Pending"})] = "Pending"
    namespace: str = ""
    kubeconfig_secret_ref: LocalSecretKeyRef | None = None
    completion_time: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] = ""
    conditions: list[PlainCondition] = []


class BindableResourcesRequest(Kind, kw_only=True):
    """On the provider: the handshake as an object, and the body of ``POST /api/bind``."""

    spec: BindableResourcesRequestSpec
    status: Annotated[
        BindableResourcesRequestStatus, Meta(extra_json_schema={"x-default": {}})
    ] = BindableResourcesRequestStatus()
