"""Syncers of an export, and the statuses for the provider.

Source: kube-bind's document on APIServiceExports.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.definitions import lossless_resource
from fairlead.api.kubebind import (
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BoundSchema,
    BoundSchemaStatus,
    ConditionsStatus,
    PermissionClaim,
    crd_name,
    resource_name,
)
from fairlead.api.kubebind.claims import reference_versions
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    CONSUMER_CLUSTER,
    CONSUMER_IN_SYNC,
    REFUSED_HERE,
    SCHEMA_IN_SYNC,
    KubeBindCondition,
    false,
    get_condition,
    set_conditions,
    true,
)
from fairlead.api.meta import Object
from fairlead.konnector.controllers.apiserviceexport.crdstatus import (
    OBJECT_FAULTS,
    schema_status,
    stale_types,
    worst_conditions,
)
from fairlead.konnector.conversions import installed_webhook, named_webhook
from fairlead.konnector.crds import describes, established, left_behind, sync_version
from fairlead.konnector.policies.holding import ClusterHold, Holding
from fairlead.konnector.policies.work import (
    BoundSpec,
    ClaimSpec,
    ReleaseSpec,
    WorkKey,
    WorkSpec,
)


BINDING_NOT_FOUND = "APIServiceBindingNotFound"
SCHEMAS_NOT_VALID = "BoundSchemasNotValid"


class SyncState(msgspec.Struct, frozen=True):
    """Facts for a decision; ``schemas`` by BoundSchema name, ``crds`` by CRD name: existing ones.

    ``hold`` tells the clusters of the copies, ``released`` whether the copies to keep are
    released; ``holding_of_claims`` applies to copies of claimed objects.
    """

    name: str
    export: APIServiceExport | None
    binding: APIServiceBinding | None
    schemas: Mapping[str, BoundSchema]
    crds: Mapping[str, Object]
    hold: ClusterHold = ClusterHold()
    released: bool = False
    holding_of_claims: Holding = ""
    request: APIServiceExportRequest | None = None


class SyncPlan(msgspec.Struct, frozen=True):
    """Work that has to run, by name; statuses to write, None without an export."""

    syncers: dict[str, BoundSpec] = {}
    claims: dict[str, ClaimSpec] = {}
    releases: dict[str, ReleaseSpec] = {}
    status: ConditionsStatus | None = None
    schema_status: dict[str, BoundSchemaStatus] = {}

    def work(self, binding: str) -> dict[WorkKey, WorkSpec]:
        """Return all specs of work of a binding."""
        specs: dict[WorkKey, WorkSpec] = {}
        specs |= {WorkKey(binding, "objects", name): one for name, one in self.syncers.items()}
        specs |= {WorkKey(binding, "claim", name): one for name, one in self.claims.items()}
        specs |= {WorkKey(binding, "release", name): one for name, one in self.releases.items()}
        return specs


def reconcile(state: SyncState, *, now: str) -> SyncPlan:
    """Decide the work for the export, and the statuses of it and its BoundSchemas."""
    if state.export is None:
        return SyncPlan(releases=_releases(state))
    export = state.export
    crds = _crds_by_schema(state, export)
    return SyncPlan(
        syncers=_syncers(state, export),
        claims=_claims(state, export),
        status=_export_status(state, export, crds, now=now),
        schema_status={
            name: schema_status(state.schemas[name], crd, now=now) for name, crd in crds.items()
        },
    )


def _releases(state: SyncState) -> dict[str, ReleaseSpec]:
    """Return the releases without an export: rights on copies went with it, so none is awaited."""
    result: dict[str, ReleaseSpec] = {}
    for name, crd in state.crds.items():
        resource, why = lossless_resource(crd)
        if resource is not None and _bound(state, crd):
            result[name] = ReleaseSpec(resource, lossy=bool(why))
    return result


def _syncers(state: SyncState, export: APIServiceExport) -> dict[str, BoundSpec]:
    result: dict[str, BoundSpec] = {}
    if left_behind(state.request):
        return result
    for item in export.spec.resources:
        schema = state.schemas.get(item.name)
        crd = state.crds.get(crd_name(item.resource, item.group))
        if schema is None or crd is None or not _bound(state, crd):
            continue
        if not describes(schema.spec, item):
            continue
        version = sync_version(schema.spec, crd).name
        # Nothing is written, on neither side, rather than a field lost: the binding tells.
        if not version:
            continue
        result[item.name] = BoundSpec(
            resource=schema.spec.resource(version),
            scope=schema.spec.scope,
            informer_scope=schema.spec.informer_scope,
            isolation=export.spec.isolation,
            # Without the subresource API servers answer 404 to each write of a status.
            status_subresource=schema.spec.version(version).subresources.status is not None,
            holding=state.hold.holding,
            converted=bool(named_webhook(schema.spec) or installed_webhook(crd)),
        )
    return result


def _bound(state: SyncState, crd: Object) -> bool:
    """Whether this very binding made the CRD, whose objects may then go to the provider.

    A CRD that is being deleted is served until its last object is gone, and is no longer
    established in the end; the finalizers of its objects still have to be removed.
    """
    return _owned(state, crd) and (crd.meta.deleting or established(crd))


def _owned(state: SyncState, crd: Object) -> bool:
    return state.binding is not None and crd.meta.owned_by(state.binding.metadata.uid)


def _claims(state: SyncState, export: APIServiceExport) -> dict[str, ClaimSpec]:
    """Return the claims that the consumer's binding has taken over from the export.

    They start when the schemas are in place, since references are followed to the bound kinds;
    they end when the last bound object is gone, since the provider may need them until then.
    """
    binding = state.binding
    if binding is None:
        return {}
    leaving = binding.metadata.deleting
    if not leaving and not _in_place(state, export):
        return {}
    gone = not any(crd.meta.owned_by(binding.metadata.uid) for crd in state.crds.values())
    accepted = binding.status.permission_claims
    return {
        claim.name: ClaimSpec(
            claim=_readable(claim, state, export),
            resources=export.spec.resources,
            isolation=export.spec.isolation,
            unbinding=leaving and gone,
            holding=state.holding_of_claims,
        )
        for claim in accepted
    }


def _readable(
    claim: PermissionClaim, state: SyncState, export: APIServiceExport
) -> PermissionClaim:
    """Return the claim with references to bound kinds in versions that still exist.

    The claim is fixed by the agreement, and a version may disappear.
    """
    references = []
    for reference in claim.selector.references:
        versions = reference_versions(reference, export.spec.resources)
        name = resource_name(reference.resource, reference.group)
        schema = state.schemas.get(name)
        if schema is not None and versions:
            served = schema.spec.served
            left = [one for one in versions if one in served] or served[:1]
            if left != versions:
                references.append(msgspec.structs.replace(reference, versions=left))
                continue
        references.append(reference)
    if references == claim.selector.references:
        return claim
    selector = msgspec.structs.replace(claim.selector, references=references)
    return msgspec.structs.replace(claim, selector=selector)


def _in_place(state: SyncState, export: APIServiceExport) -> bool:
    """Whether every resource is bound; a BoundSchema that went later stops its own syncer only."""
    for item in export.spec.resources:
        crd = state.crds.get(crd_name(item.resource, item.group))
        if crd is None or not _bound(state, crd):
            return False
        schema = state.schemas.get(item.name)
        if schema is not None and not (describes(schema.spec, item) and schema.spec.served):
            return False
    return True


def _crds_by_schema(state: SyncState, export: APIServiceExport) -> dict[str, Object | None]:
    """Return the binding's CRD for each BoundSchema, None if there is none.

    A CRD of another owner tells nothing about this export.
    """
    result: dict[str, Object | None] = {}
    for item in export.spec.resources:
        crd = state.crds.get(crd_name(item.resource, item.group))
        if crd is not None and not _owned(state, crd):
            crd = None
        if item.name in state.schemas:
            result[item.name] = crd
    return result


def _export_status(
    state: SyncState, export: APIServiceExport, crds: Mapping[str, Object | None], *, now: str
) -> ConditionsStatus:
    """Return the export's conditions: the worst of each type in the CRDs, and the binding's."""
    stale = stale_types(state.schemas.values(), crds.values())
    faults = _object_faults(state)
    # A fault that is over goes from the export too.
    stale |= OBJECT_FAULTS - {one.type for one in faults}
    remaining = [one for one in export.status.conditions if one.type not in stale]
    current = [*worst_conditions(crds), _connected(state, export), _consumer_in_sync(state)]
    current += [*_consumer_cluster(state), *faults]
    conditions = set_conditions(remaining, *current, now=now, summary=True)
    return msgspec.structs.replace(export.status, conditions=conditions)


def _consumer_cluster(state: SyncState) -> list[KubeBindCondition]:
    """Return the record of the cluster that may delete copies; a binding that goes adds none."""
    uid = state.hold.record(keeps=state.released)
    if state.binding is None or state.binding.metadata.deleting or not uid:
        return []
    return [KubeBindCondition(CONSUMER_CLUSTER, "True", reason="Recorded", message=uid)]


def _object_faults(state: SyncState) -> list[KubeBindCondition]:
    """Return copies of the binding's conditions about objects that do not cross."""
    conditions = state.binding.status.conditions if state.binding is not None else []
    return [
        msgspec.structs.replace(
            condition, message=_for_provider(condition.message), last_transition_time=""
        )
        for condition in conditions
        if condition.type in OBJECT_FAULTS
    ]


def _for_provider(message: str) -> str:
    """Return a message without what the consumer's server says: its policies are its own."""
    before, refused_here, _ = message.partition(REFUSED_HERE)
    return f"{before}because the consumer's cluster refuses it" if refused_here else message


def _connected(state: SyncState, export: APIServiceExport) -> KubeBindCondition:
    if state.binding is None:
        message = f"the consumer has no APIServiceBinding {state.name}"
        return false(CONNECTED, BINDING_NOT_FOUND, message, severity="Info")
    missing = [item.name for item in export.spec.resources if item.name not in state.schemas]
    if missing:
        message = f"BoundSchema {', '.join(missing)} not found"
        return false(CONNECTED, SCHEMAS_NOT_VALID, message, severity="Warning")
    return true(CONNECTED)


def _consumer_in_sync(state: SyncState) -> KubeBindCondition:
    """Return a copy of the binding's SchemaInSync."""
    if state.binding is None:
        message = f"the consumer has no APIServiceBinding {state.name}"
        return false(CONSUMER_IN_SYNC, "NA", message, severity="Info")
    condition = get_condition(state.binding.status.conditions, SCHEMA_IN_SYNC)
    if condition is None:
        message = "the consumer's binding does not have condition SchemaInSync yet"
        return false(CONSUMER_IN_SYNC, "Unknown", message, severity="Info")
    # The transition is this condition's own, and not the binding's.
    return msgspec.structs.replace(condition, type=CONSUMER_IN_SYNC, last_transition_time="")
