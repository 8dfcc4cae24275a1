"""Which syncers run for an export, and what the provider is told.

Source: kube-bind's document on APIServiceExports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from fairlead.api.conditions import Condition as CRDCondition
from fairlead.api.kubebind import (
    APIServiceBinding,
    APIServiceExport,
    BoundSchema,
    BoundSchemaStatus,
    ConditionsStatus,
    ExportResource,
    Isolation,
    PermissionClaim,
    SchemaNames,
    Scope,
    crd_name,
)
from fairlead.api.kubebind_conditions import (
    CONNECTED,
    CONSUMER_IN_SYNC,
    READY,
    SCHEMA_IN_SYNC,
    Condition,
    false,
    get_condition,
    set_conditions,
    true,
)
from fairlead.api.meta import Object
from fairlead.api.resource import Resource
from fairlead.konnector.crds import describes, established


BINDING_NOT_FOUND = "APIServiceBindingNotFound"
SCHEMAS_NOT_VALID = "BoundSchemasNotValid"


class SyncerSpec(msgspec.Struct, frozen=True):
    """All that a syncer of one resource depends on: when it changes, the syncer is restarted."""

    resource: Resource
    scope: Scope
    informer_scope: Scope
    isolation: Isolation
    status_subresource: bool


class ClaimSpec(msgspec.Struct, frozen=True):
    """All that the syncer of one claim depends on; ``unbinding`` claims nothing any more."""

    claim: PermissionClaim
    resources: list[ExportResource]
    isolation: Isolation
    unbinding: bool = False


class ReleaseSpec(msgspec.Struct, frozen=True):
    """A bound resource whose export is gone: deleted objects wait for nobody any more."""

    resource: Resource


class State(msgspec.Struct, frozen=True):
    """What was read; ``schemas`` by BoundSchema name, ``crds`` by CRD name: those found."""

    name: str
    export: APIServiceExport | None
    binding: APIServiceBinding | None
    schemas: Mapping[str, BoundSchema]
    crds: Mapping[str, Object]


class Plan(msgspec.Struct, frozen=True):
    """What shall run, by name; statuses to write, None for no export."""

    syncers: dict[str, SyncerSpec] = {}
    claims: dict[str, ClaimSpec] = {}
    releases: dict[str, ReleaseSpec] = {}
    status: ConditionsStatus | None = None
    schema_status: dict[str, BoundSchemaStatus] = {}


def reconcile(state: State, *, now: str) -> Plan:
    """What shall run for the export, and the statuses of it and its BoundSchemas."""
    if state.export is None:
        return Plan(releases=_releases(state))
    export = state.export
    if state.binding is None:
        return Plan(status=_export_status(state, export, now=now))
    return Plan(
        syncers=_syncers(state, export),
        claims=_claims(state, export),
        status=_export_status(state, export, now=now),
        schema_status=_schema_statuses(state, export, now=now),
    )


def _releases(state: State) -> dict[str, ReleaseSpec]:
    """With an export the provider takes away all its namespaces, and the copies in them."""
    result: dict[str, ReleaseSpec] = {}
    for name, crd in state.crds.items():
        spec = crd.decode(_CRD).spec
        version = next((one.name for one in spec.versions if one.served), "")
        if version and _bound(state, crd):
            namespaced = spec.scope == "Namespaced"
            resource = Resource(
                spec.group, version, spec.names.plural, spec.names.kind, namespaced
            )
            result[name] = ReleaseSpec(resource)
    return result


def _syncers(state: State, export: APIServiceExport) -> dict[str, SyncerSpec]:
    result: dict[str, SyncerSpec] = {}
    for item in export.spec.resources:
        schema = state.schemas.get(item.name)
        crd = state.crds.get(crd_name(item.resource, item.group))
        if schema is None or crd is None or not _bound(state, crd):
            continue
        if not describes(schema.spec, item):
            continue
        version = schema.spec.sync_version()
        resource = schema.spec.resource()
        if version is None or resource is None:
            continue
        result[item.name] = SyncerSpec(
            resource=resource,
            scope=schema.spec.scope,
            informer_scope=schema.spec.informer_scope,
            isolation=export.spec.isolation,
            status_subresource=version.subresources.status is not None,
        )
    return result


def _bound(state: State, crd: Object) -> bool:
    """Only objects of a CRD that this very binding made are sent to the provider.

    A CRD that is being deleted is served until its last object is gone, and is no longer
    established in the end; its objects still need their finalizers taken off.
    """
    if state.binding is None:
        return False
    ours = crd.meta.owned_by(state.binding.metadata.uid)
    return ours and (crd.meta.deleting or established(crd))


def _claims(state: State, export: APIServiceExport) -> dict[str, ClaimSpec]:
    """Claims that the consumer's binding has taken over from the export.

    They start when the schemas are in place, since references are followed to the bound kinds;
    they end when the last bound object is gone, since the provider may need them until then.
    """
    binding = state.binding
    if binding is None:
        return {}
    leaving = binding.metadata.deleting
    if not leaving and len(_syncers(state, export)) < len(export.spec.resources):
        return {}
    gone = not any(crd.meta.owned_by(binding.metadata.uid) for crd in state.crds.values())
    accepted = binding.status.permission_claims
    return {
        claim.name: ClaimSpec(
            claim=claim,
            resources=export.spec.resources,
            isolation=export.spec.isolation,
            unbinding=leaving and gone,
        )
        for claim in accepted
    }


def _export_status(state: State, export: APIServiceExport, *, now: str) -> ConditionsStatus:
    found = [_connected(state, export), _consumer_in_sync(state)]
    conditions = set_conditions(export.status.conditions, *found, now=now, summary=True)
    return msgspec.structs.replace(export.status, conditions=conditions)


def _connected(state: State, export: APIServiceExport) -> Condition:
    if state.binding is None:
        message = f"the consumer has no APIServiceBinding {state.name}"
        return false(CONNECTED, BINDING_NOT_FOUND, message, severity="Info")
    missing = [item.name for item in export.spec.resources if item.name not in state.schemas]
    if missing:
        message = f"BoundSchema {', '.join(missing)} not found"
        return false(CONNECTED, SCHEMAS_NOT_VALID, message, severity="Warning")
    return true(CONNECTED)


def _consumer_in_sync(state: State) -> Condition:
    """A copy of the binding's SchemaInSync."""
    if state.binding is None:
        message = f"the consumer has no APIServiceBinding {state.name}"
        return false(CONSUMER_IN_SYNC, "NA", message, severity="Info")
    found = get_condition(state.binding.status.conditions, SCHEMA_IN_SYNC)
    if found is None:
        message = "the consumer's binding does not say SchemaInSync yet"
        return false(CONSUMER_IN_SYNC, "Unknown", message, severity="Info")
    return msgspec.structs.replace(found, type=CONSUMER_IN_SYNC, last_transition_time="")


def _schema_statuses(
    state: State, export: APIServiceExport, *, now: str
) -> dict[str, BoundSchemaStatus]:
    result: dict[str, BoundSchemaStatus] = {}
    for item in export.spec.resources:
        schema = state.schemas.get(item.name)
        crd = state.crds.get(crd_name(item.resource, item.group))
        if schema is not None and crd is not None:
            result[item.name] = _schema_status(schema, crd, now=now)
    return result


class _CRDStatus(msgspec.Struct, rename="camel", frozen=True):
    """A fresh CRD has nulls, and accepted names that are empty."""

    accepted_names: dict[str, Any] | None = None
    stored_versions: list[str] | None = None
    conditions: list[CRDCondition] | None = None


class _CRDVersion(msgspec.Struct, frozen=True):
    name: str = ""
    served: bool = False


class _CRDNames(msgspec.Struct, frozen=True):
    plural: str = ""
    kind: str = ""


class _CRDSpec(msgspec.Struct, frozen=True):
    group: str = ""
    scope: str = ""
    names: _CRDNames = _CRDNames()
    versions: tuple[_CRDVersion, ...] = ()


class _CRD(msgspec.Struct):
    spec: _CRDSpec = _CRDSpec()
    status: _CRDStatus | None = None


def _schema_status(schema: BoundSchema, crd: Object, *, now: str) -> BoundSchemaStatus:
    """What the consumer's CRD says of itself, in the provider's sight."""
    found = crd.decode(_CRD).status or _CRDStatus()
    names = found.accepted_names or {}
    copied = [
        _copied(condition) for condition in found.conditions or () if condition.type != READY
    ]
    conditions = set_conditions(schema.status.conditions, *copied, now=now, summary=True)
    return msgspec.structs.replace(
        schema.status,
        accepted_names=msgspec.convert(names, SchemaNames) if names.get("plural") else None,
        stored_versions=found.stored_versions or [],
        conditions=conditions,
    )


def _copied(condition: CRDCondition) -> Condition:
    severity: Literal["", "Error"] = "" if condition.status == "True" else "Error"
    return Condition(
        condition.type,
        condition.status,
        severity=severity,
        reason=condition.reason,
        message=condition.message,
    )
