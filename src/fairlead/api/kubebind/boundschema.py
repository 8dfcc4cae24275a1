"""BoundSchema: a provider's CRD for a consumer, with the conversions in both directions.

The conversion omits names, labels and annotations of the provider's CRD, and conversion webhooks
that are reached by a Service, which the consumer's cluster does not have.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.kubebind.fields import Isolation, Scope
from fairlead.api.kubebind.names import (
    ANNOTATION_API_APPROVED,
    ANNOTATION_BOUND_BY,
    ANNOTATION_SOURCE_SPEC_HASH,
    API_VERSION,
    APISERVICEBINDINGS,
    BOUNDSCHEMAS,
    GROUP,
    crd_name,
    resource_name,
    spec_hash,
)
from fairlead.api.kubebind.types import Kind
from fairlead.api.meta import JSON, ObjectMeta, OwnerReference
from fairlead.api.resource import Resource, split_api_version
from fairlead.api.versions import KindVersion, KindVersions


_WRAPPER = "openAPIV3Schema"


class SchemaNames(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Names of the resource, as in ``spec.names`` of a CRD."""

    kind: Annotated[str, Meta(description="The kind.")]
    plural: Annotated[str, Meta(description="Plural name, as in API paths.")]
    singular: Annotated[str, Meta(description="Singular name.")] = ""
    list_kind: Annotated[str, Meta(description="Kind of a list of the objects.")] = ""
    short_names: Annotated[list[str], Meta(description="Short names for kubectl.")] = []
    categories: Annotated[
        list[str],
        Meta(
            description=(
                "Categories, such as all, by which kubectl lists several resources together."
            )
        ),
    ] = []


class SchemaScale(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """JSONPaths of the scale subresource."""

    spec_replicas_path: Annotated[
        str, Meta(description="JSONPath of the desired number of replicas.")
    ]
    status_replicas_path: Annotated[
        str, Meta(description="JSONPath of the current number of replicas.")
    ]
    label_selector_path: Annotated[
        str, Meta(description="JSONPath of the selector of the Pods.")
    ] = ""


class SchemaSubresources(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Subresources of the version."""

    status: Annotated[
        dict[str, Any] | None, Meta(description="Set if the version has the status subresource.")
    ] = None
    scale: SchemaScale | None = None


class SchemaPrinterColumn(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A column of ``kubectl get``."""

    name: Annotated[str, Meta(description="Heading of the column.")]
    type: Annotated[str, Meta(description="Type of the value.")]
    json_path: Annotated[str, Meta(description="JSONPath of the value.")]
    description: Annotated[str, Meta(description="What the column shows.")] = ""
    format: Annotated[str, Meta(description="Format of the value.")] = ""
    priority: Annotated[
        int, Meta(description="kubectl shows a column with a priority above 0 only with -o wide.")
    ] = 0


class SchemaSelectableField(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A field that field selectors can use."""

    json_path: Annotated[str, Meta(description="Simple JSONPath of the field.")]


class SchemaVersion(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """One version; ``schema`` is an OpenAPI schema, bare or under ``openAPIV3Schema``."""

    name: Annotated[
        str,
        Meta(
            # As CRDs allow it (apiextensions.k8s.io/v1); kube-bind asks for v1, v1beta1 and such.
            pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
            max_length=63,
            description="Name of the version.",
        ),
    ]
    served: Annotated[
        bool,
        Meta(extra_json_schema={"x-default": True}, description="Whether the version is served."),
    ]
    storage: Annotated[
        bool, Meta(description="Whether the provider stores objects in this version.")
    ]
    deprecated: Annotated[bool, Meta(description="Whether the version is deprecated.")] = False
    deprecation_warning: Annotated[
        str | None, Meta(description="Warning that clients of a deprecated version get.")
    ] = None
    schema: Annotated[dict[str, Any], Meta(description="OpenAPI schema of the objects.")]
    subresources: SchemaSubresources = SchemaSubresources()
    additional_printer_columns: Annotated[
        list[SchemaPrinterColumn],
        Meta(
            # CRDs allow two columns of one name, which kube-bind's list with keys does not.
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="Columns of kubectl get.",
        ),
    ] = []
    selectable_fields: Annotated[
        list[SchemaSelectableField],
        Meta(
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="Fields that field selectors can use, on Kubernetes 1.31 and newer.",
        ),
    ] = []


class WebhookClientConfig(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """URL of a conversion webhook; a consumer cannot reach a Service of the provider."""

    url: Annotated[str, Meta(description="URL of the webhook.")] = ""
    ca_bundle: Annotated[
        str,
        Meta(
            extra_json_schema={"format": "byte"},
            description="CA certificates that verify the webhook's certificate, in PEM.",
        ),
    ] = ""


class SchemaWebhook(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """A conversion webhook."""

    client_config: WebhookClientConfig = WebhookClientConfig()
    conversion_review_versions: Annotated[
        list[str], Meta(description="Versions of ConversionReview that the webhook supports.")
    ] = []


class SchemaConversion(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Conversion between versions, as in ``spec.conversion`` of a CRD."""

    strategy: Annotated[
        Literal["None", "Webhook"], Meta(description="How objects are converted between versions.")
    ]
    webhook: SchemaWebhook | None = None


# Rule and message are kube-bind's.
_WEBHOOK_RULE: JSON = {
    "x-kubernetes-validations": [
        {
            "rule": "(self.strategy == 'None' && !has(self.webhook)) || "
            "(self.strategy == 'Webhook' && has(self.webhook))",
            "message": "Webhook must be specified if strategy=Webhook",
        }
    ]
}


class BoundSchemaSpec(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """The spec of a CRD, and where the konnector watches its objects."""

    informer_scope: Annotated[
        Scope,
        Meta(
            description=(
                "Whether the konnector watches the whole provider cluster or only its own"
                " namespaces there."
            )
        ),
    ]
    group: Annotated[str, Meta(description="API group of the resource.")]
    names: SchemaNames
    scope: Annotated[
        Scope, Meta(description="Whether the objects are namespaced or cluster-scoped.")
    ]
    versions: Annotated[
        list[SchemaVersion],
        Meta(
            min_length=1,
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            description="Versions of the resource.",
        ),
    ]
    conversion: Annotated[SchemaConversion | None, Meta(extra_json_schema=_WEBHOOK_RULE)] = None

    @property
    def name(self) -> str:
        """The name of the BoundSchema itself."""
        return resource_name(self.names.plural, self.group)

    @property
    def served(self) -> list[str]:
        """The names of the served versions."""
        return [version.name for version in self.versions if version.served]

    def kind_versions(self) -> KindVersions:
        """Return the versions as the provider serves and stores them."""
        versions = [
            KindVersion(
                version.name, unwrapped_schema(version.schema), version.served, version.storage
            )
            for version in self.versions
        ]
        converted = self.conversion is not None and self.conversion.strategy == "Webhook"
        return KindVersions("on the provider", versions, converted=converted)

    def version(self, name: str) -> SchemaVersion:
        """Return a version by its name.

        Raises:
            KeyError: there is none.
        """
        return {version.name: version for version in self.versions}[name]

    def resource(self, version: str) -> Resource:
        """Return the resource in the consumer cluster, in a version."""
        namespaced = self.scope == "Namespaced"
        return Resource(self.group, version, self.names.plural, self.names.kind, namespaced)


class BoundSchemaStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Status of the CRD in the consumer's cluster, as the konnector reports it."""

    accepted_names: SchemaNames | None = None
    stored_versions: Annotated[
        list[str], Meta(description="Versions in which the consumer's cluster may store objects.")
    ] = []
    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Conditions of the consumer's CRD.")
    ] = []
    instantiations: Annotated[
        list[dict[str, Any]], Meta(description="Fairlead never sets it.")
    ] = []


class BoundSchema(Kind, kw_only=True):
    """On the provider: the schema of one exported resource, for one consumer."""

    spec: BoundSchemaSpec
    status: BoundSchemaStatus = BoundSchemaStatus()


def bound_schema_spec(
    crd: JSON, *, informer_scope: Scope, isolation: Isolation
) -> BoundSchemaSpec:
    """Convert a provider's CRD into the spec of a BoundSchema.

    Under Namespaced isolation a namespaced kind is cluster-scoped for the consumer: all its
    objects are in the cluster namespace.

    Raises:
        msgspec.ValidationError: a field of the CRD has a form that a BoundSchema does not allow.
    """
    spec = crd["spec"]
    flipped = isolation == "Namespaced" and spec["scope"] == "Namespaced"
    body: JSON = {
        "informerScope": informer_scope,
        "group": spec["group"],
        "names": spec["names"],
        "scope": "Cluster" if flipped else spec["scope"],
        "versions": [_without_nulls(version) for version in spec["versions"]],
    }
    if conversion := _conversion(spec.get("conversion")):
        body["conversion"] = conversion
    return msgspec.convert(body, BoundSchemaSpec)


def new_bound_schema(
    spec: BoundSchemaSpec,
    *,
    namespace: str,
    owner: OwnerReference | None = None,
    approval: str = "",
) -> JSON:
    """Return the body of a BoundSchema to create, with the hash of its spec.

    ``approval`` is the CRD's, "" if it has none.
    """
    annotations = {ANNOTATION_SOURCE_SPEC_HASH: spec_hash(spec)} | _approved(approval)
    metadata: JSON = {"name": spec.name, "namespace": namespace, "annotations": annotations}
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    return {
        "apiVersion": API_VERSION,
        "kind": BOUNDSCHEMAS.kind,
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec),
    }


def crd_from_bound_schema(
    spec: BoundSchemaSpec, *, owner: OwnerReference | None = None, approval: str = ""
) -> JSON:
    """Return the consumer's CRD of a BoundSchema, with the approval of the provider's CRD."""
    metadata: JSON = {"name": crd_name(spec.names.plural, spec.group)}
    annotations = _approved(approval)
    if owner is not None:
        annotations[ANNOTATION_BOUND_BY] = owner.name
        # By it Kubernetes deletes the CRD, and with it all objects, once the binding is gone.
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    if annotations:
        metadata["annotations"] = annotations
    body: JSON = {
        "group": spec.group,
        "names": msgspec.to_builtins(spec.names),
        "scope": spec.scope,
        "versions": [_crd_version(version) for version in spec.versions],
    }
    if spec.conversion is not None:
        body["conversion"] = msgspec.to_builtins(spec.conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": body,
    }


def approval_of(meta: ObjectMeta) -> str:
    """Return the approval that a CRD or its BoundSchema carries, "" without one."""
    return meta.annotations.get(ANNOTATION_API_APPROVED, "")


def binding_of_crd(crd: ObjectMeta) -> str:
    """Return the APIServiceBinding that brings a CRD to this cluster, "" if none does.

    Such a cluster is a consumer's: its provider serves the objects of the kind. Each mark counts
    by itself: every konnector sets the controller, and the annotation is what a backup keeps.
    """
    owner = crd.controller()
    if owner is not None and (split_api_version(owner.api_version)[0], owner.kind) == (
        GROUP,
        APISERVICEBINDINGS.kind,
    ):
        return owner.name
    return crd.annotations.get(ANNOTATION_BOUND_BY, "")


def unwrapped_schema(schema: JSON) -> JSON:
    """Return the OpenAPI schema itself, without the wrapper ``openAPIV3Schema``."""
    wrapped = schema.get(_WRAPPER)
    return wrapped if isinstance(wrapped, dict) else schema


def _crd_version(version: SchemaVersion) -> JSON:
    result: JSON = msgspec.to_builtins(version)
    result["schema"] = {_WRAPPER: unwrapped_schema(version.schema)}
    return result


def _approved(approval: str) -> dict[str, str]:
    return {ANNOTATION_API_APPROVED: approval} if approval else {}


def _conversion(conversion: JSON | None) -> JSON | None:
    """Return the part of a CRD's conversion that works from another cluster."""
    if not conversion or conversion.get("strategy") != "Webhook":
        return conversion and {"strategy": "None"}
    webhook = conversion.get("webhook") or {}
    client = webhook.get("clientConfig") or {}
    # A Service of the provider's cluster is out of the consumer's reach.
    if not client.get("url"):
        return None
    fields = {key: client[key] for key in ("url", "caBundle") if client.get(key)}
    versions = webhook.get("conversionReviewVersions") or []
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": fields, "conversionReviewVersions": versions},
    }


def _without_nulls(version: JSON) -> JSON:
    return {key: value for key, value in version.items() if value is not None}
