"""``ServiceBinding`` of ``servicebinding.io``, and the CRDs of both Service Binding APIs.

Service Binding specification 1.1. v1 is stored; v1beta1 and v1alpha3 have the same schema and are
served, so that no conversion is needed.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead.api.crd import AGE, PrinterColumn, build_crd
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.selectors import AtomicLabelSelector
from fairlead.api.servicebinding.common import (
    BindingName,
    Conditions,
    exclusive,
    spec_versions,
    validations,
    with_strict_conditions,
)
from fairlead.api.servicebinding.coreos import (
    READY_COLUMN,
    REASON_COLUMN,
    bindablekinds_crd,
    coreos_crd,
)
from fairlead.api.servicebinding.mapping import mapping_crd


SERVICEBINDINGS = Resource("servicebinding.io", "v1", "servicebindings", "ServiceBinding")
SPEC_FINALIZER = "servicebinding.io/finalizer"

_WORKLOAD_RULES = validations(
    (
        # As in the specification's reference runtime; name and selector may change.
        "self.apiVersion == oldSelf.apiVersion && self.kind == oldSelf.kind",
        "apiVersion and kind of the workload are immutable",
    ),
    exclusive("selector"),
)


class WorkloadRef(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The workload by name, or several by selector."""

    api_version: Annotated[str, msgspec.Meta(description="API version of the workload.")]
    kind: Annotated[str, msgspec.Meta(description="Kind of the workload.")]
    name: Annotated[
        str, msgspec.Meta(description="Name of the workload; set either name or selector.")
    ] = ""
    selector: AtomicLabelSelector = None
    containers: Annotated[
        list[str],
        msgspec.Meta(
            description="Names of the containers to bind; without names, all containers."
        ),
    ] = []


class ServiceRef(msgspec.Struct, rename="camel", omit_defaults=True):
    """A Provisioned Service, or a Secret."""

    api_version: Annotated[
        str, msgspec.Meta(description="API version of the service, or v1 for a Secret.")
    ]
    kind: Annotated[str, msgspec.Meta(description="Kind of the service, or Secret.")]
    name: Annotated[str, msgspec.Meta(description="Name of the service.")]


class EnvMapping(msgspec.Struct, rename="camel", omit_defaults=True):
    """An environment variable with the value of an entry."""

    name: Annotated[str, msgspec.Meta(description="Name of the environment variable.")]
    key: Annotated[str, msgspec.Meta(description="Entry of the binding that has the value.")]


class ServiceBindingSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Service and workload of the binding, and changes to its entries."""

    name: BindingName = ""
    type: Annotated[
        str, msgspec.Meta(description="Value of the entry type; replaces the service's own.")
    ] = ""
    provider: Annotated[
        str, msgspec.Meta(description="Value of the entry provider; replaces the service's own.")
    ] = ""
    workload: Annotated[WorkloadRef, msgspec.Meta(extra_json_schema=_WORKLOAD_RULES)]
    service: ServiceRef
    env: Annotated[
        list[EnvMapping],
        msgspec.Meta(description="Entries to project as environment variables too."),
    ] = []


class SecretName(msgspec.Struct, rename="camel", omit_defaults=True):
    """The projected Secret."""

    name: Annotated[str, msgspec.Meta(description="Name of the Secret.")]


class ServiceBindingStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """State of the binding."""

    observed_generation: Annotated[
        int, msgspec.Meta(description="The generation of the spec that the status describes.")
    ] = 0
    conditions: Conditions = []
    binding: SecretName | None = None


class ServiceBinding(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Projects a service's binding Secret into workloads."""

    api_version: str = SERVICEBINDINGS.api_version
    kind: str = SERVICEBINDINGS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ServiceBindingSpec
    status: ServiceBindingStatus | None = None


_COLUMNS = (
    READY_COLUMN,
    REASON_COLUMN,
    PrinterColumn("Secret", ".status.binding.name", priority=1),
    AGE,
)


def servicebinding_crd() -> JSON:
    """Return the CRD of ServiceBinding in servicebinding.io."""
    crd = build_crd(SERVICEBINDINGS, spec_versions(ServiceBinding, columns=_COLUMNS))
    for version in crd["spec"]["versions"]:
        # The specification's own CRD accepts an object without spec; the status reports it then.
        del version["schema"]["openAPIV3Schema"]["required"]
    return with_strict_conditions(crd)


def crds() -> list[JSON]:
    """Return every CRD that the binding controllers own."""
    return [servicebinding_crd(), mapping_crd(), coreos_crd(), bindablekinds_crd()]
