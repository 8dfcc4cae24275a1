"""Copies that another cluster has made, which go only when the user says so.

A consumer's cluster that was lost and built anew is empty at first. To its konnector every copy on
the provider looks like one whose object was deleted. So an export's status records the uid of the
cluster that it is bound in (that of namespace kube-system). Under another uid no copy is deleted
until the user has said what shall become of those that still wait for their objects: Keep lets
them go, so that each is taken up when its object returns; Discard lets them be deleted. Of a
cluster that is put back to a backup of itself the user says Hold beforehand, for its uid is the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from fairlead.api.kubebind import APIServiceExport
from fairlead.api.kubebind.conditions import (
    CONSUMER_CLUSTER,
    COPIES_HELD,
    KubeBindCondition,
    get_condition,
)
from fairlead.api.kubebind.names import ANNOTATION_HELD_COPIES
from fairlead.api.meta import Object
from fairlead.konnector.policies.copies import let_go
from fairlead.konnector.policies.steps import (
    COPY_HELD,
    AskNamespace,
    Create,
    Delete,
    Pair,
    PatchMetadata,
    Refuse,
    Replace,
    ReplaceStatus,
    Step,
)


Holding = Literal["", "Hold", "Keep", "Wait"]
"""Treatment of copies.

"" deletes copies with their objects, Hold deletes none, Keep releases those without an object, and
Wait writes nothing at all on the provider.
"""

HOLD: Final = "Hold"
"""Value of the annotation for a cluster that is restored from a backup of itself.

Such a cluster has the uid that it had, so that only the user can tell.
"""
KEEP: Final = "Keep"
"""Value of the annotation that may be kept in a repository: it never deletes a copy."""
CLUSTER_CHANGED: Final = "ClusterIdentityChanged"

_SHOWN = 3


def discard(cluster: str) -> str:
    """Return the annotation's value that deletes the copies of the cluster with this uid.

    It names the cluster, so that it does not apply to copies of the next one.
    """
    return f"Discard:{cluster}"


def before(cluster: str) -> str:
    """Return the value to record for a cluster whose restoration from a backup was announced."""
    return f"{cluster}/before"


def recorded_cluster(export: Object | None) -> str:
    """Return the uid of the cluster in which an export is bound, "" when none was recorded."""
    if export is None:
        return ""
    parsed = export.try_decode(APIServiceExport)
    condition = get_condition(parsed.status.conditions, CONSUMER_CLUSTER) if parsed else None
    return condition.message if condition is not None else ""


def decision(*objects: Object | None) -> str:
    """Return the decision in the first object that has one, such as a binding and its bundle."""
    annotations = (obj.meta.annotations for obj in objects if obj is not None)
    return next((said for one in annotations if (said := one.get(ANNOTATION_HELD_COPIES))), "")


class ClusterHold(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded cluster of an export's copies, this cluster, and the user's decision.

    Both clusters are uids, "" while unknown. ``rival`` is True while another konnector is at work.
    """

    recorded: str = ""
    cluster: str = ""
    decision: str = ""
    rival: bool = False

    @property
    def foreign(self) -> bool:
        """Whether another cluster has made the copies, or may have, or this one as it was."""
        return self.recorded not in {"", self.cluster} or self.decision == HOLD

    @property
    def holding(self) -> Holding:
        """The treatment of copies without an object.

        While a konnector of the cluster that made them is running, the copies are left to it: two
        clusters that were restored from one backup would write in turn.
        """
        if self.rival and self.recorded not in {"", self.cluster}:
            return "Wait"
        if not self.foreign or self.decision == discard(self.recorded):
            return ""
        return "Keep" if self.decision == KEEP else "Hold"

    def record(self, *, keeps: bool) -> str:
        """Return the cluster uid to record in the export's status.

        ``keeps`` is True if all copies that the decision Keep releases are released.
        """
        if self.decision == HOLD and self.recorded in {"", self.cluster}:
            return before(self.cluster) if self.cluster else self.recorded
        done = not self.holding or (self.holding == "Keep" and keeps)
        return self.cluster or self.recorded if done else self.recorded

    @property
    def _of(self) -> str:
        """The uid of the cluster that owns the copies, as it is or will be recorded."""
        return self.recorded if self.recorded not in {"", self.cluster} else before(self.cluster)

    def condition(self, waiting: Sequence[str] | None) -> KubeBindCondition:
        """Return the binding's condition; ``waiting`` are copies that wait, None while unknown."""
        ways = (
            "and the konnector keeps each of them until its object returns"
            if self.holding == "Keep"
            else (
                "and the konnector deletes none of them. Restore the objects, then decide "
                "about the copies that still wait: `fairlead bind -f INVITATION --keep-copies` "
                "keeps each until its object returns, `--discard-copies` deletes them; "
                f"annotation {ANNOTATION_HELD_COPIES} of the binding does the same, with value "
                f"{KEEP} or {discard(self._of)}"
            )
        )
        whose = f"for another cluster (uid {self.recorded}), not for this one (uid {self.cluster})"
        if self.recorded in {"", self.cluster, before(self.cluster)}:
            whose = f"before this cluster (uid {self.cluster}) was restored from a backup"
        if self.holding == "Wait":
            ways = (
                "and this cluster's konnector writes nothing there, since another konnector "
                "works with the same invitation: stop the wrong one (see condition "
                "AnotherKonnector), or bind this cluster with its own invitation"
            )
        message = f"the copies on the provider were made {whose}; {_count(waiting)}, {ways}"
        return KubeBindCondition(COPIES_HELD, "True", reason=CLUSTER_CHANGED, message=message)


def _count(waiting: Sequence[str] | None) -> str:
    if waiting is None:
        return "the copies that wait for their objects are not counted yet"
    if not waiting:
        return "no copy waits for its object at the moment"
    shown = sorted(waiting)[:_SHOWN]
    more = [f"and {len(waiting) - _SHOWN} more"] if len(waiting) > _SHOWN else []
    number = (
        "1 copy waits for its" if len(waiting) == 1 else f"{len(waiting)} copies wait for their"
    )
    return f"{number} object{'' if len(waiting) == 1 else 's'} ({', '.join(shown + more)})"


def withheld(step: Step, pair: Pair, holding: Holding) -> Step:
    """Return the step, or its replacement if it would delete a copy that is held."""
    copy = pair.provider
    if holding == "Wait" and _writes_there(step):
        return Refuse(
            COPY_HELD,
            "the konnector writes nothing on the provider for this object, since another "
            "cluster uses the same invitation: see condition CopiesHeld of the "
            "APIServiceBinding",
        )
    if not holding or copy is None or not isinstance(step, Delete) or step.side != "provider":
        return step
    if holding == "Hold":
        return Refuse(
            COPY_HELD,
            f"{copy.kind} {copy.key} on the provider was made for another cluster, or for this "
            "one before it was restored from a backup, and the konnector deletes no copy until "
            "you decide: see condition CopiesHeld of the APIServiceBinding",
        )
    # With Keep, an object that its user deletes takes its copy along.
    return Replace("provider", let_go(copy)) if pair.consumer is None else step


def _writes_there(step: Step) -> bool:
    match step:
        case AskNamespace():
            return True
        case Create() | Delete() | PatchMetadata() | Replace() | ReplaceStatus():
            return step.side == "provider"
        case _:
            return False
