"""Order of a binding's deletion: its objects' copies, then the CRDs, then the binding itself.

Without this order the CRDs would be collected together with the binding, and with it the
kubeconfig of the provider: their objects would keep finalizers that no controller can remove.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS, FINALIZER_UNBIND
from fairlead.api.kubebind.conditions import CONNECTED, KubeBindCondition, false
from fairlead.api.meta import Object, ObjectMeta
from fairlead.konnector.conversions import installed_webhook
from fairlead.konnector.crds import is_open


UNBINDING = "Unbinding"


class Obstacles(msgspec.Struct, frozen=True):
    """Reasons why an unbinding does not go on, each as a message, "" where it is none.

    The first three end the binding when they last for too long: the konnector then gives it up.
    """

    unreachable: str = ""
    """The provider itself cannot be reached."""
    lossy: str = ""
    """No request can let objects go without taking fields from them."""
    undeletable: str = ""
    """The consumer's server refuses to delete the CRDs."""
    faults: str = ""
    """Watches fail, rights are missing, or a server cannot answer."""
    objects: str = ""
    """Servers refuse single objects."""
    retained: str = ""
    """Others keep objects in the consumer's cluster."""

    def may_end(self) -> bool:
        """Whether one of them ends the binding when it lasts for too long."""
        return bool(self.unreachable or self.lossy or self.undeletable)

    def messages(self, patience: float, *, given_up: bool) -> list[str]:
        """Return all of them, each with what ends it; ``patience`` is in seconds."""

        def ending(message: str, end: str) -> str:
            if not message or given_up:
                return message
            return f"{message}. {end.format(f'{patience:g} s')}"

        message = (
            ending(self.unreachable, _UNREACHABLE_END),
            ending(self.lossy, _LOSSY_END),
            ending(self.undeletable, _UNDELETABLE_END),
            self.faults,
            self.objects,
            self.retained,
        )
        return [one for one in message if one]


_UNREACHABLE_END = (
    "If the provider stays unreachable for {} (the konnector's --unbind-timeout), the "
    "konnector stops waiting for it; to let objects go at once, remove the finalizer "
    "kubebind.io/syncer from them"
)
_LOSSY_END = (
    "After {} (the konnector's --unbind-timeout) the konnector lets these objects go, each "
    "once its other finalizers are gone, and their copies stay on the provider"
)
_UNDELETABLE_END = (
    "After {} (the konnector's --unbind-timeout) the CustomResourceDefinitions are left to this "
    "cluster's garbage collector"
)


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
    obstacles: Obstacles,
    patience: float,
    given_up: bool = False,
    is_held: bool = False,
    refused: bool = False,
) -> UnbindPlan:
    """Decide the next step of one binding's deletion.

    Args:
        binding: its metadata.
        crds: the CRDs that it owns and that are still there.
        claimed: claimed objects that still have a copy.
        obstacles: why it does not go on.
        patience: seconds after which it goes on in spite of some of them.
        given_up: whether such an obstacle has lasted for so long; then objects are let go without
            the provider, what it has claimed goes with the binding, and the server's garbage
            collector takes the CRDs that the konnector may not delete.
        is_held: whether no copy is deleted, for another cluster has made them.
        refused: whether a server refuses to write objects because of their schema.
    """
    # Without the finalizer nothing is awaited: no CRD was written, or another removed it.
    if not binding.deleting or FINALIZER_UNBIND not in binding.finalizers:
        return UnbindPlan()
    if (not crds or obstacles.undeletable) and (given_up or not (crds or claimed)):
        return UnbindPlan(release=True)
    closed = [crd for crd in crds if (refused and not is_open(crd)) or installed_webhook(crd)]
    return UnbindPlan(
        # Before the deletion: a webhook that does not answer would hold it up for ever, and so
        # would a schema that refuses every write, without its conversion all the more.
        open=closed,
        delete=[crd for crd in crds if not (crd.meta.deleting or crd in closed)],
        condition=_unbinding(
            crds, claimed, obstacles, patience, given_up=given_up, is_held=is_held
        ),
        # Only of CRDs in deletion, for which API servers refuse to create further objects.
        let_go=[crd for crd in crds if crd.meta.deleting] if given_up else [],
    )


def gone_message(obstacles: Obstacles, copies: int) -> str:
    """Return the Event's text about a binding whose copies are left on the provider."""
    number = "1 copy stays" if copies == 1 else f"{copies} copies stay"
    if obstacles.unreachable:
        why = f"the provider counts as gone: {obstacles.unreachable}"
    else:
        why = obstacles.lossy
    return f"{why}; {number} there without an original"


def left_message(refused: str) -> str:
    """Return the Event's text about a binding with CRDs that the konnector could not delete."""
    return (
        f"its CustomResourceDefinitions are left to the garbage collector: {refused}. If "
        "objects keep the finalizer kubebind.io/syncer, remove it by hand"
    )


def kept_condition(binding: str, refusal: str) -> KubeBindCondition:
    """Return the condition about a binding whose own finalizer may not be removed."""
    message = (
        "unbinding: everything else is done, but this cluster refuses to remove the finalizer "
        f"{FINALIZER_UNBIND} from {APISERVICEBINDINGS.kind} {binding}: {refusal}"
    )
    return false(CONNECTED, UNBINDING, message, severity="Warning")


def _unbinding(
    crds: Sequence[Object],
    claimed: Sequence[str],
    obstacles: Obstacles,
    patience: float,
    *,
    given_up: bool,
    is_held: bool,
) -> KubeBindCondition:
    names = [f"CustomResourceDefinition {crd.meta.name}" for crd in crds]
    if given_up:
        message = f"unbinding without the provider: letting go objects of {', '.join(names)}"
    else:
        waiting = ", ".join([*names, *claimed])
        message = f"unbinding: waiting until objects and their copies are gone for {waiting}"
    text = obstacles.messages(patience, given_up=given_up)
    message = "; ".join([message, *text])
    if is_held:
        message += (
            "; these copies were made for another cluster and are not deleted: see condition "
            "CopiesHeld, or leave them where they are with `fairlead unbind --orphan`"
        )
    amiss = bool(text or given_up or is_held)
    return false(CONNECTED, UNBINDING, message, severity="Warning" if amiss else "Info")
