"""The status of a binding, by how its APIs stand; one of them does not hold up the others.

``Ready`` names every API with a fault, and has the reason of the first. ``Synced`` and
``Conflicts`` speak of those without one, and stay as they are while there is none, as the
original's do. Source: kbind v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.kbind import BindingStatus, BoundAPI, ClusterBinding
from fairlead.api.kbind.names import (
    AS_EXPECTED,
    CONFLICTS,
    CONNECTIONS,
    FORBIDDEN,
    FOREIGN_CRD,
    FOREIGN_OBJECT,
    PENDING,
    PERMISSION_DENIED,
    READY,
    SYNCED,
)
from fairlead.api.kubebind import LABEL_AGGREGATE_TO_KONNECTOR
from fairlead.api.kubebind.conditions import OBJECTS_FAILING, OBJECTS_REWRITTEN, KubeBindCondition
from fairlead.api.meta import ObjectMeta
from fairlead.konnector.v2.bindings.crds import Fault
from fairlead.konnector.v2.conditions import ReportedConditions


MISSING_RIGHT = (
    f'A ClusterRole labelled {LABEL_AGGREGATE_TO_KONNECTOR}: "true" must grant it, or a Role in '
    "the namespace of the Binding"
)
"""Remedy for a right on objects that the konnector lacks in the consumer's cluster."""


class APIView(msgspec.Struct, frozen=True):
    """An API as one binding sees it.

    ``conflicts`` is None while objects have not been looked at: what was counted before stands.
    ``failing`` and ``rewritten`` are conditions about its objects, None without one.
    """

    name: str
    crd_hash: str = ""
    fault: Fault | None = None
    note: str = ""
    conflicts: int | None = 0
    failing: KubeBindCondition | None = None
    rewritten: KubeBindCondition | None = None


def binding_status(
    binding: ClusterBinding,
    apis: Sequence[APIView],
    obstacles: Sequence[str],
    *,
    left: Sequence[BoundAPI] = (),
    now: str,
) -> BindingStatus:
    """Return the status of a binding.

    Args:
        binding: the binding.
        apis: the APIs that it lists.
        obstacles: what its end waits for.
        left: others that have copies still, for the next process to know of them.
        now: the time, as in conditions.
    """
    faults = [(api, api.fault) for api in apis if api.fault is not None]
    well = [api for api in apis if api.fault is None]
    before = {api.name: api.conflict_count for api in binding.status.bound_apis}
    # A provider that is away, or offers the API no more, unbinds nothing.
    bound = [
        api
        for api in apis
        if api.fault is None or (api.fault.reason != FOREIGN_CRD and api.name in before)
    ]
    counts = {
        api.name: before.get(api.name, 0)
        if api.conflicts is None or api.fault is not None
        else api.conflicts
        for api in bound
    }
    conditions = _Conditions(binding.status.conditions, binding.metadata.generation, now)
    if binding.metadata.deleting:
        conditions.set(READY, "False", PENDING, "; ".join(["unbinding", *obstacles]))
    elif faults:
        message = "; ".join(dict.fromkeys(fault.message for _, fault in faults))
        conditions.set(READY, "False", faults[0][1].reason, message)
    else:
        conditions.set(READY, "True", AS_EXPECTED, f"{len(apis)} APIs are bound")
    if well and not binding.metadata.deleting:
        notes = "; ".join(api.note for api in well if api.note)
        conditions.set(SYNCED, "True", AS_EXPECTED, notes or "objects are synchronised")
        conditions.conflicts(sum(counts[api.name] for api in well))
    refusals = [fault.message for _, fault in faults if fault.reason == FORBIDDEN]
    failing = [api.failing for api in apis if api.failing is not None]
    refusals += [one.message for one in failing if one.reason == FORBIDDEN]
    if refusals:
        message = "; ".join(dict.fromkeys(refusals))
        if MISSING_RIGHT in message:
            message += f": `fairlead accept {_target(binding.metadata)}` writes them"
        conditions.set(PERMISSION_DENIED, "True", FORBIDDEN, message)
    elif conditions.has(PERMISSION_DENIED):
        conditions.set(PERMISSION_DENIED, "False", AS_EXPECTED, "no right is missing")
    conditions.carry(OBJECTS_FAILING, failing)
    rewritten = [api.rewritten for api in apis if api.rewritten is not None]
    conditions.carry(OBJECTS_REWRITTEN, rewritten)
    return msgspec.structs.replace(
        binding.status,
        conditions=conditions.all,
        bound_apis=[
            BoundAPI(name=api.name, crd_hash=api.crd_hash, conflict_count=counts[api.name])
            for api in bound
        ]
        + list(left),
    )


def _target(metadata: ObjectMeta) -> str:
    """Return the object to accept: with autoBind the Connection, which brings further APIs."""
    owner = metadata.controller()
    if owner is not None and owner.kind == CONNECTIONS.kind:
        return f"connection/{owner.name}"
    if metadata.namespace:
        return f"binding/{metadata.namespace}/{metadata.name}"
    return f"clusterbinding/{metadata.name}"


class _Conditions(ReportedConditions):
    """The conditions of a binding."""

    def conflicts(self, count: int) -> None:
        if not count:
            self.set(CONFLICTS, "False", AS_EXPECTED, "no other object has the name of a copy")
            return
        objects = "1 object is" if count == 1 else f"{count} objects are"
        message = (
            f"{objects} not synchronised, since another object has the name of the copy: an "
            "Event and annotation core.kbind.io/conflict of each say which"
        )
        # The original has one reason for both kinds of conflict.
        self.set(CONFLICTS, "True", FOREIGN_OBJECT, message)

    def carry(self, type_: str, conditions: Iterable[KubeBindCondition]) -> None:
        """Set a condition that is there only while something is wrong."""
        carried = list(conditions)
        if not carried:
            self.remove(type_)
            return
        message = "; ".join(condition.message for condition in carried)
        self.set(type_, "True", carried[0].reason, message)
