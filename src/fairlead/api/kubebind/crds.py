"""The CRDs of kube-bind, made from the types."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd
from fairlead.api.kubebind import names
from fairlead.api.kubebind.boundschema import BoundSchema
from fairlead.api.kubebind.catalogue import (
    APIServiceExportTemplate,
    BindableResourcesRequest,
    ProviderCluster,
    TemplateCollection,
)
from fairlead.api.kubebind.types import (
    CLUSTER_BINDING_RULE,
    APIServiceBinding,
    APIServiceBindingBundle,
    APIServiceExport,
    APIServiceExportRequest,
    APIServiceNamespace,
    ClusterBinding,
    Kind,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource


_BINDINGS = "kube-bindings"
_CATALOGUE = "kube-bind"


def _condition(type_: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


_READY = PrinterColumn("Ready", _condition("Ready", "status"))
_BOUND_COLUMNS = (
    PrinterColumn("Provider", ".status.providerPrettyName"),
    PrinterColumn("Resources", r".metadata.annotations.kube-bind\.io/resources", priority=1),
    _READY,
    PrinterColumn("Message", _condition("Ready", "message")),
    AGE,
)


def _crd(
    resource: Resource,
    type_: type[Kind],
    columns: Sequence[PrinterColumn],
    *,
    short_names: Sequence[str] = (),
    category: str = _BINDINGS,
    rules: Sequence[JSON] = (),
) -> JSON:
    extra = {"x-kubernetes-validations": list(rules)} if rules else {}
    version = Version(names.VERSION, type_, columns=(*columns,), schema_extra=extra)
    return build_crd(resource, [version], short_names=short_names, categories=[category])


def consumer_crds() -> list[JSON]:
    """Return the CRDs of a consumer's cluster."""
    return [
        _crd(names.APISERVICEBINDINGS, APIServiceBinding, _BOUND_COLUMNS, short_names=["sb"]),
        _crd(
            names.APISERVICEBINDINGBUNDLES,
            APIServiceBindingBundle,
            _BOUND_COLUMNS,
            short_names=["sbb"],
        ),
    ]


def provider_crds() -> list[JSON]:
    """Return the CRDs of a provider's cluster."""
    return [
        _crd(
            names.APISERVICEEXPORTS,
            APIServiceExport,
            # kube-bind's column, whose condition it never sets in v1alpha2.
            (PrinterColumn("Established", _condition("Established", "status"), priority=5), AGE),
        ),
        _crd(names.APISERVICEEXPORTREQUESTS, APIServiceExportRequest, (_READY, AGE)),
        _crd(
            names.APISERVICENAMESPACES,
            APIServiceNamespace,
            (PrinterColumn("Namespace", ".status.namespace"), AGE),
        ),
        _crd(names.BOUNDSCHEMAS, BoundSchema, (AGE,), short_names=["bs"]),
        _crd(
            names.CLUSTERBINDINGS,
            ClusterBinding,
            (
                PrinterColumn("Konnector Version", ".status.konnectorVersion"),
                PrinterColumn("Last Heartbeat", ".status.lastHeartbeatTime", type="date"),
                _READY,
                AGE,
            ),
            rules=[CLUSTER_BINDING_RULE],
        ),
        _crd(
            names.BINDABLERESOURCESREQUESTS,
            BindableResourcesRequest,
            (
                PrinterColumn("Template", ".spec.templateRef.name"),
                PrinterColumn("Phase", ".status.phase"),
                AGE,
            ),
        ),
        *_catalogue(),
    ]


def _catalogue() -> list[JSON]:
    return [
        _crd(
            names.APISERVICEEXPORTTEMPLATES,
            APIServiceExportTemplate,
            (
                PrinterColumn("Resources", ".spec.resources[*].group"),
                PrinterColumn("PermissionClaims", ".spec.permissionClaims[*].resource"),
                AGE,
            ),
            category=_CATALOGUE,
        ),
        _crd(
            names.COLLECTIONS,
            TemplateCollection,
            (
                PrinterColumn("Description", ".spec.description"),
                PrinterColumn("Templates", ".spec.templates[*].name"),
                AGE,
            ),
            category=_CATALOGUE,
        ),
        _crd(names.CLUSTERS, ProviderCluster, (_READY,), category=_CATALOGUE),
    ]
