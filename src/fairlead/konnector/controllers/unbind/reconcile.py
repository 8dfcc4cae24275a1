"""Order of a binding's deletion: its objects' copies, then the CRDs, then the binding itself.

Without this order the CRDs would be collected together with the binding, and with it the
kubeconfig of the provider: their objects would keep finalizers that no controller can remove.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind import FINALIZER_UNBIND
from fairlead.api.kubebind.conditions import CONNECTED, KubeBindCondition, false
from fairlead.api.meta import Object, ObjectMeta
from fairlead.konnector.conversions import installed_webhook
from fairlead.konnector.crds import is_open


UNBINDING = "Unbinding"


class UnbindPlan(msgspec.Struct, frozen=True):
    """CRDs to open and to delete, the condition to show, or the release.

    ``let_go`` are CRDs whose objects lose the finalizer without waiting for their copies.
    """

    open: list[Object] = []
    delete: list[Object] = []
    let_go: list[Object] = []
    condition: KubeBindCondition | None = None
    release: bool = False


def reconcile(
    binding: ObjectMeta,
    crds: Sequence[Object],
    *,
    claimed: Sequence[str],
    obstacle: str,
    patience: float,
    given_up: bool = False,
    undeletable: bool = False,
    held: bool = False,
    refused: bool = False,
) -> UnbindPlan:
    """Decide the next step of one binding's deletion.

    Args:
        binding: its metadata.
        crds: the CRDs that it owns and that are still there.
        claimed: claimed objects that still have a copy.
        obstacle: why copies are not deleted, "" if they are.
        patience: seconds after which a provider that cannot be reached counts as gone.
        given_up: whether the provider was unreachable for so long that it counts as gone; then
            objects are let go without it, and what it has claimed goes with the binding.
        undeletable: whether the right to delete the CRDs is missing; when that is given up, the
            server's garbage collector takes them with the binding.
        held: whether no copy is deleted, for another cluster has made them.
        refused: whether a server refuses to write objects because of their schema.
    """
    # Without the finalizer nothing is awaited: no CRD was written, or another removed it.
    if not binding.deleting or FINALIZER_UNBIND not in binding.finalizers:
        return UnbindPlan()
    if (not crds or undeletable) and (given_up or not (crds or claimed)):
        return UnbindPlan(release=True)
    closed = [crd for crd in crds if (refused and not is_open(crd)) or installed_webhook(crd)]
    return UnbindPlan(
        # Before the deletion: a webhook that does not answer would hold it up for ever, and so
        # would a schema that refuses every write, without its conversion all the more.
        open=closed,
        delete=[crd for crd in crds if not (crd.meta.deleting or crd in closed)],
        condition=_unbinding(crds, claimed, obstacle, patience, given_up=given_up, held=held),
        # Only of CRDs in deletion, for which API servers refuse to create further objects.
        let_go=[crd for crd in crds if crd.meta.deleting] if given_up else [],
    )


def gone_message(obstacle: str, copies: int) -> str:
    """Return the Event's text about a binding whose provider counts as gone."""
    number = "1 copy stays" if copies == 1 else f"{copies} copies stay"
    return f"the provider counts as gone: {obstacle}; {number} there without an original"


def left_message(refused: str) -> str:
    """Return the Event's text about a binding with CRDs that the konnector may not delete."""
    return (
        f"its CustomResourceDefinitions are left to the garbage collector: {refused}. "
        "Objects that keep the finalizer kubebind.io/syncer have to be let go by hand"
    )


def _unbinding(
    crds: Sequence[Object],
    claimed: Sequence[str],
    obstacle: str,
    patience: float,
    *,
    given_up: bool,
    held: bool,
) -> KubeBindCondition:
    names = [f"CustomResourceDefinition {crd.meta.name}" for crd in crds]
    if given_up:
        message = f"unbinding without the provider: letting go objects of {', '.join(names)}"
    else:
        waiting = ", ".join([*names, *claimed])
        message = f"unbinding: waiting until copies on the provider are gone for {waiting}"
    if obstacle:
        message += (
            f"; {obstacle}. A provider that stays unreachable for {patience:g} s (the konnector's "
            "--unbind-timeout) is given up; to let objects go at once, remove the finalizer "
            "kubebind.io/syncer from them"
        )
    if held:
        message += (
            "; these copies were made for another cluster and are not deleted: see condition "
            "CopiesHeld, or leave them where they are with `fairlead unbind --orphan`"
        )
    amiss = bool(obstacle or given_up or held)
    return false(CONNECTED, UNBINDING, message, severity="Warning" if amiss else "Info")
