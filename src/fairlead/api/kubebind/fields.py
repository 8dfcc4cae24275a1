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
    """API group and plural name of a resource, without a version."""

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
    """A resource to export, in all its versions; the listed versions have no effect."""

    versions: Annotated[list[str], Meta(description="Versions that references are read in.")] = []


class NamedResource(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Name of an object; without a namespace, the objects of this name in all namespaces."""

    name: Annotated[str, Meta(description="Name of the object.")]
    namespace: Annotated[str, Meta(description="The consumer's namespace; empty means any.")] = ""


class SelectorPaths(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """gjson paths at which a referring object holds the names and namespaces of its targets."""

    name: Annotated[str, Meta(description="gjson path to names, such as spec.refs.#.name.")] = ""
    namespace: Annotated[str, Meta(description="gjson path to namespaces.")] = ""


class SelectorReference(GroupResource, kw_only=True, frozen=True):
    """Objects that other objects name in their fields."""

    versions: Annotated[
        list[str], Meta(description="Versions in which the referring objects may be read.")
    ] = []
    json_path: Annotated[
        SelectorPaths, Meta(description="Where the referring object names the claimed one.")
    ] = msgspec.field(name="jsonPath")


class Selector(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Selection of a claim's objects: any of the three ways is enough; without any, no object."""

    label_selector: AtomicLabelSelector = None
    named_resources: Annotated[list[NamedResource], Meta(description="Objects by name.")] = []
    references: Annotated[
        list[SelectorReference], Meta(description="Objects that other objects refer to.")
    ] = []


class PermissionClaim(GroupResource, kw_only=True, frozen=True):
    """Objects of a core resource that are copied beside the exported ones, by a selector."""

    selector: Annotated[Selector, Meta(description="Which objects are claimed.")]


class ConversionWebhook(GroupResource, kw_only=True, frozen=True):
    """A webhook that the consumer's API server may send all objects of one bound kind to."""

    url: Annotated[str, Meta(description="Address of the webhook, as the provider names it.")]


class NamespaceName(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Consumer namespace whose provider namespace is made before an object needs it."""

    name: Annotated[str, Meta(description="Name of the namespace at the consumer.")]


class ClusterSecretKeyRef(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A key of a Secret anywhere in the cluster."""

    name: Annotated[str, Meta(min_length=1, description="Name of the Secret.")]
    namespace: Annotated[str, Meta(min_length=1, description="Namespace of the Secret.")]
    key: Annotated[str, Meta(description="Key in the Secret.")]


class LocalSecretKeyRef(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A key of a Secret in the namespace of the object."""

    name: Annotated[str, Meta(min_length=1, description="Name of the Secret.")]
    key: Annotated[str, Meta(description="Key in the Secret.")]


class SecretReference(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A Secret anywhere in the cluster."""

    name: Annotated[str, Meta(description="Name of the Secret.")]
    namespace: Annotated[str, Meta(description="Namespace of the Secret.")]


class ConditionsStatus(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Status with conditions and no other field."""

    conditions: Annotated[list[KubeBindCondition], Meta(description="How the object stands.")] = []


class NamedRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Another object of the provider by name."""

    name: Annotated[str, Meta(description="Name of the object.")]


Parameters = Annotated[dict[str, Any], Meta(description="Anything; never interpreted.")]
