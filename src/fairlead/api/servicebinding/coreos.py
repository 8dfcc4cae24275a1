"""``ServiceBinding`` of ``binding.operators.coreos.com/v1alpha1``, Service Binding Operator's own.

It binds several services, of any namespace, and knows namings, mappings and binding paths that
the specification does not have.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead.api.conditions import Condition
from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.selectors import AtomicLabelSelector
from fairlead.api.servicebinding.common import (
    IMMUTABLE,
    BindingName,
    exclusive,
    validations,
    with_strict_conditions,
)


COREOS_SERVICEBINDINGS = Resource(
    "binding.operators.coreos.com", "v1alpha1", "servicebindings", "ServiceBinding"
)
BINDABLEKINDS = Resource(
    "binding.operators.coreos.com", "v1alpha1", "bindablekinds", "BindableKinds", namespaced=False
)
BINDABLEKINDS_NAME = "bindable-kinds"
"""Name of the only BindableKinds object."""

COREOS_FINALIZER = "finalizer.servicebinding.openshift.io"


class Mapping(msgspec.Struct, rename="camel", omit_defaults=True):
    """An additional entry of the binding; its value is a Go text template."""

    name: Annotated[str, msgspec.Meta(description="Name of the entry.")]
    value: Annotated[
        str, msgspec.Meta(description="A Go text template that reads fields of the services.")
    ]


class CoreosService(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A backing service."""

    group: Annotated[str, msgspec.Meta(description="API group of the service.")]
    version: Annotated[str, msgspec.Meta(description="API version of the service.")]
    kind: Annotated[
        str, msgspec.Meta(description="Kind of the service; you can set resource instead.")
    ] = ""
    resource: Annotated[
        str,
        msgspec.Meta(
            description="Plural name of the service's resource; has precedence over kind."
        ),
    ] = ""
    name: Annotated[str, msgspec.Meta(description="Name of the service.")] = ""
    namespace: Annotated[
        str | None,
        msgspec.Meta(
            description="Namespace of the service; by default the namespace of the binding."
        ),
    ] = None
    id: Annotated[
        str | None, msgspec.Meta(description="Name of the service in the templates of mappings.")
    ] = None


class BindingPath(msgspec.Struct, rename="camel", omit_defaults=True):
    """Paths of a list of containers, and of a string that receives the Secret's name."""

    containers_path: Annotated[
        str,
        msgspec.Meta(
            description=(
                "Dotted path of the workload's list of containers, such as"
                " spec.template.spec.containers."
            )
        ),
    ] = ""
    secret_path: Annotated[
        str,
        msgspec.Meta(
            description=(
                "Dotted path of a string field of the workload that receives the Secret's name."
            )
        ),
    ] = ""


class Application(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The workload, in the namespace of the binding."""

    group: Annotated[str, msgspec.Meta(description="API group of the workload.")]
    version: Annotated[str, msgspec.Meta(description="API version of the workload.")]
    kind: Annotated[
        str, msgspec.Meta(description="Kind of the workload; you can set resource instead.")
    ] = ""
    resource: Annotated[
        str,
        msgspec.Meta(
            description="Plural name of the workload's resource; has precedence over kind."
        ),
    ] = ""
    name: Annotated[
        str, msgspec.Meta(description="Name of the workload; set either name or labelSelector.")
    ] = ""
    label_selector: AtomicLabelSelector = None
    binding_path: BindingPath | None = None


class CoreosSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Services and workload of the binding, and how it names and projects its entries."""

    name: BindingName = ""
    naming_strategy: Annotated[
        str,
        msgspec.Meta(
            description=(
                "How the binding names its entries: none, lowercase, uppercase, or a Go text"
                " template."
            )
        ),
    ] = ""
    mappings: Annotated[
        list[Mapping], msgspec.Meta(description="Additional entries, as templates.")
    ] = []
    services: Annotated[
        list[CoreosService], msgspec.Meta(min_length=1, description="Services to bind.")
    ]
    application: Annotated[
        Application, msgspec.Meta(extra_json_schema=validations(exclusive("labelSelector")))
    ]
    detect_binding_resources: Annotated[
        bool,
        msgspec.Meta(
            description=(
                "Whether the binding also reads objects that a service owns, such as its Secrets."
            )
        ),
    ] = False
    bind_as_files: Annotated[
        bool,
        msgspec.Meta(
            extra_json_schema={"x-default": True},
            description="True projects the entries as files, False as environment variables.",
        ),
    ] = True


class CoreosStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """Conditions, and the projected Secret."""

    # Without a default, for Service Binding Operator's CRD requires the field in every status.
    secret: Annotated[
        str, msgspec.Meta(description="Name of the projected Secret; empty while there is none.")
    ]
    conditions: Annotated[
        list[Condition],
        msgspec.Meta(
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
            description="Conditions of collecting the binding's data and of projecting it.",
        ),
    ] = []


class CoreosServiceBinding(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Binds services to an application."""

    api_version: str = COREOS_SERVICEBINDINGS.api_version
    kind: str = COREOS_SERVICEBINDINGS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CoreosSpec
    status: CoreosStatus | None = None


class BindableKind(msgspec.Struct, order=True, frozen=True, kw_only=True):
    """A kind of objects that bindings can name as services, in one of its served versions."""

    group: Annotated[str, msgspec.Meta(description="API group.")]
    kind: Annotated[str, msgspec.Meta(description="Kind.")]
    version: Annotated[str, msgspec.Meta(description="API version.")]


class BindableKinds(msgspec.Struct, rename="camel", kw_only=True):
    """Lists the kinds that a binding can name as services."""

    api_version: str = BINDABLEKINDS.api_version
    kind: str = BINDABLEKINDS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: Annotated[
        list[BindableKind], msgspec.Meta(description="Kinds that a binding can name as services.")
    ] = []


READY_COLUMN = PrinterColumn("Ready", '.status.conditions[?(@.type=="Ready")].status')
REASON_COLUMN = PrinterColumn("Reason", '.status.conditions[?(@.type=="Ready")].reason')


# A rule of the root, since one of the spec cannot see the status. The old status is the stored
# one, which no writer of the spec can choose.
_UNCHANGED_WHILE_READY = (
    "self.spec == oldSelf.spec || !has(oldSelf.status) || !has(oldSelf.status.conditions) || "
    "!oldSelf.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
)


def coreos_crd() -> JSON:
    """Return the CRD of ServiceBinding in binding.operators.coreos.com."""
    crd = build_crd(
        COREOS_SERVICEBINDINGS,
        [
            Version(
                "v1alpha1",
                CoreosServiceBinding,
                columns=(READY_COLUMN, REASON_COLUMN, AGE),
                schema_extra=validations((_UNCHANGED_WHILE_READY, IMMUTABLE)),
            )
        ],
        short_names=("sbr", "sbrs"),
    )
    return with_strict_conditions(crd)


def bindablekinds_crd() -> JSON:
    """Return the CRD of BindableKinds."""
    return build_crd(BINDABLEKINDS, [Version("v1alpha1", BindableKinds, status=False, columns=())])
