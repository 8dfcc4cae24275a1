"""Status of the consumer's CRDs, in the form that the provider reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from fairlead.api.conditions import Condition as CRDCondition
from fairlead.api.definitions import CRDStatus, crd_status
from fairlead.api.kubebind import BoundSchema, BoundSchemaStatus, SchemaNames
from fairlead.api.kubebind.conditions import (
    CONFLICTS,
    CONNECTED,
    CONSUMER_CLUSTER,
    CONSUMER_IN_SYNC,
    OBJECTS_FAILING,
    OBJECTS_REWRITTEN,
    PERMISSION_CLAIM,
    PROVIDER_IN_SYNC,
    READY,
    KubeBindCondition,
    set_conditions,
    true,
)
from fairlead.api.meta import Object


_CRD_TYPES = frozenset(
    {
        "Established",
        "KubernetesAPIApprovalPolicyConformant",
        "NamesAccepted",
        "NonStructuralSchema",
        "StorageMigrating",
        "Terminating",
    }
)
"""The conditions that API servers set on CRDs (apiextensions.k8s.io/v1)."""
OBJECT_FAULTS = frozenset({CONFLICTS, OBJECTS_FAILING, OBJECTS_REWRITTEN})
"""Types of a binding's conditions about its objects, which the export repeats for the provider."""
_EXPORTS_OWN = frozenset(
    {
        *(CONNECTED, CONSUMER_CLUSTER, CONSUMER_IN_SYNC, PERMISSION_CLAIM, PROVIDER_IN_SYNC),
        *(READY, *OBJECT_FAULTS),
    }
)
"""Types of an export's own conditions, which a CRD's condition never replaces."""
_BADNESS = {"False": 0, "Unknown": 1, "True": 2}


def schema_status(schema: BoundSchema, crd: Object | None, *, now: str) -> BoundSchemaStatus:
    """Return the status of a BoundSchema, copied from the consumer's CRD; empty without a CRD.

    No other writer sets conditions there, so that a condition goes when the CRD has lost it.
    """
    status = _status(crd)
    names = status.accepted_names or {}
    copied = _copied(crd)
    types = {condition.type for condition in copied}
    conditions = [condition for condition in schema.status.conditions if condition.type in types]
    return msgspec.structs.replace(
        schema.status,
        accepted_names=msgspec.convert(names, SchemaNames) if names.get("plural") else None,
        stored_versions=status.stored_versions or [],
        conditions=set_conditions(_with_ready(schema, conditions), *copied, now=now, summary=True),
    )


def worst_conditions(crds: Mapping[str, Object | None]) -> list[KubeBindCondition]:
    """Return the worst condition of each type: False, then Unknown, then True, first by name.

    Args:
        crds: CRDs by the names of their BoundSchemas, which the messages repeat.
    """
    worst: dict[str, tuple[int, str, KubeBindCondition]] = {}
    for name, crd in sorted(crds.items()):
        for condition in _copied(crd):
            mine = (_BADNESS[condition.status], name, condition)
            if condition.type not in worst or mine[:2] < worst[condition.type][:2]:
                worst[condition.type] = mine
    return [
        _of_resource(name, condition)
        for type_, (_, name, condition) in sorted(worst.items())
        if type_ not in _EXPORTS_OWN
    ]


def stale_types(schemas: Iterable[BoundSchema], crds: Iterable[Object | None]) -> set[str]:
    """Return the condition types that an export may have from CRDs and that no CRD has any more.

    Beside the types of API servers these are the types that a BoundSchema still carries; all other
    conditions of an export are the provider's own.
    """
    copied = {one.type for schema in schemas for one in schema.status.conditions} | _CRD_TYPES
    present = {one.type for crd in crds for one in _copied(crd)}
    return copied - present - _EXPORTS_OWN


def _with_ready(
    schema: BoundSchema, conditions: list[KubeBindCondition]
) -> list[KubeBindCondition]:
    """Remove Ready with the last condition; until then it keeps its transition time."""
    ready = [condition for condition in schema.status.conditions if condition.type == READY]
    return [*conditions, *ready]


def _of_resource(name: str, condition: KubeBindCondition) -> KubeBindCondition:
    if condition.status == "True":
        return true(condition.type)
    message = f"{name}: {condition.message or condition.reason}"
    return msgspec.structs.replace(condition, message=message)


def _status(crd: Object | None) -> CRDStatus:
    return crd_status(crd) if crd is not None else CRDStatus()


def _copied(crd: Object | None) -> list[KubeBindCondition]:
    # Ready is the summary of a BoundSchema's own conditions, which is made after the copying.
    return [_copy(found) for found in _status(crd).conditions or () if found.type != READY]


def _copy(condition: CRDCondition) -> KubeBindCondition:
    # kube-bind's conditions have a severity only while they are False.
    severity: Literal["", "Error"] = "Error" if condition.status == "False" else ""
    return KubeBindCondition(
        condition.type,
        condition.status,
        severity=severity,
        reason=condition.reason,
        message=condition.message,
    )
