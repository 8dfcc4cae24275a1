"""Parts that several kinds of kube-bind share: resources, claims, selectors, references."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.kubebind.names import resource_name
from fairlead.api.meta import JSON
from fairlead.api.selectors import AtomicLabelSelector


Scope = Literal["Cluster", "Namespaced"]
Isolation = Literal["Prefixed", "Namespaced", "None"]
SchemaUpdatePolicy = Literal["Never", "Always"]
Phase = Literal["Pending", "Failed", "Succeeded"]

# Both patterns are kube-bind's: a plural name has two characters at least.
GROUP_PATTERN = r"^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"
RESOURCE_PATTERN = r"^[a-z][-a-z0-9]*[a-z0-9]$"


def immutable(field: str) -> JSON:
    """Return the schema keys of the CEL rule that a field does not change once it is set."""
    # Such a rule does not run when an optional field is added or removed (KEP-2876).
    rule = {"rule": "self == oldSelf", "message": f"{field} is immutable"}
    return {"x-kubernetes-validations": [rule]}


class GroupResource(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """API group and plural name of a resource."""

    # Made by a factory, so that it is written even when it is empty: servers store the empty
    # value, and a body without it would differ from the stored one at every comparison.
    group: Annotated[
        str,
        Meta(
            pattern=GROUP_PATTERN,
            description="API group; empty for the core group.",
            extra_json_schema={"x-default": ""},
        ),
    ] = msgspec.field(default_factory=str)
    resource: Annotated[
        str, Meta(pattern=RESOURCE_PATTERN, description="Plural name of the resource.")
    ]

    @property
    def name(self) -> str:
        """``resource.group``, the name of its BoundSchema."""
        return resource_name(self.resource, self.group)

    @property
    def group_resource(self) -> tuple[str, str]:
        """Group and resource as a pair, to compare with objects of other types."""
        return self.group, self.resource


class ExportResource(GroupResource, kw_only=True, frozen=True):
    """A resource to export, in all served versions; ``versions`` is for references alone."""

    versions: Annotated[
        list[str],
        Meta(
            description=(
                "Versions in which the konnector may read objects of this resource to follow"
                " references."
            )
        ),
    ] = []


class NamedResource(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Name of an object; without a namespace, objects of this name in all namespaces."""

    name: Annotated[str, Meta(description="Name of the object.")]
    namespace: Annotated[
        str, Meta(description="Namespace of the consumer; empty for any namespace.")
    ] = ""


class SelectorPaths(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """gjson paths at which a referring object holds the names and namespaces of its targets."""

    name: Annotated[
        str, Meta(description="gjson path to the names, such as spec.refs.#.name.")
    ] = ""
    namespace: Annotated[str, Meta(description="gjson path to the namespaces.")] = ""


class SelectorReference(GroupResource, kw_only=True, frozen=True):
    """A resource with objects that name the claimed objects in their fields."""

    versions: Annotated[
        list[str],
        Meta(description="Versions in which the konnector may read the referring objects."),
    ] = []
    json_path: Annotated[
        SelectorPaths,
        Meta(description="Where a referring object has the names of the claimed objects."),
    ] = msgspec.field(name="jsonPath")


class Selector(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Objects of a claim: those that match any of the three fields; an empty selector has none."""

    label_selector: AtomicLabelSelector = None
    named_resources: Annotated[list[NamedResource], Meta(description="Names of the objects.")] = []
    references: Annotated[
        list[SelectorReference],
        Meta(description="Resources with objects that name the claimed objects in their fields."),
    ] = []


class PermissionClaim(GroupResource, kw_only=True, frozen=True):
    """Objects of a core resource that the konnector copies besides the exported ones."""

    selector: Annotated[
        Selector, Meta(description="Which objects of the resource the claim covers.")
    ]


class ConversionWebhook(GroupResource, kw_only=True, frozen=True):
    """A webhook to which the consumer's API server may send all objects of one bound kind."""

    url: Annotated[str, Meta(description="URL of the webhook, as the provider gives it.")]


class NamespaceName(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """A consumer's namespace; the provider creates its own namespace for it in advance."""

    name: Annotated[str, Meta(description="Name of the namespace in the consumer's cluster.")]


class ClusterSecretKeyRef(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A Secret in any namespace, and its key."""

    name: Annotated[str, Meta(min_length=1, description="Name of the Secret.")]
    namespace: Annotated[str, Meta(min_length=1, description="Namespace of the Secret.")]
    key: Annotated[str, Meta(description="Key in the Secret.")]


class LocalSecretKeyRef(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A Secret in the object's namespace, and its key."""

    name: Annotated[str, Meta(min_length=1, description="Name of the Secret.")]
    key: Annotated[str, Meta(description="Key in the Secret.")]


class SecretReference(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A Secret in any namespace."""

    name: Annotated[str, Meta(description="Name of the Secret.")]
    namespace: Annotated[str, Meta(description="Namespace of the Secret.")]


class ConditionsStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Status with conditions and no other field."""

    conditions: Annotated[
        list[KubeBindCondition], Meta(description="Conditions of the object.")
    ] = []


class NamedRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Name of an APIServiceExportTemplate."""

    name: Annotated[str, Meta(description="Name of the object.")]


Parameters = Annotated[dict[str, Any], Meta(description="Any object; Fairlead does not read it.")]
