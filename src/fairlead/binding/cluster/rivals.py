"""Writers that undo a binding's projection, and the remedy.

A client that applies an atomic list owns the whole list, and drops items of others: with
server-side apply by force, with client-side apply always. Lists of custom kinds are atomic unless
their CRD says otherwise; lists of the built-in kinds merge by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.api.meta import Object
from fairlead.binding.workloads.records import record_key, reference_key
from fairlead.binding.workloads.workload import Workload


_APPLIES = {"kubectl-client-side-apply"}
"""Field managers that apply by updates."""


def rivals_text(workloads: Sequence[Workload], uid: str, ours: str) -> str:
    """Return a message on the writers that removed a binding's projection.

    Args:
        workloads: the workloads without it.
        uid: the binding's uid.
        ours: the field manager of our own writes.
    """
    return "; ".join(dict.fromkeys(_rival(workload, uid, ours) for workload in workloads))


def _rival(workload: Workload, uid: str, ours: str) -> str:
    notes = workload.original.meta.annotations
    if reference_key(uid) in notes and record_key(uid) in notes:
        return (
            "the reference runtime of servicebinding.io projects the binding, too: let one of the "
            "two run alone"
        )
    manager, applies = _last(workload.original, ours)
    if not manager:
        return "metadata.managedFields shows the writer"
    if not applies:
        return f"it is {manager}: have it keep fields that it does not know"
    return (
        f"it is {manager}, which applies it: where lists of containers, env, volumeMounts and "
        "volumes are atomic, a manager that applies one owns all of it; have the CRD of the "
        f"kind give them x-kubernetes-list-type: map, or {manager} leave them alone"
    )


def _last(obj: Object, ours: str) -> tuple[str, bool]:
    """Return the last other manager that wrote an object, and whether it applies."""
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
