"""Hash and condition of an export, by its schemas and its CRDs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    ANNOTATION_SOURCE_SPEC_HASH,
    APIServiceExport,
    BoundSchema,
    spec_hash,
)
from fairlead.api.kubebind.conditions import PROVIDER_IN_SYNC, KubeBindCondition, false, true
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.provider.changes import with_status


class ExportPlan(msgspec.Struct, kw_only=True, frozen=True):
    """Writes: owners first, then the hash, as metadata, and then the condition.

    ``adopt`` are BoundSchemas without an owner. ``source_spec_hash`` is "" if there is no schema
    to hash.
    """

    adopt: list[Object] = []
    source_spec_hash: str = ""
    condition: KubeBindCondition | None = None


def reconcile(
    export: Object, schemas: Mapping[str, Object], gone: Sequence[str] = ()
) -> ExportPlan:
    """Decide the writes for an export.

    Args:
        export: the export.
        schemas: the BoundSchemas of its namespace, by name.
        gone: names of its CRDs that the provider does not have any more.
    """
    if export.meta.deleting:
        return ExportPlan()
    specs: dict[str, JSON] = {}
    adopt: list[Object] = []
    conflict: KubeBindCondition | None = None
    resources = export.decode(APIServiceExport).spec.resources
    # Exports of older versions may name one resource many times.
    for name in dict.fromkeys(resource.name for resource in resources):
        stored = schemas.get(name)
        if stored is None:
            return ExportPlan(condition=_missing(f"BoundSchema {name} does not exist yet"))
        try:
            specs[name] = msgspec.to_builtins(stored.decode(BoundSchema).spec)
        except msgspec.ValidationError as error:
            return ExportPlan(
                condition=_missing(f"BoundSchema {name} is not valid: {field_message(error)}")
            )
        owner = stored.meta.controller()
        if owner is None:
            adopt.append(stored)
        elif owner.uid != export.meta.uid:
            conflict = conflict or _conflict(name, owner, export)
    if conflict is not None:
        return ExportPlan(source_spec_hash=spec_hash(specs), condition=conflict)
    # The schemas outlive their CRDs: what consumers have bound stays, and nothing serves it.
    condition = _unserved(gone) if gone else true(PROVIDER_IN_SYNC)
    return ExportPlan(adopt=adopt, source_spec_hash=spec_hash(specs), condition=condition)


def adopted(schema: Object, export: Object) -> JSON:
    """Return the BoundSchema's body with the export as its owner."""
    body = schema.to_dict()
    owners = body["metadata"].get("ownerReferences") or []
    mine = msgspec.to_builtins(export.owner_reference())
    others = [owner for owner in owners if owner["uid"] != mine["uid"]]
    body["metadata"]["ownerReferences"] = [*others, mine]
    return body


def annotated(export: Object, source_spec_hash: str) -> JSON:
    """Return the export's body with the hash over all its schemas."""
    body = export.to_dict()
    body["metadata"].setdefault("annotations", {})[ANNOTATION_SOURCE_SPEC_HASH] = source_spec_hash
    return body


def conditioned(export: Object, condition: KubeBindCondition, *, now: str) -> JSON:
    """Return the export's body with a condition; exports have no summary."""
    return with_status(export, [condition], now=now, summary=False)


def _missing(message: str) -> KubeBindCondition:
    return false(PROVIDER_IN_SYNC, "BoundSchemaMissing", message)


def _unserved(gone: Sequence[str]) -> KubeBindCondition:
    return false(
        PROVIDER_IN_SYNC,
        "SchemaNotFound",
        f"the provider has no CustomResourceDefinition {', '.join(gone)} any more: no object of "
        "this kind is served",
    )


def _conflict(schema: str, owner: OwnerReference, export: Object) -> KubeBindCondition:
    if (owner.kind, owner.name) == (export.kind, export.meta.name):
        return _missing(
            f"BoundSchema {schema} belongs to a deleted export of this name, and is being "
            "deleted too"
        )
    return false(
        PROVIDER_IN_SYNC,
        "BoundSchemaConflict",
        f"BoundSchema {schema} belongs to {owner.kind} {owner.name}: one consumer can bind a "
        "resource once; delete that export, or this one",
    )
