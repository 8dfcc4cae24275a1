"""What of a provider's kinds can reach a consumer, and why the rest cannot."""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import CLAIMABLE, BoundSchemaSpec, ExportResource, bindable
from fairlead.api.kubebind import bound_schema_spec as spec_of
from fairlead.api.meta import Object
from fairlead.provider.options import ProviderOptions


class NotExportableError(Exception):
    """A kind cannot be exported; says why, and ``reason`` is that of the request's condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_group(resource: ExportResource) -> None:
    """Refuse what no consumer can bind, whether there is a CRD of it or not.

    Raises:
        NotExportableError: the kind is one of Kubernetes or of kube-bind itself.
    """
    if bindable(resource.group):
        return
    claim = not resource.group and resource.resource in CLAIMABLE
    hint = "; objects of this kind can be shared by spec.permissionClaims" if claim else ""
    raise NotExportableError(
        "NotExportable",
        "is a kind of Kubernetes or kube-bind itself, which every cluster has for itself and none "
        f"can export: take it out of the request{hint}",
    )


def bound_schema_spec(crd: Object, options: ProviderOptions) -> BoundSchemaSpec:
    """What a BoundSchema has to say of a CRD.

    Raises:
        NotExportableError: the CRD does not work, or not in another cluster.
    """
    body = crd.to_dict()
    if not any(version.get("served") for version in body["spec"]["versions"]):
        raise NotExportableError("SchemaNotFound", "cannot be exported: it serves no version")
    conversion = body["spec"].get("conversion") or {}
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    if conversion.get("strategy") == "Webhook" and not client.get("url"):
        service = client.get("service") or {}
        name = f"{service.get('namespace', '')}/{service.get('name', '')}"
        raise NotExportableError(
            "UnsupportedConversion",
            f"cannot be exported: its versions are converted by a webhook that is Service {name} "
            "of the provider's cluster, which consumers cannot call; give the CRD's "
            "spec.conversion.webhook.clientConfig a url that they can reach, or serve one version "
            "with strategy None",
        )
    try:
        return spec_of(body, informer_scope=options.consumer_scope, isolation=options.isolation)
    except msgspec.ValidationError as error:
        raise NotExportableError("SchemaNotFound", f"cannot be exported: {error}") from None
