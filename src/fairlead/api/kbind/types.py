"""The kinds of ``core.kbind.io/v1alpha1``; all three are in the consumer's cluster.

An API is named by its CRD, ``<plural>.<group>``. A class whose name another protocol has too is
called Kbind here, and by its kind in :mod:`fairlead.api.kbind`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.kbind.names import DEFAULT_KUBECONFIG_KEY
from fairlead.api.kubebind.fields import Scope, immutable
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.selectors import AtomicLabelSelector


SchemaSource = Literal["Auto", "CRD", "OpenAPI"]
ActiveSchemaSource = Literal["CRD", "OpenAPI"]
PullPolicy = Literal["Bound", "All", "None"]
UpdatePolicy = Literal["Always", "Once"]
ConflictPolicy = Literal["Fail", "Adopt"]
RelatedResourceName = Literal["secrets", "configmaps"]
Direction = Literal["FromProvider", "FromConsumer"]

_ATOMIC: JSON = {"x-kubernetes-list-type": "atomic"}
_SET: JSON = {"x-kubernetes-list-type": "set"}
_INT32: JSON = {"format": "int32"}


def _once_set(field: str) -> JSON:
    """Return the schema keys of the CEL rule that a field stays as it was first set."""
    # No rule about an old value runs when the field is removed, nor when it comes back (KEP-2876).
    rule = {
        "rule": "oldSelf == '' || self == oldSelf",
        "message": f"{field} is immutable once set",
    }
    return {"x-kubernetes-validations": [rule]}


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """The base of all parts of a spec or status."""


class ReportedCondition(Condition, kw_only=True, frozen=True):
    """``metav1.Condition`` as its schema has it: all fields but the generation are required."""

    # The bounds are in the schema alone, so that an object with an odd condition is decoded.
    type: Annotated[
        str,
        Meta(
            description="What the condition is about, such as Ready.",
            extra_json_schema={"maxLength": 316},
        ),
    ]
    status: Annotated[
        ConditionStatus,
        Meta(description="Whether it holds.", extra_json_schema={"type": "string"}),
    ]
    reason: Annotated[
        str,
        Meta(
            description="Why, as one word; the reference of reasons says what helps.",
            extra_json_schema={
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
        ),
    ]
    message: Annotated[
        str,
        Meta(
            description="Why, in words, with names.",
            extra_json_schema={"maxLength": 32768},
        ),
    ]
    last_transition_time: Annotated[
        str,
        Meta(
            description="When the status last changed.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    observed_generation: Annotated[
        int,
        Meta(
            description="The generation of the spec that this is about.",
            extra_json_schema={"format": "int64", "minimum": 0},
        ),
    ] = 0


Conditions = Annotated[
    list[ReportedCondition],
    Meta(
        description="How the object stands.",
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    ),
]


class KubeconfigSecretRef(Struct, kw_only=True, frozen=True):
    """A key of a Secret in the konnector's namespace."""

    namespace: Annotated[
        str, Meta(min_length=1, description="Namespace of the Secret: the konnector's own.")
    ]
    name: Annotated[str, Meta(min_length=1, description="Name of the Secret.")]
    key: Annotated[
        str,
        Meta(
            description="Key in the Secret.",
            extra_json_schema={"x-default": DEFAULT_KUBECONFIG_KEY},
        ),
    ] = DEFAULT_KUBECONFIG_KEY


class SchemaPolicy(Struct, kw_only=True, frozen=True):
    """Where schemas come from, and which CRDs are made and updated of them."""

    source: Annotated[
        SchemaSource,
        Meta(
            description="Where the provider's schemas are read: labelled CRDs, or OpenAPI; Auto "
            "reads OpenAPI where there is no labelled CRD.",
            extra_json_schema={"x-default": "Auto"},
        ),
    ] = "Auto"
    pull_policy: Annotated[
        PullPolicy,
        Meta(
            description="Which CRDs are created here: those of bound APIs, all, or none.",
            extra_json_schema={"x-default": "Bound"},
        ),
    ] = "Bound"
    update_policy: Annotated[
        UpdatePolicy,
        Meta(
            description="Whether later changes of the provider's schema reach this cluster.",
            extra_json_schema={"x-default": "Always"},
        ),
    ] = "Always"


class KbindConnectionSpec(Struct, kw_only=True, frozen=True):
    """Kubeconfig of a provider, and what becomes of its APIs here."""

    kubeconfig_secret_ref: Annotated[
        KubeconfigSecretRef,
        Meta(
            description="Key of a Secret that holds the provider's kubeconfig.",
            extra_json_schema=immutable("kubeconfigSecretRef"),
        ),
    ]
    schema: Annotated[
        SchemaPolicy,
        Meta(
            description="Where schemas come from, and what is made of them.",
            extra_json_schema={"x-default": {}},
        ),
    ] = SchemaPolicy()
    auto_bind: Annotated[
        bool,
        Meta(
            description="Whether a ClusterBinding of the Connection's name binds all exported "
            "APIs.",
            extra_json_schema={"x-default": False},
        ),
    ] = False


class ExportedAPI(Struct, kw_only=True, frozen=True):
    """An API that the provider offers."""

    name: Annotated[str, Meta(description="Name of the CRD, PLURAL.GROUP.")]
    group: Annotated[str, Meta(description="API group.")]
    resource: Annotated[str, Meta(description="Plural name.")]
    scope: Annotated[Scope, Meta(description="Whether objects are in namespaces.")]
    versions: Annotated[
        list[str], Meta(description="Versions that are served.", extra_json_schema=_SET)
    ]


class ConnectionStatus(Struct, kw_only=True, frozen=True):
    """Clusters that are connected, the APIs of the provider, and conditions."""

    conditions: Conditions = []
    remote_cluster_uid: Annotated[
        str,
        Meta(
            description="uid of the provider's cluster, pinned at the first success.",
            extra_json_schema=_once_set("remoteClusterUID"),
        ),
    ] = msgspec.field(default="", name="remoteClusterUID")
    local_cluster_uid: Annotated[
        str,
        Meta(
            description="uid of this cluster, pinned at the first success.",
            extra_json_schema=_once_set("localClusterUID"),
        ),
    ] = msgspec.field(default="", name="localClusterUID")
    active_schema_source: Annotated[
        ActiveSchemaSource | None, Meta(description="Where schemas are read now.")
    ] = None
    exported_apis: Annotated[
        list[ExportedAPI],
        Meta(description="APIs that the provider offers.", extra_json_schema=_ATOMIC),
    ] = msgspec.field(default=[], name="exportedAPIs")


class KbindKind(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The base of all kinds."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class KbindConnection(KbindKind, kw_only=True):
    """The way to one provider, by a kubeconfig."""

    spec: KbindConnectionSpec
    status: ConnectionStatus = ConnectionStatus()


class ConnectionRef(Struct, kw_only=True, frozen=True):
    """Name of a Connection."""

    name: Annotated[str, Meta(min_length=1, description="Name of the Connection.")]


class BoundAPIName(Struct, kw_only=True, frozen=True):
    """Name of an API that is bound."""

    name: Annotated[str, Meta(min_length=1, description="Name of the CRD, PLURAL.GROUP.")]


class RelatedSelector(Struct, kw_only=True, frozen=True):
    """Selection of related objects: those that fit labels and names alike."""

    label_selector: Annotated[AtomicLabelSelector, Meta(description="Objects by label.")] = None
    names: Annotated[list[str], Meta(description="Objects by name.", extra_json_schema=_SET)] = []


class RelatedResource(Struct, kw_only=True, frozen=True):
    """Secrets or ConfigMaps that are copied beside the bound objects."""

    group: Annotated[str, Meta(description="Not read.", extra_json_schema={"x-default": ""})] = ""
    resource: Annotated[RelatedResourceName, Meta(description="Kind of the objects.")]
    direction: Annotated[Direction, Meta(description="Which cluster has the originals.")]
    selector: Annotated[
        RelatedSelector | None, Meta(description="Which objects; without one, all.")
    ] = None


class KbindBindingSpec(Struct, kw_only=True, frozen=True):
    """APIs of one Connection that are synchronised, with the objects beside them."""

    connection_ref: Annotated[
        ConnectionRef, Meta(description="The Connection that the APIs are bound by.")
    ]
    apis: Annotated[list[BoundAPIName], Meta(min_length=1, description="APIs to bind.")]
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description="What becomes of an object that has the copy's place at the provider.",
            extra_json_schema={"x-default": "Fail"},
        ),
    ] = "Fail"
    related_resources: Annotated[
        list[RelatedResource],
        Meta(description="Objects that are copied too.", extra_json_schema=_ATOMIC),
    ] = []


class BoundAPI(Struct, kw_only=True, frozen=True):
    """An API that is bound, and how its objects stand."""

    name: Annotated[str, Meta(description="Name of the CRD, PLURAL.GROUP.")]
    crd_hash: Annotated[
        str, Meta(description="Hash of the CRD's spec, as in annotation schema-hash.")
    ] = ""
    conflict_count: Annotated[
        int,
        Meta(
            description="How many objects have no copy, as another object has its place.",
            extra_json_schema=_INT32,
        ),
    ] = 0


class KbindBindingStatus(Struct, kw_only=True, frozen=True):
    """APIs that are bound, and conditions."""

    conditions: Conditions = []
    bound_apis: Annotated[
        list[BoundAPI], Meta(description="APIs that are bound.", extra_json_schema=_ATOMIC)
    ] = msgspec.field(default=[], name="boundAPIs")


class KbindClusterBinding(KbindKind, kw_only=True):
    """Binds APIs for all namespaces, and cluster-scoped ones."""

    spec: KbindBindingSpec
    status: KbindBindingStatus = KbindBindingStatus()


class KbindBinding(KbindKind, kw_only=True):
    """Binds APIs for the objects of its own namespace."""

    spec: KbindBindingSpec
    status: KbindBindingStatus = KbindBindingStatus()
