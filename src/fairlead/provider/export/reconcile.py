"""What an export says of its schemas."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_SOURCE_SPEC_HASH,
    APIServiceExport,
    BoundSchema,
    spec_hash,
)
from fairlead.api.kubebind_conditions import PROVIDER_IN_SYNC, Condition, false, true
from fairlead.api.meta import JSON, Object
from fairlead.provider.changes import with_status


class Plan(msgspec.Struct, kw_only=True, frozen=True):
    """What to write: the hash first, as metadata, and then the condition.

    ``source_spec_hash`` is "" when there is nothing to hash.
    """

    source_spec_hash: str = ""
    condition: Condition | None = None


def reconcile(export: Object, schemas: Mapping[str, Object]) -> Plan:
    """What to do about an export, given the BoundSchemas of its namespace by name."""
    if export.meta.deleting:
        return Plan()
    specs: dict[str, JSON] = {}
    for resource in export.decode(APIServiceExport).spec.resources:
        stored = schemas.get(resource.name)
        if stored is None:
            return Plan(condition=_missing(f"BoundSchema {resource.name} does not exist yet"))
        try:
            specs[resource.name] = msgspec.to_builtins(stored.decode(BoundSchema).spec)
        except msgspec.ValidationError as error:
            return Plan(condition=_missing(f"BoundSchema {resource.name} is not valid: {error}"))
    return Plan(source_spec_hash=spec_hash(specs), condition=true(PROVIDER_IN_SYNC))


def annotated(export: Object, source_spec_hash: str) -> JSON:
    """The export's body with the hash over all its schemas."""
    body = export.to_dict()
    body["metadata"].setdefault("annotations", {})[ANNOTATION_SOURCE_SPEC_HASH] = source_spec_hash
    return body


def conditioned(export: Object, condition: Condition, *, now: str) -> JSON:
    """The export's body with a condition; exports have no summary."""
    return with_status(export, [condition], now=now, summary=False)


def _missing(message: str) -> Condition:
    return false(PROVIDER_IN_SYNC, "BoundSchemaMissing", message)
