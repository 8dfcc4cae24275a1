"""Who undoes what a binding has put onto workloads, and what helps against it.

Whoever applies a list that is atomic, as all lists of custom kinds are whose CRD does not say
otherwise, has the whole of it: what others have added goes, with server-side apply by force and
with client-side apply always. Lists of the built-in kinds merge by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.api.meta import Object
from fairlead.binding.workloads.records import record_key, reference_key
from fairlead.binding.workloads.workload import Workload


_APPLIES = {"kubectl-client-side-apply"}
"""Who applies with updates."""


def told(workloads: Sequence[Workload], uid: str, ours: str) -> str:
    """Who has written workloads without the projection of the binding with this uid.

    Args:
        workloads: those that have lost it.
        uid: of the binding.
        ours: the field manager of our own writes.
    """
    return "; ".join(dict.fromkeys(_told(workload, uid, ours) for workload in workloads))


def _told(workload: Workload, uid: str, ours: str) -> str:
    notes = workload.original.meta.annotations
    if reference_key(uid) in notes and record_key(uid) in notes:
        return (
            "the reference runtime of servicebinding.io projects the binding, too: let one of the "
            "two run alone"
        )
    manager, applies = _last(workload.original, ours)
    if not manager:
        return "find out with metadata.managedFields who it is"
    if not applies:
        return f"it is {manager}: have it keep what it does not know of"
    return (
        f"it is {manager}, which applies it: where lists of containers, env, volumeMounts and "
        "volumes are atomic, a manager that applies one owns all of it; have the CRD of the "
        f"kind give them x-kubernetes-list-type: map, or {manager} leave them alone"
    )


def _last(obj: Object, ours: str) -> tuple[str, bool]:
    """The manager that has written an object last, but for us, and whether it applies."""
    entries: list[dict[str, Any]] = obj.to_dict()["metadata"].get("managedFields") or []
    others = [
        entry
        for entry in entries
        if entry.get("manager") not in {None, ours} and not entry.get("subresource")
    ]
    # Times of managedFields are whole seconds of UTC, which compare as text.
    latest = max(others, key=lambda entry: str(entry.get("time", "")), default=None)
    if latest is None:
        return "", False
    manager = str(latest["manager"])
    return manager, latest.get("operation") == "Apply" or manager in _APPLIES
