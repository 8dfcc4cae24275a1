"""``ServiceBinding`` of ``servicebinding.io``, and the CRDs of both Service Binding APIs.

Service Binding specification 1.1. v1 is stored; v1beta1 and v1alpha3 have the same schema and are
served, so that no conversion is needed.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead.api.crd import PrinterColumn, build_crd
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.common import (
    AtomicLabelSelector,
    BindingName,
    Conditions,
    exclusive,
    spec_versions,
    validations,
    with_strict_conditions,
)
from fairlead.api.servicebinding.coreos import BINDING_COLUMNS, bindablekinds_crd, coreos_crd
from fairlead.api.servicebinding.mapping import mapping_crd


SERVICEBINDINGS = Resource("servicebinding.io", "v1", "servicebindings", "ServiceBinding")
SPEC_FINALIZER = "servicebinding.io/finalizer"

_WORKLOAD_RULES = validations(
    (
        "self.apiVersion == oldSelf.apiVersion && self.kind == oldSelf.kind",
        "apiVersion and kind of the workload are immutable",
    ),
    exclusive("selector"),
)


class Workload(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The workloads, by name or by selector; no containers means all of them."""

    api_version: str
    kind: str
    name: str = ""
    selector: AtomicLabelSelector = None
    containers: list[str] = []


class Service(msgspec.Struct, rename="camel", omit_defaults=True):
    """A Provisioned Service, or a Secret itself."""

    api_version: str
    kind: str
    name: str


class EnvMapping(msgspec.Struct, rename="camel", omit_defaults=True):
    """An environment variable from an entry of the binding."""

    name: str
    key: str


class ServiceBindingSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What is bound to what; ``type`` and ``provider`` override the service's own entries."""

    name: BindingName = ""
    type: str = ""
    provider: str = ""
    workload: Annotated[Workload, msgspec.Meta(extra_json_schema=_WORKLOAD_RULES)]
    service: Service
    env: list[EnvMapping] = []


class SecretName(msgspec.Struct, rename="camel", omit_defaults=True):
    """The Secret that is projected."""

    name: str


class ServiceBindingStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """How the binding stands, of which generation of its spec."""

    observed_generation: int = 0
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
    *BINDING_COLUMNS[:2],
    PrinterColumn("Secret", ".status.binding.name", priority=1),
    BINDING_COLUMNS[2],
)


def servicebinding_crd() -> JSON:
    """The CRD of ServiceBinding in servicebinding.io."""
    crd = build_crd(SERVICEBINDINGS, spec_versions(ServiceBinding, columns=_COLUMNS))
    for version in crd["spec"]["versions"]:
        # The specification's own CRD takes an object without spec, of which the status tells then.
        del version["schema"]["openAPIV3Schema"]["required"]
    return with_strict_conditions(crd)


def crds() -> list[JSON]:
    """Every CRD the binding controllers own."""
    return [servicebinding_crd(), mapping_crd(), coreos_crd(), bindablekinds_crd()]
