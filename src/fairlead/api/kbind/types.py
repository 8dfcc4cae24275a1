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
    """A condition, as ``metav1.Condition``; all fields except the generation are required."""

    # The bounds are in the schema alone, so that an object with an odd condition is decoded.
    type: Annotated[
        str,
        Meta(
            description="Type of the condition, such as Ready.",
            extra_json_schema={"maxLength": 316},
        ),
    ]
    status: Annotated[
        ConditionStatus,
        Meta(description="Whether the condition holds.", extra_json_schema={"type": "string"}),
    ]
    reason: Annotated[
        str,
        Meta(
            description="The reason as one word; the page Reasons of the manual says what to do.",
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
            description="The reason in a sentence, with the names of the objects.",
            extra_json_schema={"maxLength": 32768},
        ),
    ]
    last_transition_time: Annotated[
        str,
        Meta(
            description="When the status of the condition last changed.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    observed_generation: Annotated[
        int,
        Meta(
            description="The generation of the spec that the condition describes.",
            extra_json_schema={"format": "int64", "minimum": 0},
        ),
    ] = 0


Conditions = Annotated[
    list[ReportedCondition],
    Meta(
        description="Conditions of the object.",
        extra_json_schema={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    ),
]


class KubeconfigSecretRef(Struct, kw_only=True, frozen=True):
    """A key of a Secret in the konnector's namespace."""

    namespace: Annotated[
        str,
        Meta(
            min_length=1,
            description="Namespace of the Secret; it must be the konnector's namespace.",
        ),
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
    """The source of schemas, and the CRDs that the konnector creates and updates from them."""

    source: Annotated[
        SchemaSource,
        Meta(
            description=(
                "Where the konnector reads the provider's schemas: from CRDs with the export"
                " label, or from OpenAPI. Auto reads OpenAPI if no CRD has the label."
            ),
            extra_json_schema={"x-default": "Auto"},
        ),
    ] = "Auto"
    pull_policy: Annotated[
        PullPolicy,
        Meta(
            description=(
                "Which CRDs the konnector creates in this cluster: those of bound APIs, of all"
                " exported APIs, or none."
            ),
            extra_json_schema={"x-default": "Bound"},
        ),
    ] = "Bound"
    update_policy: Annotated[
        UpdatePolicy,
        Meta(
            description=(
                "Whether the CRDs in this cluster follow later changes of the provider's schemas."
            ),
            extra_json_schema={"x-default": "Always"},
        ),
    ] = "Always"


class KbindConnectionSpec(Struct, kw_only=True, frozen=True):
    """The kubeconfig for a provider, and what the konnector does with the provider's APIs."""

    kubeconfig_secret_ref: Annotated[
        KubeconfigSecretRef,
        Meta(
            description=(
                "The Secret and the key that hold the kubeconfig for the provider's cluster."
            ),
            extra_json_schema=immutable("kubeconfigSecretRef"),
        ),
    ]
    schema: Annotated[
        SchemaPolicy,
        Meta(
            description=(
                "Where the konnector reads schemas, and which CRDs it creates and updates."
            ),
            extra_json_schema={"x-default": {}},
        ),
    ] = SchemaPolicy()
    auto_bind: Annotated[
        bool,
        Meta(
            description=(
                "Whether the konnector binds all exported APIs, with a ClusterBinding of the"
                " Connection's name."
            ),
            extra_json_schema={"x-default": False},
        ),
    ] = False


class ExportedAPI(Struct, kw_only=True, frozen=True):
    """An API that the provider exports."""

    name: Annotated[str, Meta(description="Name of the CRD, PLURAL.GROUP.")]
    group: Annotated[str, Meta(description="API group.")]
    resource: Annotated[str, Meta(description="Plural name of the resource.")]
    scope: Annotated[
        Scope, Meta(description="Whether the objects are namespaced or cluster-scoped.")
    ]
    versions: Annotated[
        list[str], Meta(description="Versions that the provider serves.", extra_json_schema=_SET)
    ]


class ConnectionStatus(Struct, kw_only=True, frozen=True):
    """The two clusters, the APIs that the provider exports, and conditions."""

    conditions: Conditions = []
    remote_cluster_uid: Annotated[
        str,
        Meta(
            description=(
                "UID of the provider's cluster; set by the first successful connection, and never"
                " changed."
            ),
            extra_json_schema=_once_set("remoteClusterUID"),
        ),
    ] = msgspec.field(default="", name="remoteClusterUID")
    local_cluster_uid: Annotated[
        str,
        Meta(
            description=(
                "UID of this cluster; set by the first successful connection, and never changed."
            ),
            extra_json_schema=_once_set("localClusterUID"),
        ),
    ] = msgspec.field(default="", name="localClusterUID")
    active_schema_source: Annotated[
        ActiveSchemaSource | None,
        Meta(description="Where the konnector reads schemas at present."),
    ] = None
    exported_apis: Annotated[
        list[ExportedAPI],
        Meta(description="APIs that the provider exports.", extra_json_schema=_ATOMIC),
    ] = msgspec.field(default=[], name="exportedAPIs")


class KbindKind(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The base of all kinds."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class KbindConnection(KbindKind, kw_only=True):
    """Connects this cluster to one provider, with a kubeconfig."""

    spec: KbindConnectionSpec
    status: ConnectionStatus = ConnectionStatus()


class ConnectionRef(Struct, kw_only=True, frozen=True):
    """Name of a Connection."""

    name: Annotated[str, Meta(min_length=1, description="Name of the Connection.")]


class BoundAPIName(Struct, kw_only=True, frozen=True):
    """Name of an API to bind."""

    name: Annotated[str, Meta(min_length=1, description="Name of the CRD, PLURAL.GROUP.")]


class RelatedSelector(Struct, kw_only=True, frozen=True):
    """Selects the objects that match both the label selector and the names."""

    label_selector: Annotated[AtomicLabelSelector, Meta(description="Labels of the objects.")] = (
        None
    )
    names: Annotated[
        list[str], Meta(description="Names of the objects.", extra_json_schema=_SET)
    ] = []


class RelatedResource(Struct, kw_only=True, frozen=True):
    """Secrets or ConfigMaps that the konnector copies besides the bound objects."""

    group: Annotated[
        str, Meta(description="Fairlead does not read it.", extra_json_schema={"x-default": ""})
    ] = ""
    resource: Annotated[RelatedResourceName, Meta(description="Resource of the objects.")]
    direction: Annotated[
        Direction,
        Meta(description="Which cluster has the originals: the provider's or the consumer's."),
    ]
    selector: Annotated[
        RelatedSelector | None, Meta(description="Which objects to copy; without a selector, all.")
    ] = None


class KbindBindingSpec(Struct, kw_only=True, frozen=True):
    """The APIs to bind through a Connection, and the related objects to copy."""

    connection_ref: Annotated[
        ConnectionRef,
        Meta(description="The Connection through which the konnector binds the APIs."),
    ]
    apis: Annotated[list[BoundAPIName], Meta(min_length=1, description="APIs to bind.")]
    conflict_policy: Annotated[
        ConflictPolicy,
        Meta(
            description=(
                "What happens if the provider already has an object with the name of a copy: with"
                " Fail it stays as it is and the konnector reports a conflict; with Adopt the"
                " konnector merges into it, unless it is the copy of another cluster."
            ),
            extra_json_schema={"x-default": "Fail"},
        ),
    ] = "Fail"
    related_resources: Annotated[
        list[RelatedResource],
        Meta(
            description="Secrets and ConfigMaps that the konnector copies too.",
            extra_json_schema=_ATOMIC,
        ),
    ] = []


class BoundAPI(Struct, kw_only=True, frozen=True):
    """A bound API, and the number of its conflicts."""

    name: Annotated[str, Meta(description="Name of the CRD, PLURAL.GROUP.")]
    crd_hash: Annotated[
        str,
        Meta(
            description=(
                "Hash of the CRD's spec, as in the CRD's annotation core.kbind.io/schema-hash."
            )
        ),
    ] = ""
    conflict_count: Annotated[
        int,
        Meta(
            description=(
                "Number of objects without a copy, because another object has the name of the"
                " copy."
            ),
            extra_json_schema=_INT32,
        ),
    ] = 0


class KbindBindingStatus(Struct, kw_only=True, frozen=True):
    """Bound APIs, and conditions."""

    conditions: Conditions = []
    bound_apis: Annotated[
        list[BoundAPI],
        Meta(
            description=(
                "Bound APIs, and those that the binding no longer lists, until their copies are"
                " deleted."
            ),
            extra_json_schema=_ATOMIC,
        ),
    ] = msgspec.field(default=[], name="boundAPIs")


class KbindClusterBinding(KbindKind, kw_only=True):
    """Binds APIs in all namespaces, and cluster-scoped APIs."""

    spec: KbindBindingSpec
    status: KbindBindingStatus = KbindBindingStatus()


class KbindBinding(KbindKind, kw_only=True):
    """Binds APIs in its own namespace."""

    spec: KbindBindingSpec
    status: KbindBindingStatus = KbindBindingStatus()
