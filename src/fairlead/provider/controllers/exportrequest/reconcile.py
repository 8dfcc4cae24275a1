"""Decisions about an APIServiceExportRequest, as a function of the state.

A claim that can never be granted fails a request for ever, and so does a request that is too
large. A request fails until the provider mends the cause if it is beyond the consumer's
invitation, if the BoundSchema CRD refuses its schema, or if its kind is converted by a Service. A
missing CRD or schema keeps it Pending, with a condition that names the awaited object. Once its
export exists a request has Succeeded; it is kept, because a request with policy Always goes on to
carry schema changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    ANNOTATION_API_APPROVED,
    ANNOTATION_SOURCE_SPEC_HASH,
    API_VERSION,
    CLAIMABLE,
    LABEL_EXPORTED,
    LABEL_OWNER,
    OWNER_PROVIDER,
    APIServiceExport,
    APIServiceExportRequest,
    BoundSchema,
    BoundSchemaSpec,
    ExportResource,
    ExportSpec,
    approval_of,
    bindable,
    crd_name,
    new_bound_schema,
    spec_hash,
)
from fairlead.api.kubebind import bound_schema_spec as spec_of
from fairlead.api.kubebind.claims import check_claims
from fairlead.api.kubebind.conditions import (
    EXPORTS_READY,
    FIELDS_LOST,
    PERMISSION_CLAIM,
    KubeBindCondition,
    false,
    get_condition,
    true,
)
from fairlead.api.kubebind.extent import check_extent, check_selectors
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.versions import crd_versions, lossless
from fairlead.provider.changes import with_status
from fairlead.provider.offer import Offer, beyond
from fairlead.provider.options import ProviderOptions


NOT_INVITED = "NotInvited"
"""Reason of a refused request or an export that is not followed: it exceeds the invitation."""
SCHEMA_REFUSED = "BoundSchemaRefused"
"""Reason of a request whose schema the BoundSchema CRD of this cluster does not allow."""
UNSUPPORTED_CONVERSION = "UnsupportedConversion"
"""Reason of a request for a kind whose conversion webhook no consumer can call."""
_MENDED_BY_PROVIDER = frozenset({NOT_INVITED, SCHEMA_REFUSED, UNSUPPORTED_CONVERSION})
"""Reasons for which a request fails until the provider mends the cause."""


class NotExportableError(Exception):
    """A kind cannot be exported; ``reason`` is that of the condition, the text its message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_group(resource: ExportResource) -> None:
    """Refuse a kind that no consumer can bind, whether it has a CRD or not.

    Raises:
        NotExportableError: the kind is one of Kubernetes or of kube-bind itself.
    """
    if bindable(resource.group):
        return
    claim = not resource.group and resource.resource in CLAIMABLE
    hint = "; objects of this kind can be shared by spec.permissionClaims" if claim else ""
    raise NotExportableError(
        "NotExportable",
        "is a kind of Kubernetes or kube-bind itself, which each cluster has on its own and no "
        f"provider can export: take it out of the request{hint}",
    )


def bound_schema_spec(crd: Object, options: ProviderOptions) -> BoundSchemaSpec:
    """Return the spec of the BoundSchema for a CRD.

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
            UNSUPPORTED_CONVERSION,
            f"cannot be exported: the webhook that converts its versions is Service {name} of "
            "the provider's cluster, which consumers cannot call; give the CRD's "
            "spec.conversion.webhook.clientConfig a url that they can reach, or serve one "
            "version with strategy None",
        )
    try:
        spec = spec_of(body, informer_scope=options.consumer_scope, isolation=options.isolation)
    except msgspec.ValidationError as error:
        raise NotExportableError(
            "SchemaNotFound", f"cannot be exported: {field_message(error)}"
        ) from None
    kind = spec.kind_versions()
    if not any(kind.losses(spec.served[0])):
        return spec
    # kube-bind's konnector writes in the first served version, so the right one comes first.
    first = lossless(kind).name
    versions = sorted(spec.versions, key=lambda version: version.name != first)
    return msgspec.structs.replace(spec, versions=versions)


class RequestState(NamedTuple):
    """Objects for a decision, from the request's own namespace except for the CRDs.

    ``crds`` are those labelled for export, by name; ``namespaces`` the names of the
    APIServiceNamespaces. ``offer`` is the consumer's invitation, None if it may request any
    exportable kind.
    """

    request: Object
    export: Object | None
    crds: Mapping[str, Object]
    schemas: Mapping[str, Object]
    namespaces: frozenset[str]
    offer: Offer | None = None


class RequestPlan(msgspec.Struct, kw_only=True, frozen=True):
    """Writes in their order; ``status`` is the whole body of the request.

    ``excess`` describes what the request asks for beyond the consumer's invitation, "" if nothing.
    """

    create_schemas: list[JSON] = []
    update_schemas: list[tuple[Object, JSON]] = []
    create_export: JSON | None = None
    create_namespaces: list[JSON] = []
    status: JSON | None = None
    excess: str = ""


class NotYetError(Exception):
    """A request has to wait; the condition names the cause."""

    def __init__(self, condition: KubeBindCondition) -> None:
        super().__init__(condition.message)
        self.condition = condition


def reconcile(state: RequestState, options: ProviderOptions, *, now: str) -> RequestPlan:
    """Decide the writes for a request."""
    request = state.request.decode(APIServiceExportRequest)
    if request.metadata.deleting or _failed_for_ever(request):
        return RequestPlan()
    claims = request.spec.permission_claims
    if error := check_claims(claims) or check_selectors(claims):
        refused = false(PERMISSION_CLAIM, error.reason, error.message)
        return RequestPlan(
            status=with_status(
                state.request, [refused], now=now, phase="Failed", terminalMessage=error.message
            )
        )
    if too_much := check_extent(request.spec):
        return RequestPlan(status=_failed(state.request, *too_much, now=now))
    excess = _beyond(request, state)
    if excess and state.export is None:
        # Failed, so that every client that waits for the request learns it at once.
        return RequestPlan(
            status=_failed(state.request, NOT_INVITED, excess, now=now), excess=excess
        )
    try:
        return _export(request, state, options, excess, now=now)
    except NotYetError as waiting:
        reason, message = waiting.condition.reason, waiting.condition.message
        if reason == UNSUPPORTED_CONVERSION and state.export is None:
            # A change of the CRD has the request looked at again.
            return RequestPlan(status=_failed(state.request, reason, message, now=now))
        return RequestPlan(status=waiting_status(state.request, waiting.condition, now=now))


def _failed_for_ever(request: APIServiceExportRequest) -> bool:
    """Whether a request has failed for a reason that nothing on the provider can mend."""
    if request.status.phase != "Failed":
        return False
    why = get_condition(request.status.conditions, EXPORTS_READY)
    return why is None or why.reason not in _MENDED_BY_PROVIDER


def _beyond(request: APIServiceExportRequest, state: RequestState) -> str:
    """Return what a request asks for beyond its consumer's invitation, "" if that has no effect.

    An existing export stays; only later changes of its CRDs can be withheld. A consumer that was
    invited before invitations were recorded gets these changes too.
    """
    if state.offer is None:
        return ""
    follows = request.spec.schema_update_policy == "Always"
    is_limited = state.offer.record.revoked or state.offer.record.templates is not None
    if state.export is not None and not (follows and is_limited):
        return ""
    return beyond(state.offer, request.spec.resources, request.spec.permission_claims)


def _failed(request: Object, reason: str, why: str, *, now: str) -> JSON:
    refused = [true(PERMISSION_CLAIM), false(EXPORTS_READY, reason, why)]
    return with_status(request, refused, now=now, phase="Failed", terminalMessage=why)


def refused_schema(request: Object, refusal: str, *, now: str) -> JSON:
    """Return the body of a request whose BoundSchema the server refuses, with phase Failed.

    An export that is there already stays as it is, and so does its request's phase.
    """
    why = (
        "its schema cannot be exported: the CustomResourceDefinition boundschemas.kube-bind.io of "
        f"the provider is of an older version, or of kube-bind. Upgrade the provider ({refusal})"
    )
    if request.decode(APIServiceExportRequest).status.phase == "Succeeded":
        return waiting_status(request, false(EXPORTS_READY, SCHEMA_REFUSED, why), now=now)
    return _failed(request, SCHEMA_REFUSED, why, now=now)


def follows(request: Object) -> bool:
    """Whether a request carries later changes of its CRDs."""
    parsed = request.decode(APIServiceExportRequest)
    alive = not parsed.metadata.deleting and not _failed_for_ever(parsed)
    # Following asks the server, which is not done for a request that is going to be refused.
    follows_updates = (
        parsed.spec.schema_update_policy == "Always" and check_extent(parsed.spec) is None
    )
    return alive and follows_updates


def waiting_status(request: Object, condition: KubeBindCondition, *, now: str) -> JSON:
    """Return the request's body with the condition that it waits for; it leaves phase Failed."""
    phase = request.decode(APIServiceExportRequest).status.phase
    return with_status(
        request,
        [true(PERMISSION_CLAIM), condition],
        now=now,
        phase="Pending" if phase == "Failed" else phase,
        terminalMessage=None,
    )


def _export(
    request: APIServiceExportRequest,
    state: RequestState,
    options: ProviderOptions,
    excess: str,
    *,
    now: str,
) -> RequestPlan:
    spec = request.spec
    follow = spec.schema_update_policy == "Always" and not excess
    if state.export is None and request.status.phase == "Succeeded":
        # The provider takes an export from a consumer by deleting it: it is not made again.
        raise NotYetError(_revoked(request.metadata.name))
    if state.export is not None:
        export = state.export.decode(APIServiceExport)
        _check_unchanged(request, export)
        options = _as_made(options, export.spec)
    missing = any(resource.name not in state.schemas for resource in spec.resources)
    specs: dict[str, BoundSchemaSpec] = {}
    # A complete export needs its CRDs no more, unless it follows them: the loss of a label changes
    # nothing for it.
    if missing or state.export is None or follow:
        specs = _sources(spec.resources, state.crds, options)
    if state.export is None:
        _check_lossless(specs)
    owner = state.export.owner_reference() if state.export is not None else None
    create: list[JSON] = []
    update: list[tuple[Object, JSON]] = []
    for resource in spec.resources:
        name, stored = resource.name, state.schemas.get(resource.name)
        crd = state.crds.get(crd_name(resource.resource, resource.group))
        approval = approval_of(crd.meta) if crd is not None else ""
        if stored is None and name in specs:
            namespace = request.metadata.namespace
            create.append(
                new_bound_schema(specs[name], namespace=namespace, owner=owner, approval=approval)
            )
        elif stored is not None:
            replaced = specs.get(name) if follow else None
            if (body := _schema_update(stored, owner, replaced, approval)) is not None:
                update.append((stored, body))
    name = request.metadata.name
    ready = _not_followed(name, excess) if excess else true(EXPORTS_READY)
    if not follow and (lost := _left_behind(spec.resources, state)):
        ready = false(EXPORTS_READY, FIELDS_LOST, lost)
    return RequestPlan(
        create_schemas=create,
        update_schemas=update,
        create_export=_new_export(request, options) if state.export is None else None,
        create_namespaces=_new_namespaces(request, state, owner),
        status=with_status(
            state.request,
            [true(PERMISSION_CLAIM), ready],
            now=now,
            phase="Succeeded",
            terminalMessage=None,
        ),
        excess=excess,
    )


def _left_behind(resources: list[ExportResource], state: RequestState) -> str:
    """Return why copies lose fields in the version of a BoundSchema that does not follow its CRD.

    The consumer's konnector cannot read the CRD: it writes nothing while a request says so.
    """
    for resource in resources:
        name = crd_name(resource.resource, resource.group)
        crd, stored = state.crds.get(name), state.schemas.get(resource.name)
        if crd is None or stored is None:
            continue
        version = lossless(stored.decode(BoundSchema).spec.kind_versions()).name
        now = crd_versions("on the provider", crd.to_dict()["spec"])
        if version in now.served and (why := "; ".join(now.losses(version))):
            return (
                f"copies of {name} would lose fields: {why}, since the BoundSchema is older "
                "than the CustomResourceDefinition. Store objects in a version of the "
                "BoundSchema again, or update the BoundSchema: after `kubectl delete "
                f"boundschema {resource.name} -n {stored.meta.namespace}` the provider creates "
                "it again"
            )
    return ""


def _as_made(options: ProviderOptions, export: ExportSpec) -> ProviderOptions:
    """Return the options, with the scope and isolation of an existing export.

    An export is immutable, and the consumer's rights follow from it. With a schema for another
    scope the konnector would watch namespaces in which it has no rights.
    """
    return msgspec.structs.replace(
        options, consumer_scope=export.informer_scope, isolation=export.isolation
    )


def _sources(
    resources: list[ExportResource], crds: Mapping[str, Object], options: ProviderOptions
) -> dict[str, BoundSchemaSpec]:
    """Return the spec of each resource's BoundSchema, by its name."""
    sources: dict[str, BoundSchemaSpec] = {}
    scopes: dict[str, str] = {}
    for index, resource in enumerate(resources):
        where = f"spec.resources[{index}]: {resource.name}"
        try:
            check_group(resource)
            crd = crds.get(crd_name(resource.resource, resource.group))
            if crd is None:
                raise _waiting(
                    "SchemaNotFound",
                    f"{where} is not exported: the provider has no CustomResourceDefinition of "
                    f"this name with the label {LABEL_EXPORTED}=true",
                )
            sources[resource.name] = bound_schema_spec(crd, options)
        except NotExportableError as error:
            raise _waiting(error.reason, f"{where} {error}") from None
        scopes[where] = crd.to_dict()["spec"]["scope"]
    _check_scopes(scopes, options)
    return sources


def _check_lossless(schemas: Mapping[str, BoundSchemaSpec]) -> None:
    """Refuse a new export of a kind whose objects would lose fields.

    One that exists is followed: the konnector stops its writes, and says why.
    """
    for name, spec in schemas.items():
        if why := lossless(spec.kind_versions()).why:
            raise _waiting(
                FIELDS_LOST,
                f"{name} cannot be exported: its objects would lose fields: {why}. Serve the "
                "version that spec.versions marks with storage, or one with all its fields",
            )


def _check_scopes(scopes: dict[str, str], options: ProviderOptions) -> None:
    if len(set(scopes.values())) > 1:
        text = ", ".join(f"{where} is {scope}" for where, scope in scopes.items())
        raise _waiting(
            "DifferentScopes", f"all resources of a request need the same scope, but {text}"
        )
    if options.isolation == "Namespaced" and "Cluster" in scopes.values():
        raise _waiting(
            "UnsupportedIsolation",
            f"{next(iter(scopes))} is cluster-scoped, and the provider's isolation Namespaced "
            "cannot keep such objects of several consumers apart; run the provider with "
            "isolation prefixed or none",
        )


def _schema_update(
    stored: Object, owner: OwnerReference | None, replaced: BoundSchemaSpec | None, approval: str
) -> JSON | None:
    """Return the body of a BoundSchema with its owner and newest spec; None if it has both.

    A schema that follows its CRD (``replaced``) also takes over the approval of that.
    """
    controller = stored.meta.controller()
    if controller is not None and (owner is None or controller.uid != owner.uid):
        raise _waiting(
            "BoundSchemaConflict",
            f"BoundSchema {stored.meta.name} belongs to APIServiceExport {controller.name}: "
            "one consumer can bind a resource once; delete that export first",
        )
    body = stored.to_dict()
    changed = False
    if controller is None and owner is not None:
        owners = body["metadata"].get("ownerReferences", [])
        body["metadata"]["ownerReferences"] = [*owners, msgspec.to_builtins(owner)]
        changed = True
    if replaced is not None:
        new_hash = spec_hash(replaced)
        if stored.meta.annotations.get(ANNOTATION_SOURCE_SPEC_HASH) != new_hash:
            body["spec"] = msgspec.to_builtins(replaced)
            body["metadata"].setdefault("annotations", {})[ANNOTATION_SOURCE_SPEC_HASH] = new_hash
            changed = True
        if approval and approval_of(stored.meta) != approval:
            body["metadata"].setdefault("annotations", {})[ANNOTATION_API_APPROVED] = approval
            changed = True
    return body if changed else None


def _new_export(request: APIServiceExportRequest, options: ProviderOptions) -> JSON:
    spec = ExportSpec(
        resources=request.spec.resources,
        permission_claims=request.spec.permission_claims,
        informer_scope=options.consumer_scope,
        isolation=options.isolation,
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "APIServiceExport",
        "metadata": {"name": request.metadata.name, "namespace": request.metadata.namespace},
        "spec": msgspec.to_builtins(spec),
    }


def _new_namespaces(
    request: APIServiceExportRequest, state: RequestState, owner: OwnerReference | None
) -> list[JSON]:
    """Return the APIServiceNamespaces to make beforehand, once the export exists as owner."""
    if owner is None:
        return []
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "APIServiceNamespace",
            "metadata": {
                "name": item.name,
                "namespace": request.metadata.namespace,
                "labels": {LABEL_OWNER: OWNER_PROVIDER},
                "ownerReferences": [msgspec.to_builtins(owner)],
            },
            "spec": {},
        }
        for item in request.spec.namespaces
        if item.name not in state.namespaces
    ]


def _check_unchanged(request: APIServiceExportRequest, export: APIServiceExport) -> None:
    """Refuse a request that was widened later, which servers without CEL allow."""
    for field in ("resources", "permission_claims"):
        if getattr(request.spec, field) != getattr(export.spec, field):
            name = "resources" if field == "resources" else "permissionClaims"
            raise _waiting(
                "ImmutableFieldChanged",
                f"spec.{name} is immutable, but differs from that of APIServiceExport "
                f"{export.metadata.name}, which stays as it is: restore it, or make a new request",
            )


def _not_followed(name: str, why: str) -> KubeBindCondition:
    return false(
        EXPORTS_READY,
        NOT_INVITED,
        f"APIServiceExport {name} stays as it is, but no longer follows changes of its CRDs: "
        f"{why}",
        severity="Warning",
    )


def _revoked(name: str) -> KubeBindCondition:
    return false(
        EXPORTS_READY,
        "APIServiceExportNotFound",
        f"APIServiceExport {name} was deleted: to export again, delete this request and create "
        "a new one",
        severity="Warning",
    )


def _waiting(reason: str, message: str) -> NotYetError:
    return NotYetError(false(EXPORTS_READY, reason, message))
